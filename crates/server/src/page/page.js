// Operator's page: redraws the contents of /v1/admin/status and /metrics every second.
"use strict";

const PERIOD = 1000;
const REMEMBERED = 120;
const byId = (id) => document.getElementById(id);

let token = sessionStorage.getItem("token") || "";
let answered = [];

byId("access").addEventListener("submit", (event) => {
  event.preventDefault();
  token = byId("token").value.trim();
  sessionStorage.setItem("token", token);
  refresh();
});

function element(name, text, className) {
  const made = document.createElement(name);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

// Parses Prometheus text into samples { name, labels, value }.
function samples(text) {
  const found = [];
  for (const line of text.split("\n")) {
    const match = /^([a-zA-Z_:]\w*)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (!match) continue;
    const labels = {};
    for (const [, key, value] of (match[2] || "").matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) labels[key] = value;
    found.push({ name: match[1], labels, value: Number(match[3]) });
  }
  return found;
}

// Sums a histogram over all databases. Counts are per bucket, not cumulative as in Prometheus.
function histogram(all, name) {
  const sums = new Map();
  for (const { labels, value } of all.filter((sample) => sample.name === `${name}_bucket`)) {
    const bound = labels.le === "+Inf" ? Infinity : Number(labels.le);
    sums.set(bound, (sums.get(bound) || 0) + value);
  }
  const bounds = [...sums.keys()].sort((a, b) => a - b);
  return bounds.map((bound, i) => ({ bound, count: sums.get(bound) - (i ? sums.get(bounds[i - 1]) : 0) }));
}

const total = (all, name) =>
  all.filter((sample) => sample.name === name).reduce((sum, sample) => sum + sample.value, 0);

// Returns the bucket bound below which the fraction `share` of all samples lies.
function quantile(buckets, share) {
  const wanted = share * buckets.reduce((sum, bucket) => sum + bucket.count, 0);
  let sum = 0;
  for (const { bound, count } of buckets) if ((sum += count) >= wanted) return bound;
  return Infinity;
}

function seconds(value) {
  if (value === Infinity) return "more";
  if (value < 1e-3) return `${Math.round(value * 1e6)} µs`;
  return value < 1 ? `${Number((value * 1e3).toPrecision(3))} ms` : `${Number(value.toPrecision(3))} s`;
}

function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; value >= 1024 && unit < units.length - 1; unit += 1) value /= 1024;
  return `${Number(value.toPrecision(3))} ${units[unit]}`;
}

function span(value) {
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const at = Math.max(0, parts.findIndex(([size]) => value >= size));
  const [[size, unit], next] = [parts[at], parts[at + 1]];
  const rest = next ? Math.floor((value % size) / next[0]) : 0;
  return `${Math.floor(value / size)} ${unit}${rest ? ` ${rest} ${next[1]}` : ""}`;
}

const short = (version) => version.slice(0, 12);

function drawDatabases(databases) {
  byId("databases").replaceChildren(...databases.map((database) => {
    const row = document.createElement("tr");
    const cause = database.error || database.refused;
    const state = database.refused ? `ready; the next version failed: ${cause}` : cause ? `failed: ${cause}` : database.state;
    const compaction = database.compaction_failed ? `; its compaction failed: ${database.compaction_failed}` : "";
    const [current, ...former] = database.versions || [database.version];
    const version = document.createElement("td");
    version.append(element("code", short(current)));
    version.title = current;
    const older = document.createElement("td");
    older.append(element("code", former.slice(0, 3).map(short).join(" ") + (former.length > 3 ? " …" : "")));
    row.append(
      element("td", database.name),
      element("td", state + compaction, cause || compaction ? "bad" : ""),
      element("td", database.protocol || ""),
      element("td", (database.entries ?? "").toLocaleString("en"), "number"),
      element("td", (database.changes ?? "").toLocaleString("en"), "number"),
      version,
      older,
    );
    return row;
  }));
}

