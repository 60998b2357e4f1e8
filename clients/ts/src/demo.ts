// The demo page: look-ups one after another, and the bytes that left the browser for each.

import { Client, type SentRequest, SpireaError, type Timings, type Value } from "./browser.js";

/** Codes of errors that end a client; the next look-up makes another one. */
const ENDING: readonly string[] = ["internal", "closed", "no-worker"];
/** Bytes of a query that are shown. */
const EXCERPT_BYTES = 48;

function element<T extends HTMLElement>(id: string): T {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`the page has no ${id}`);
  return found as T;
}

const [form, list, other, key] = [
  element<HTMLFormElement>("form"),
  element<HTMLSelectElement>("list"),
  element<HTMLInputElement>("other"),
  element<HTMLInputElement>("key"),
];
const [ask, stop, bar] = [
  element<HTMLButtonElement>("ask"),
  element<HTMLButtonElement>("stop"),
  element<HTMLProgressElement>("bar"),
];

/** An entry of the server's list of databases. */
interface Listed {
  name: string;
  protocol?: string;
  kind?: "index" | "keyword";
  entries?: number;
  state: string;
}

/** A connected client, with the inputs that it was made for. */
interface Open {
  client: Client;
  name: string;
  other: string;
  /** Milliseconds to connect, shown with the first look-up only. */
  connectMs: number | undefined;
}

let databases: Listed[] = [];
let open: Open | undefined;
let sent: SentRequest[] = [];
let excerptBefore: string | undefined;
let abort: AbortController | undefined;

function chosen(): Listed | undefined {
  return databases.find(({ name }) => name === list.value);
}

function twoServers(database: Listed | undefined): boolean {
  return database?.protocol?.startsWith("dpf-") ?? false;
}

function isByPosition(database: Listed | undefined): boolean {
  return database?.kind === "index";
}

const count = (number: number) => number.toLocaleString("en");
const bytes = (number: number) => (number < 10_000 ? `${count(number)} bytes` : `${count(Math.round(number / 1000))} kB`);
const time = (ms: number) => (ms < 10 ? `${ms.toFixed(1)} ms` : `${count(Math.round(ms))} ms`);

function hex(part: Uint8Array): string {
  return Array.from(part, (byte) => byte.toString(16).padStart(2, "0")).join(" ");
}

/** The label of what is looked up in a list, and how it is written. */
function wanted(database: Listed | undefined): [string, string] {
  if (isByPosition(database)) {
    const last = database?.entries === undefined ? "" : ` to ${count(database.entries - 1)}`;
    return ["Row", `A number from 0${last}.`];
  }
  if (/domain/.test(list.value)) {
    return ["Domain", "Such as ads-7.example. Capitals and spaces around it make no difference."];
  }
  if (/password/.test(list.value)) {
    return ["Password", "Taken as you type it. It does not leave this browser; neither does its hash."];
  }
  return ["Key", "Taken as you type it."];
}

function describeList(): void {
  const database = chosen();
  element("other-field").hidden = !twoServers(database);
  other.required = twoServers(database);
  const type = isByPosition(database) ? "number" : "text";
  if (key.type !== type) key.value = "";
  [key.type, key.min, key.step] = [type, "0", "1"];
  const [what, help] = wanted(database);
  element("key-label").textContent = what;
  element("key-help").textContent =
    database?.entries === undefined ? help : `${help} It is hidden among all ${count(database.entries)} entries of the list.`;
}

async function loadLists(): Promise<void> {
  const response = await fetch("/v1/databases", { headers: { accept: "application/json" } });
  if (!response.ok) throw new Error(`the server refuses to list its databases (status ${response.status})`);
  databases = ((await response.json()) as { databases: Listed[] }).databases;
  list.replaceChildren(...databases.map(({ name }) => new Option(name, name)));
  const asked = new URLSearchParams(location.search);
  other.value = asked.get("other") ?? "";
  if (databases.some(({ name }) => name === asked.get("list"))) list.value = asked.get("list")!;
  list.disabled = ask.disabled = databases.length === 0;
  describeList();
}

async function connected(signal: AbortSignal): Promise<Open> {
  const [name, second] = [list.value, twoServers(chosen()) ? other.value : ""];
  if (open?.name === name && open.other === second) return open;
  await open?.client.close();
  open = undefined;
  say("", "connecting…");
  const started = performance.now();
  const client = await Client.connect(second === "" ? location.origin : [location.origin, second], {
    database: name,
    signal,
    onProgress: ({ phase, done, total }) => {
      const text = phase === "hint" ? "Downloading the hint, once" : "Making evaluation keys, once";
      element("phase").textContent = `${text}: ${bytes(done)} of ${bytes(total)}`;
      // The progress of keys is unknown until they are complete.
      if (phase === "keys" && done < total) bar.removeAttribute("value");
      else bar.value = done / total;
      element("progress").hidden = done === total;
    },
    onRequest: (request) => sent.push(request),
  });
  const { storage } = client;
  element("kept").textContent =
    storage.kind === "memory"
      ? "Nothing is kept for your next visit."
      : "What was downloaded is kept in this browser for your next visit.";
  return (open = { client, name, other: second, connectMs: performance.now() - started });
}

