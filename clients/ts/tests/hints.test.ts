// Stored hints: damaged hints, partial long hints, and the keeper's records.

import { mkdir, readdir, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { expect, vi } from "vitest";

import type { InBrowser } from "./support/browser.js";
import { CHROMIUM, test as base } from "./support/fixtures.js";
import { Middle, passedOn } from "./support/middle.js";
import { printedBy } from "./support/node.js";
import { done, failed } from "./support/outcomes.js";
import { Server, type Spirea, value } from "./support/servers.js";
import { connect, get } from "./support/steps.js";

/** Builds a table whose hint has several pieces of 4 MiB. */
async function longTable(spirea: Spirea, version: number): Promise<string> {
  const rows = Array.from({ length: 6000 }, (_, row) => `key-${row},${longValue(row * version)},`);
  const table = `long-${version}.csv`;
  await writeFile(spirea.path(table), ["key,value,note", ...rows, ""].join("\n"));
  return spirea.build(`long-${version}`, "simple", { table, options: ["--name", "long"] });
}

const longValue = (number: number) => String(number).padStart(900, "0");

interface Signed {
  server: Server;
  publicKey: string;
}

const test = base.extend<{ longOnes: [first: Server, second: Server]; signed: Signed }>({
  /** Servers of two versions of a table. Each server has only its own version. */
  longOnes: [
    async ({ spirea }, use) => {
      await using first = await Server.start(spirea, await longTable(spirea, 1));
      await using second = await Server.start(spirea, await longTable(spirea, 2));
      await use([first, second]);
    },
    { scope: "file" },
  ],
  signed: [
    async ({ spirea }, use) => {
      const publicKey = (await spirea.run("key", "new", "signed.pem")).trim();
      const snapshot = await spirea.build("signed", "simple", { options: ["--sign", "signed.pem"] });
      await using server = await Server.start(spirea, snapshot);
      await use({ server, publicKey });
    },
    { scope: "file" },
  ],
});
const browserTest = test.skipIf(CHROMIUM === undefined);

browserTest("a hint is kept, and a damaged one is fetched again", async ({ page, signed: { server, publicKey } }) => {
  await using between = await Middle.before(server.url);
  const options = { pinnedKey: publicKey };
  const standing = await connect(page, between.url, "signed", options);
  expect(standing.storage).toEqual({ kind: "indexeddb", keys: true });
  expect(await get(page, "key-5")).toEqual(value(5));
  expect(between.asked("hint")).toHaveLength(1);
  for (const how of ["flipped", "cut", "other", "gone"]) {
    for (const damaged of [true, false]) {
      const before = between.asked("hint").length;
      await page.reload();
      if (damaged) expect(await page.stored("damage", "hint", how)).toBeGreaterThan(0);
      await connect(page, between.url, "signed", options);
      expect(await get(page, "key-5")).toEqual(value(5));
      // The client first resumes a hint that may be a beginning. The hint fetched in its place is whole.
      expect(damaged ? [1, 2] : [0], how).toContain(between.asked("hint").length - before);
    }
  }
  // Other damaged records are ignored and replaced.
  for (const kind of ["latest", "seen"]) {
    for (const how of ["flipped", "other", "cut", "gone"]) {
      expect(await page.stored("damage", kind, how), `${kind}, ${how}`).toBe(1);
      await page.reload();
      await connect(page, between.url, "signed", options);
      expect(await get(page, "key-5")).toEqual(value(5));
      expect((await page.stored("counts"))[kind]).toBe(1);
    }
  }
});

browserTest("versions of another key are refused", async ({ page, signed: { server, publicKey } }) => {
  await connect(page, server.url, "signed", { pinnedKey: publicKey });
  expect(await get(page, "key-5")).toEqual(value(5));
  const other = (publicKey.startsWith("0") ? "1" : "0") + publicKey.slice(1);
  const pinned = (pinnedKey: string) => page.call("connect", "client", server.url, { database: "signed", pinnedKey });
  failed(await pinned(other), "untrusted-version", "bad-option");
  failed(await pinned("no key"), "bad-option");
});

/** Returns the number of stored bytes of each hint. */
const hints = (page: InBrowser): Promise<Record<string, number>> => page.stored("hints");

/** Makes a visit that ends during a download, when the first piece is stored. */
async function halfAHint(page: InBrowser, between: Middle): Promise<void> {
  const cut = 5 << 20;
  const lengths: number[] = [];
  between.fate = async (seen, ask) => {
    const reply = await ask();
    if (seen.what !== "hint") return reply;
    const { length } = reply.body;
    lengths.push(length);
    return { ...reply, body: reply.body.subarray(0, cut), length, pieces: cut - 1, pause: 30_000 };
  };
  const before = Object.keys(await hints(page));
  await page.call("begin", "client", [], between.url, { database: "long" });
  const begun = async () => Object.keys(await hints(page)).filter((hint) => !before.includes(hint));
  await vi.waitFor(async () => expect(await begun()).toHaveLength(1), { timeout: 180_000 });
  expect(lengths).toHaveLength(1);
  expect(lengths[0]).toBeGreaterThan(cut);
  between.fate = passedOn;
  await page.leaveAndVisit();
}

browserTest("a page that closes while a hint comes goes on later", async ({ page, longOnes }) => {
  await using between = await Middle.before(longOnes[0].url);
  await halfAHint(page, between);
  await connect(page, between.url, "long");
  expect(await get(page, "key-4")).toEqual([longValue(4), ""]);
  // The client fetched only the rest.
  expect(between.asked("hint").map(({ status }) => status)).toEqual([200, 206]);
});

browserTest("halves of hints do not heap up", async ({ page, longOnes }) => {
  const [first, second] = longOnes.map(({ url }) => url);
  await using between = await Middle.before(first);
  await halfAHint(page, between);
  // A newer version is published before the download is resumed.
  between.upstream = second;
  const standing = await connect(page, between.url, "long");
  expect(await get(page, "key-4")).toEqual([longValue(8), ""]);
  const whole = standing.description.hintBytes;
  expect(Object.values(await hints(page))).toEqual([whole]);
  // A partial hint is stored beside the complete one, then replaced by a partial hint of another version.
  between.upstream = first;
  await halfAHint(page, between);
  expect(Object.values(await hints(page)).sort((a, b) => a - b)).toEqual([4 << 20, whole]);
  await page.reload();
  // The client removes hints that are longer than it may read.
  const refused = await page.call("connect", "client", between.url, { database: "long", maxHintBytes: 1 << 20 });
  failed(refused, "hint-too-large");
  expect(await hints(page)).toEqual({});
});

test("of five versions with half a hint one half is left", async ({ installed }) => {
  const program = `
    const { Keeper } = await import("${installed}/node_modules/spirea/dist/worker/keeper.js");
    const records = new Map();
    const below = (prefix, name) => prefix.every((part, i) => name[i] === part);
    const store = {
      kind: "folder",
      names: async (prefix) => [...records.keys()].map((name) => name.split("/")).filter((name) => below(prefix, name)),
      read: async (name) => records.get(name.join("/")),
      write: async (puts, drops) => {
        for (const name of [...records.keys()]) if (drops.some((prefix) => below(prefix, name.split("/")))) records.delete(name);
        for (const [name, value] of puts) records.set(name.join("/"), value);
      },
      close: () => undefined,
    };
    const piece = (hint, index) => ({ head: { change: "piece", hint, index }, body: new Uint8Array(10) });
    const hashes = Array.from("01234", (digit) => digit.repeat(64));
    const given = [];
    async function visit(changes, most = 1000) {
      const give = ({ stored, hint }, body) => stored === "hint" && given.push([hint[0], body.length]);
      const keeper = new Keeper({ give, takeChange: () => changes.shift() }, "scope", most);
      await keeper.open(async () => store, false);
      await keeper.store();
    }
    await visit([piece(hashes[0], 0), { head: { change: "latest", slot: "base", hint: hashes[0] }, body: new Uint8Array() }]);
    for (const hash of hashes) await visit([piece(hash, 0), piece(hash, 1)]);
    const left = () => [...records.keys()].filter((name) => name.startsWith("hint")).map((name) => name.split("/")[2][0]);
    console.log(left().join(""));
    // Of what is more than may be read, a slot's is the last to go.
    given.length = 0;
    await visit([], 25);
    console.log(left().join(""), JSON.stringify(given));
  `;
  expect((await printedBy(program, installed)).split("\n")).toEqual(["0044", '00 [["0",20]]']);
});

test("buffers that held secrets hold zeros", async ({ installed }) => {
  const program = `
    const worker = "${installed}/node_modules/spirea/dist/worker";
    const { Keeper } = await import(worker + "/keeper.js");
    const { Instance, moduleUrl } = await import(worker + "/instance.js");
    const { readFile } = await import("node:fs/promises");
    const module = await WebAssembly.compile(await readFile(moduleUrl()));
    const instance = await Instance.of(module, { random: () => undefined, now: () => 0, progress: () => undefined });
    const zeros = (bytes) => bytes.length > 0 && bytes.every((byte) => byte === 0);
    const given = new Uint8Array(100).fill(7);
    instance.give({ stored: "secret" }, given);
    // Keys are kept where there are locks.
    const request = async (name, options, granted) => granted({});
    Object.defineProperty(globalThis, "navigator", { value: { locks: { request } }, configurable: true });
    const kept = new Uint8Array(10).fill(7);
    const keptKeys = () => [{ head: { keys: "hash", record: 4 }, body: kept }];
    const [written, copies] = [[], []];
    const write = async (puts) => puts.forEach(([, value]) => (written.push(value), copies.push(value.join(""))));
    const store = { kind: "indexeddb", names: async () => [], read: async () => undefined, write, close: () => undefined };
    const keeper = new Keeper({ give: () => undefined, keptKeys }, "scope", 1000);
    await keeper.open(async () => store, true);
    await keeper.keepKeys();
    console.log(copies.join(" "), [given, kept, ...written].every(zeros));
    keeper.close();
  `;
  expect(await printedBy(program, installed)).toBe("7777 777777 true");
});

test("two clients of a program have one folder", async ({ node, longOnes, folder }) => {
  const cache = join(folder, "cache");
  await mkdir(cache);
  // One file is left by a program that ended while writing; another program is still writing the other one.
  const [abandoned, fresh] = ["1.spirea1.tmp", "2.spirea1.tmp"];
  for (const file of [abandoned, fresh]) await writeFile(join(cache, file), "half");
  await utimes(join(cache, abandoned), 0, 0);
  await using between = await Middle.before(longOnes[0].url);
  const options = { database: "long", cache };
  for (const id of ["one", "two"]) await node.call("begin", id, [], between.url, options);
  for (const id of ["one", "two"]) {
    done(await node.call("outcome", id));
    expect((await node.call("standing", id)).storage).toEqual({ kind: "folder", keys: false });
    expect(done(await node.call("lookUp", id, ["key-4"])).values).toEqual([[longValue(4), ""]]);
  }
  const fetched = between.asked("hint").length;
  done(await node.call("connect", "next", between.url, options));
  expect(between.asked("hint")).toHaveLength(fetched);
  expect((await readdir(cache)).filter((file) => file.endsWith(".tmp"))).toEqual([fresh]);
});