function drawLoad(status) {
  const facts = [
    ["waiting", status.load.waiting],
    ["being answered", status.load.running],
    ["connections", status.connections],
    ["memory of bodies", bytes(status.body_memory_bytes)],
    ["keys in memory", `${status.keys.memory.sets} (${bytes(status.keys.memory.bytes)})`],
    ["keys on disk", `${status.keys.disk.sets} (${bytes(status.keys.disk.bytes)})`],
    ["up", span(status.uptime_seconds)],
  ];
  byId("load").replaceChildren(...facts.map(([name, value]) => {
    const fact = document.createElement("div");
    fact.append(element("dt", name), element("dd", value));
    return fact;
  }));
}

function drawRate(count) {
  const now = performance.now();
  answered = [...answered, { at: now, count }].slice(-REMEMBERED - 1);
  const rates = answered.slice(1).map((sample, i) =>
    Math.max(0, (sample.count - answered[i].count) * 1000 / (sample.at - answered[i].at)));
  const most = Math.max(1, ...rates);
  const line = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
  const x = (i) => 600 - (rates.length - 1 - i) * 600 / (REMEMBERED - 1);
  line.setAttribute("points", rates.map((rate, i) => `${x(i).toFixed(1)},${(118 - 114 * rate / most).toFixed(1)}`).join(" "));
  byId("rate").replaceChildren(line);
  const last = rates.at(-1) ?? 0;
  byId("rate-now").textContent = `now ${last.toFixed(1)} a second, at most ${Math.max(0, ...rates).toFixed(1)}`;
}

// Draws bars for the buckets from the first to the last non-empty one.
function drawBars(id, buckets, name) {
  const filled = buckets.map((bucket, i) => [bucket, i]).filter(([bucket]) => bucket.count > 0).map(([, i]) => i);
  const shown = filled.length ? buckets.slice(filled[0], filled.at(-1) + 1) : [];
  const most = Math.max(1, ...shown.map((bucket) => bucket.count));
  byId(id).replaceChildren(...shown.map(({ bound, count }) => {
    const bar = element("div", "", "bar");
    const body = document.createElement("div");
    const filled = document.createElement("i");
    filled.style.width = `${100 * count / most}%`;
    body.append(filled);
    bar.append(element("span", name(bound)), body, element("b", count.toLocaleString("en")));
    return bar;
  }));
}

function draw(status, all) {
  drawDatabases(status.databases);
  drawLoad(status);
  const latency = histogram(all, "spirea_latency_seconds");
  const count = total(all, "spirea_latency_seconds_count");
  drawRate(count);
  drawBars("latency", latency, (bound) => bound === Infinity ? "more" : `up to ${seconds(bound)}`);
  byId("latency-quantiles").textContent = count
    ? [["half", 0.5], ["99%", 0.99]].map(([name, share]) => `${name} within ${seconds(quantile(latency, share))}`).join(", ")
    : "nothing has been asked yet";
  const batches = histogram(all, "spirea_batch_queries");
  drawBars("batches", batches, (bound) => bound === Infinity ? "more" : `up to ${bound}`);
  const launched = total(all, "spirea_batch_queries_count");
  byId("batches-mean").textContent = launched
    ? `${(total(all, "spirea_batch_queries_sum") / launched).toFixed(1)} on average`
    : "none yet";
  const failed = status.databases.filter((database) => database.state !== "ready").length;
  const summary = byId("summary");
  summary.className = failed ? "bad" : "";
  summary.textContent = status.leaving ? "leaving: no new connections"
    : `${status.databases.length - failed} of ${status.databases.length} databases answer`;
}

async function refresh() {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  try {
    const [status, metrics] = await Promise.all([
      fetch("/v1/admin/status", { headers, cache: "no-store" }),
      fetch("/metrics", { cache: "no-store" }),
    ]);
    const refused = status.status === 401 || status.status === 403;
    byId("access").hidden = !refused;
    byId("content").hidden = refused;
    if (refused) {
      byId("summary").textContent = token ? "the server does not take this token" : "the server asks for a token";
      byId("summary").className = token ? "bad" : "";
    } else if (!status.ok || !metrics.ok) {
      throw new Error(`status ${status.ok ? metrics.status : status.status}`);
    } else {
      draw(await status.json(), samples(await metrics.text()));
    }
  } catch (error) {
    byId("summary").className = "bad";
    byId("summary").textContent = `the server does not answer: ${error.message}`;
  }
}

refresh();
setInterval(refresh, PERIOD);