function say(kind: "" | "listed" | "unlisted" | "failed", verdict: string, detail = "", fields: string[] = []): void {
  element("verdict").className = `verdict ${kind}`;
  element("verdict").textContent = verdict;
  element("detail").textContent = detail;
  const items = fields.map((field) => {
    const item = document.createElement("li");
    item.textContent = field;
    return item;
  });
  element("fields").replaceChildren(...items);
  element("fields").hidden = items.length === 0;
}

/** Shows a value: its only field in a line, several as a list. To be on a list is bad; to be a row is not. */
function showValue(byPosition: boolean, value: Value): void {
  const [kind, verdict] = byPosition ? (["", "Found"] as const) : (["listed", "On the list"] as const);
  const fields = value.names.map((name) => `${name}: ${value.text(name)}`);
  const [only = ""] = fields;
  if (fields.length > 1) say(kind, verdict, "", fields);
  else say(kind, verdict, only);
}

function showSent(asked: string): void {
  const queries = sent.filter(({ url }) => url.endsWith("/query"));
  const keys = sent.filter(({ url }) => url.endsWith("/keys"));
  const sum = (requests: SentRequest[]) => requests.reduce((all, { body }) => all + body.length, 0);
  const servers = new Set(queries.map(({ server }) => server)).size;
  const parts = [`${count(sum(queries))} bytes of encrypted query${servers > 1 ? `, to ${servers} servers` : ""}`];
  if (keys.length > 0) parts.push(`${count(sum(keys))} bytes of evaluation keys, once`);
  element("sent-summary").textContent = `${parts.join(", and ")}. As many for every key, listed or not.`;
  const body = queries[0]?.body ?? new Uint8Array();
  const middle = Math.max(0, Math.floor((body.length - EXCERPT_BYTES) / 2));
  const excerpt = hex(body.subarray(middle, middle + EXCERPT_BYTES));
  element("now").textContent = excerpt;
  element("before-figure").hidden = excerptBefore === undefined;
  element("before-caption").textContent = "From the middle of the one before";
  element("before").textContent = excerptBefore ?? "";
  excerptBefore = excerpt;
  const shown = document.createElement("mark");
  shown.textContent = asked;
  element("plain").replaceChildren(`GET /lists/${list.value}/`, shown);
  element("sent").hidden = false;
}

function showTime(timings: Timings, connectMs: number | undefined): void {
  const { queryMs, networkMs, serverMs, decodeMs, keysMs } = timings;
  const first: [string, string, number][] =
    connectMs === undefined ? [] : [["Connecting, with all that is needed once", "both", connectMs]];
  const upload: [string, string, number][] = keysMs > 0 ? [["Uploading evaluation keys, once", "network", keysMs]] : [];
  const rows: [string, string, number][] = [
    ...first,
    ...upload,
    ["Making the query", "this browser", queryMs],
    ["On the way, and waiting", "network", networkMs],
    ["Computing over the whole list", "server", serverMs],
    ["Decoding the answer", "this browser", decodeMs],
  ];
  const all: [string, string, number] = ["All of it", "", rows.reduce((sum, [, , ms]) => sum + ms, 0)];
  const row = ([phase, where, ms]: [string, string, number]) => {
    const [name, place, number] = [document.createElement("th"), document.createElement("td"), document.createElement("td")];
    name.scope = "row";
    number.className = "number";
    [name.textContent, place.textContent, number.textContent] = [phase, where, time(ms)];
    const line = document.createElement("tr");
    line.append(name, place, number);
    return line;
  };
  element("phases").replaceChildren(...[...rows, all].map(row));
  const description = open?.client.description;
  element("facts").textContent =
    description === undefined
      ? ""
      : `Protocol ${description.protocol}, ${count(description.entries)} entries, version ${description.version.slice(0, 12)}; ` +
        `the answer had ${bytes(timings.receivedBytes)}.`;
  element("time").hidden = false;
}

async function lookUp(): Promise<void> {
  const byPosition = isByPosition(chosen());
  const asked = !byPosition && /domain/.test(list.value) ? key.value.trim().toLowerCase() : key.value;
  abort = new AbortController();
  ask.disabled = true;
  stop.hidden = false;
  sent = [];
  say("", "");
  element("sent").hidden = element("time").hidden = true;
  try {
    const { client, connectMs } = await connected(abort.signal);
    say("", "asking…");
    const { values, timings } = await client.lookUp([byPosition ? Number(asked) : asked], { signal: abort.signal });
    if (open) open.connectMs = undefined;
    const [value] = values;
    if (value === undefined) {
      const verdict = byPosition ? "No such row" : "Not on the list";
      say("unlisted", verdict, "The server saw the same as if it were: it cannot tell which of the two you read here.");
    } else {
      showValue(byPosition, value);
    }
    showSent(asked);
    showTime(timings, connectMs);
  } catch (error) {
    if (error instanceof SpireaError && ENDING.includes(error.code)) open = undefined;
    const stopped = abort.signal.aborted;
    if (stopped) say("failed", "Stopped", "Nothing more is sent.");
    else say("failed", "No answer", error instanceof SpireaError ? error.message : "something unexpected happened; reload the page");
  } finally {
    ask.disabled = false;
    stop.hidden = true;
    element("progress").hidden = true;
  }
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  void lookUp();
});
stop.addEventListener("click", () => abort?.abort());
list.addEventListener("change", describeList);
loadLists().catch((error: unknown) => {
  say("failed", "No answer", error instanceof Error ? error.message : "the server does not answer; reload the page");
});
