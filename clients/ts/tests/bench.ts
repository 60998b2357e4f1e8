// Measures look-ups in Chromium: prints a JSON object for each protocol.
//
// usage: npm run bench -- [PROTOCOL ...]
//
// Ends with status 1 if a measurement exceeds its limit, and names the measurement.

import assert from "node:assert/strict";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import type { Browser } from "playwright-core";

import { InBrowser, launched } from "./support/browser.js";
import { machine } from "./support/machine.js";
import { installPackage } from "./support/package.js";
import { PAIRS, PER_QUERY, PROTOCOLS, Server, Spirea, bare, writeTable } from "./support/servers.js";
import { Site } from "./support/site.js";

const ENTRIES = 100_000;
const LOOK_UPS = 21;
/** Most milliseconds of a query and its decoding, by protocol. A protocol without a limit is only measured. */
const LIMITS: Record<string, number> = { simple: 30, hybrid: 150, onion: 150, "dpf-xor": 5, "dpf-sum": 5 };
/** Most milliseconds of generating keys. */
const KEYS_LIMIT = 1500;
/** Most milliseconds of a task on the page's own thread. */
const TASK_LIMIT = 50;

interface Watched {
  gap: number;
  longTask: number;
}

/**
 * Runs in the page: watches its thread for the longest time between two timers, and for the longest task. Browsers report tasks
 * of 50 ms or more.
 */
function watch() {
  const watched: Watched = { gap: 0, longTask: 0 };
  Object.assign(globalThis, { watched });
  new PerformanceObserver((list) => {
    for (const { duration } of list.getEntries()) watched.longTask = Math.max(watched.longTask, duration);
  }).observe({ type: "longtask" });
  let last = performance.now();
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = () => {
    const now = performance.now();
    watched.gap = Math.max(watched.gap, now - last);
    last = now;
    setTimeout(() => port2.postMessage(0), 1);
  };
  port2.postMessage(0);
}

/** Connects. Returns the time of generating keys. It is a string, so that the page resolves the import. */
const connect = (urls: string[], database: string) => `(async () => {
  const { Client } = await import("spirea");
  let begun, keys = null;
  const onProgress = ({ phase, done, total }) => {
    if (phase !== "keys") return;
    if (done === 0) begun = performance.now();
    if (done === total) keys = performance.now() - begun;
  };
  globalThis.client = await Client.connect(${JSON.stringify(urls)}, { database: "${database}", onProgress });
  return keys;
})()`;

interface LookUp {
  note: string;
  timings: { queryMs: number; decodeMs: number };
}

const lookUp = (row: number) => `(async () => {
  const { values, timings } = await client.lookUp(["key-${row}"]);
  return { note: values[0]?.text("note"), timings };
})()`;

const median = (numbers: number[]) => [...numbers].sort((a, b) => a - b)[numbers.length >> 1]!;
const rounded = (number: number, digits: number) => Number(number.toFixed(digits));

async function measured(browser: Browser, site: Site, name: string, urls: string[]) {
  await using visitor = await InBrowser.open(await browser.newContext(), site);
  const { page } = visitor;
  await page.evaluate(watch);
  const keys = await page.evaluate<number | null>(connect(urls, name));
  const lookUps: LookUp[] = [];
  for (let i = 0; i <= LOOK_UPS; i++) {
    const found = await page.evaluate<LookUp>(lookUp(997 * i));
    assert.equal(found.note, `note of ${997 * i}`);
    lookUps.push(found);
  }
  // The first look-up includes compilation by the engine.
  const [first, ...timings] = lookUps.map(({ timings }) => ({ ...timings, both: timings.queryMs + timings.decodeMs }));
  const watched = [await page.evaluate<Watched>("watched")];
  const about = await page.evaluate<Record<string, number>>("client.description");
  await page.evaluate("client.close()");
  // Measures another visit, with hint and keys from IndexedDB.
  await visitor.reload();
  await page.evaluate(watch);
  await page.evaluate(connect(urls, name));
  assert.equal((await page.evaluate<LookUp>(lookUp(5))).note, "note of 5");
  watched.push(await page.evaluate<Watched>("watched"));
  const { entries, hintBytes, queryBytes, answerBytes, keysBytes } = about;
  return {
    name,
    entries,
    look_ups: LOOK_UPS,
    query_ms: rounded(median(timings.map(({ queryMs }) => queryMs)), 2),
    decode_ms: rounded(median(timings.map(({ decodeMs }) => decodeMs)), 2),
    query_and_decode_ms: rounded(median(timings.map(({ both }) => both)), 2),
    worst_query_and_decode_ms: rounded(Math.max(...timings.map(({ both }) => both)), 2),
    first_query_and_decode_ms: rounded(first!.both, 2),
    keys_ms: keys === null ? null : rounded(keys, 1),
    longest_task_ms: rounded(Math.max(...watched.map(({ longTask }) => longTask)), 1),
    longest_gap_ms: rounded(Math.max(...watched.map(({ gap }) => gap)), 1),
    ...{ hintBytes, queryBytes, answerBytes, keysBytes },
  };
}

/** Returns the parts of a measurement that exceed their limits. */
function exceeded(found: Awaited<ReturnType<typeof measured>>): string[] {
  const limits = {
    query_and_decode_ms: LIMITS[bare(found.name)] ?? Infinity,
    keys_ms: KEYS_LIMIT,
    longest_task_ms: TASK_LIMIT,
  };
  const parts = Object.entries(limits) as [keyof typeof limits, number][];
  const over = parts.filter(([part, limit]) => (found[part] ?? 0) > limit);
  return over.map(([part, limit]) => `${found.name}: ${part} is ${found[part]}, and may be ${limit}`);
}

async function main(names: string[]): Promise<string[]> {
  const { spirea: program, chromium } = machine();
  assert(chromium !== undefined, "Chromium is missing: install it (Debian: apt-get install chromium)");
  const folder = await mkdtemp(join(tmpdir(), "spirea-bench-"));
  try {
    const [tables, installed] = [join(folder, "tables"), join(folder, "installed")];
    await Promise.all([mkdir(tables), mkdir(installed)]);
    await Promise.all([writeTable(join(tables, "table.csv"), ENTRIES), installPackage(installed)]);
    const spirea = new Spirea(program, tables);
    await using site = await Site.of(installed);
    const browser = await launched(chromium);
    const over: string[] = [];
    for (const name of names) {
      const options = PER_QUERY.includes(name) ? ["--keys", "per-query"] : [];
      const snapshot = await spirea.build(name, bare(name), { options });
      const parties = PAIRS.includes(name) ? [["--party", "0"], ["--party", "1"]] : [[]];
      const servers = await Promise.all(parties.map((party) => Server.start(spirea, snapshot, ...party)));
      const found = await measured(browser, site, name, servers.map(({ url }) => url));
      await Promise.all(servers.map((server) => server.stop()));
      console.log(JSON.stringify(found));
      over.push(...exceeded(found));
    }
    await browser.close();
    return over;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

const named = process.argv.slice(2);
const over = await main(named.length > 0 ? named : [...PROTOCOLS, ...PER_QUERY, ...PAIRS]);
for (const line of over) console.error(line);
process.exit(over.length > 0 ? 1 : 0);
