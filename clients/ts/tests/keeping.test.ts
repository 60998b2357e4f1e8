// Storage between visits: persistent, damaged, denied, full, or used by two clients.

import { mkdir, readFile, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { expect, vi } from "vitest";

import { keyScope } from "../src/worker/scope.js";
import { InBrowser, launchedWithProfile } from "./support/browser.js";
import { CHROMIUM, browserTest, test } from "./support/fixtures.js";
import { passedOn } from "./support/middle.js";
import { done, failed } from "./support/outcomes.js";
import { value } from "./support/servers.js";
import { close, connect, get, keysOfQueries, shareNothing } from "./support/steps.js";

browserTest.for(["hybrid", "onion"])("keys of %s are used again after a reload", async (name, { page, between }) => {
  await connect(page, between.url, name);
  expect(await get(page, "key-5")).toEqual(value(5));
  await close(page);
  const stored = await page.stored("sizes");
  expect(stored.keys).toBeGreaterThan(100_000);
  expect(stored.secret).toBeGreaterThan(0);
  expect(stored.secret).toBeLessThan(100_000);
  await page.reload();
  await connect(page, between.url, name);
  expect(await get(page, "key-6")).toEqual(value(6));
  expect(await get(page, "key-1001")).toBeNull();
  expect(between.asked("keys")).toHaveLength(1);
  expect(new Set(keysOfQueries(between)).size).toBe(1);

  // A secret that is damaged, removed, or without its keys is not used.
  for (const [kind, how] of [["secret", "flipped"], ["secret", "gone"], ["keys", "flipped"], ["secret", "other"]]) {
    await close(page);
    expect(await page.stored("damage", kind, how), kind).toBe(1);
    await page.reload();
    await connect(page, between.url, name);
    expect(await get(page, "key-7")).toEqual(value(7));
    expect((await page.stored("sizes")).keys).toBe(stored.keys);
  }
  expect(between.asked("keys")).toHaveLength(5);
  expect(new Set(keysOfQueries(between)).size).toBe(5);
});

browserTest("nothing of what was asked or answered is stored", async ({ page, between }) => {
  const globals = () => page.page.evaluate(() => Object.getOwnPropertyNames(globalThis).sort());
  const before = await globals();
  for (const name of ["simple", "hybrid"]) {
    await connect(page, between.url, name);
    expect(await get(page, "key-5")).toEqual(value(5));
    await close(page);
  }
  const held = JSON.stringify(await page.stored("dump"));
  expect(held.length).toBeGreaterThan(100_000);
  for (const text of ["key-5", "value 5", "note of 5"]) {
    expect(held.includes(text) || held.includes(Buffer.from(text).toString("hex"))).toBe(false);
  }
  const elsewhere = await page.page.evaluate(() => [localStorage.length, sessionStorage.length, document.cookie]);
  expect(elsewhere).toEqual([0, 0, ""]);
  expect(await globals()).toEqual(before);
  expect(page.said).toEqual([]);
});

browserTest("a page that closes in the middle ends its keys", async ({ page, between }) => {
  await connect(page, between.url, "hybrid");
  expect(await get(page, "key-5")).toEqual(value(5));
  await close(page);
  await page.reload();
  await connect(page, between.url, "hybrid");
  between.fate = between.silence;
  await page.call("begin", "client", ["key-6"]);
  await between.waitFor("query", 2);
  // While the secret is in use, it is not in storage.
  expect(await page.stored("sizes")).not.toHaveProperty("secret");
  between.fate = passedOn;
  await page.leaveAndVisit();
  await connect(page, between.url, "hybrid");
  expect(await get(page, "key-6")).toEqual(value(6));
  expect(between.asked("keys")).toHaveLength(2);
  // There were three queries, the last of them under other keys.
  const [first, second, third, ...others] = keysOfQueries(between);
  expect(others).toEqual([]);
  expect(second).toBe(first);
  expect(third).not.toBe(first);
});

browserTest("of two pages one has the kept keys", async ({ page, between }) => {
  await connect(page, between.url, "hybrid");
  expect(await get(page, "key-5")).toEqual(value(5));
  const duplicate = await page.visit();
  const standing = done(await page.callIn(duplicate, "connect", "client", between.url, { database: "hybrid" }));
  expect(standing.storage).toEqual({ kind: "indexeddb", keys: false });
  expect(done(await page.callIn(duplicate, "lookUp", "client", ["key-6"])).values).toEqual([value(6)]);
  const [first, second] = keysOfQueries(between);
  expect(keysOfQueries(between)).toHaveLength(2);
  expect(second).not.toBe(first);
  // The first page goes on with its keys, and a page that connects after both have closed reuses them.
  expect(await get(page, "key-7")).toEqual(value(7));
  await duplicate.close();
  await close(page);
  await page.reload();
  expect((await connect(page, between.url, "hybrid")).storage.keys).toBe(true);
  expect(await get(page, "key-8")).toEqual(value(8));
  expect(keysOfQueries(between).slice(2)).toEqual([first, first]);
});

browserTest("two tokens share no keys", async ({ page, between }) => {
  for (const token of ["token-of-one", "token-of-another", "token-of-one", undefined]) {
    await connect(page, between.url, "hybrid", { token });
    expect(await get(page, "key-5")).toEqual(value(5));
    await close(page);
    await page.reload();
  }
  const [one, another, again, none] = keysOfQueries(between);
  expect(new Set([one, another, none]).size).toBe(3);
  expect(again).toBe(one);
  expect(between.asked("keys")).toHaveLength(3);
  expect(JSON.stringify(await page.stored("dump"))).not.toContain("token-of");
});

test("names of keys tell tokens apart and hold none", async () => {
  const tokens = ["token-of-one", "token-of-another", undefined];
  const scopes = await Promise.all(tokens.map((token) => keyScope("database https://server", token)));
  expect(new Set(scopes).size).toBe(3);
  expect(await keyScope("database https://server", tokens[0])).toBe(scopes[0]);
  for (const scope of scopes) expect(scope).not.toContain("token-of");
});

browserTest("a profile that is restored repeats no randomness", async ({ page, between }) => {
  await connect(page, between.url, "hybrid");
  expect(await get(page, "key-5")).toEqual(value(5));
  await close(page);
  const copied = await page.stored("dump");
  const queries: Buffer[] = [];
  for (let i = 0; i < 2; i++) {
    await page.stored("restore", copied);
    await page.reload();
    await connect(page, between.url, "hybrid");
    expect(await get(page, "key-5")).toEqual(value(5));
    queries.push(between.asked("query").at(-1)!.body);
    await page.leaveAndVisit();
  }
  // Both clients used the keys of the copy, and their queries have nothing else in common.
  expect(between.asked("keys")).toHaveLength(1);
  expect(new Set(keysOfQueries(between)).size).toBe(1);
  shareNothing(queries[0]!, queries[1]!);
});

browserTest("storage that is full is done without", async ({ page, between }) => {
  const session = await page.context.newCDPSession(page.page);
  const { origin } = new URL(page.site.url);
  await session.send("Storage.overrideQuotaForOrigin", { origin, quotaSize: 1000 });
  const standing = await connect(page, between.url, "simple");
  expect(standing.storage).toEqual({ kind: "memory", keys: false, reason: "full" });
  expect(await get(page, "key-5")).toEqual(value(5));
  expect(await get(page, "key-1001")).toBeNull();
  await close(page);
  // When there is room again, the hint is stored again.
  await session.send("Storage.overrideQuotaForOrigin", { origin });
  for (let visit = 0; visit < 2; visit++) {
    await page.reload();
    expect((await connect(page, between.url, "simple")).storage.kind).toBe("indexeddb");
    expect(await get(page, "key-5")).toEqual(value(5));
    expect(between.asked("hint")).toHaveLength(2);
  }
});

browserTest("storage that becomes full keeps no used secret", async ({ page, between }) => {
  page.beforeWorker(`
    const { put } = IDBObjectStore.prototype;
    IDBObjectStore.prototype.put = function (...record) {
      if (globalThis.full) throw new DOMException("no room", "QuotaExceededError");
      return put.apply(this, record);
    };
  `);
  await connect(page, between.url, "hybrid");
  expect(await get(page, "key-5")).toEqual(value(5));
  await close(page);
  expect((await page.stored("counts")).secret).toBe(1);
  await page.reload();
  await connect(page, between.url, "hybrid");
  await page.inWorker("globalThis.full = true");
  expect(await get(page, "key-5")).toEqual(value(5));
  // The page learns of the failure, although it had received its value before.
  const full = { kind: "memory", keys: false, reason: "full" };
  await vi.waitFor(async () => expect((await page.call("standing", "client")).storage).toEqual(full), { timeout: 180_000 });
  await close(page);
  // The stored secret has been used.
  expect(await page.stored("counts")).not.toHaveProperty("secret");
  await page.reload();
  await connect(page, between.url, "hybrid");
  expect(await get(page, "key-6")).toEqual(value(6));
  expect(between.asked("keys")).toHaveLength(2);
  const [first, second, third, ...others] = keysOfQueries(between);
  expect(others).toEqual([]);
  expect(second).toBe(first);
  expect(third).not.toBe(first);
});

browserTest("a secret that cannot be removed is not used", async ({ page, between }) => {
  await connect(page, between.url, "hybrid");
  expect(await get(page, "key-5")).toEqual(value(5));
  await close(page);
  await page.reload();
  await connect(page, between.url, "hybrid");
  await page.stored("hold");
  const error = failed(await page.call("lookUp", "client", ["key-6"]), "storage");
  expect(JSON.stringify(error)).not.toContain("key-6");
  expect(between.asked("query")).toHaveLength(1);
  await page.stored("letGo");
  expect(await get(page, "key-6")).toEqual(value(6));
  expect(between.asked("keys")).toHaveLength(1);
});

browserTest("storage that is cleared is made again", async ({ page, between }) => {
  await connect(page, between.url, "hybrid");
  expect(await get(page, "key-5")).toEqual(value(5));
  await page.page.evaluate(async () => {
    await new Promise((done, not) => Object.assign(indexedDB.deleteDatabase("spirea"), { onsuccess: done, onerror: not }));
  });
  expect(await get(page, "key-6")).toEqual(value(6));
  expect(await get(page, "key-7")).toEqual(value(7));
  await close(page);
  await page.reload();
  await connect(page, between.url, "hybrid");
  expect(await get(page, "key-8")).toEqual(value(8));
});

browserTest("storage that is denied is done without", async ({ site, between, folder }) => {
  // The profile of a user who blocks the storage of pages.
  await mkdir(join(folder, "Default"));
  const blocked = { profile: { default_content_setting_values: { cookies: 2 } } };
  await writeFile(join(folder, "Default", "Preferences"), JSON.stringify(blocked));
  await using page = await InBrowser.open(await launchedWithProfile(CHROMIUM!, folder), site);
  for (const name of ["simple", "hybrid"]) {
    const standing = await connect(page, between.url, name);
    expect(standing.storage).toEqual({ kind: "memory", keys: false, reason: "denied" });
    expect(await get(page, "key-5")).toEqual(value(5));
  }
});

browserTest("who wants nothing kept has nothing kept", async ({ page, between }) => {
  const noKeys = await connect(page, between.url, "hybrid", { keepKeys: false });
  expect(noKeys.storage).toEqual({ kind: "indexeddb", keys: false });
  expect(await get(page, "key-5")).toEqual(value(5));
  await close(page);
  expect(await page.stored("dump")).toEqual([]);
  const nothing = await connect(page, between.url, "simple", { keep: "memory" });
  expect(nothing.storage).toEqual({ kind: "memory", keys: false });
  expect(await get(page, "key-5")).toEqual(value(5));
  await close(page);
  expect(await page.stored("dump")).toEqual([]);
});

browserTest("storage of another format is made anew or left alone", async ({ page, between }) => {
  await connect(page, between.url, "simple");
  expect(await get(page, "key-5")).toEqual(value(5));
  await close(page);
  // A package with a later format removes the data of this format.
  page.site.changes.set("worker/indexeddb.js", (text) => text.replace("FORMAT = 2", "FORMAT = 3"));
  for (let visit = 0; visit < 2; visit++) {
    await page.reload();
    expect((await connect(page, between.url, "simple")).storage).toEqual({ kind: "indexeddb", keys: true });
    expect(await get(page, "key-5")).toEqual(value(5));
    expect(between.asked("hint")).toHaveLength(2);
    await close(page);
  }
  const stored = await page.stored("dump");
  // A package with this format neither uses nor changes data of a later format.
  page.site.changes.clear();
  await page.reload();
  const standing = await connect(page, between.url, "simple");
  expect(standing.storage).toEqual({ kind: "memory", keys: false, reason: "denied" });
  expect(await get(page, "key-5")).toEqual(value(5));
  await close(page);
  expect(await page.stored("dump")).toEqual(stored);
  expect(between.asked("hint")).toHaveLength(3);
});

test("a program keeps hints in a folder", async ({ node, between, folder }) => {
  const cache = join(folder, "cache");
  const lookUp = async (cache: string) => {
    const { storage } = await connect(node, between.url, "simple", { cache });
    expect(await get(node, "key-5")).toEqual(value(5));
    await close(node);
    return storage;
  };
  for (let i = 0; i < 2; i++) expect(await lookUp(cache)).toEqual({ kind: "folder", keys: false });
  expect(between.asked("hint")).toHaveLength(1);
  for (const file of await readdir(cache)) {
    const content = await readFile(join(cache, file));
    content[content.length >> 1]! ^= 1;
    await writeFile(join(cache, file), content);
  }
  expect(await lookUp(cache)).toEqual({ kind: "folder", keys: false });
  expect(between.asked("hint")).toHaveLength(2);
  // A folder that cannot be created, because a file has its name.
  await writeFile(join(folder, "file"), "");
  expect(await lookUp(join(folder, "file"))).toEqual({ kind: "memory", keys: false, reason: "denied" });
});
