// Versions that change during a client's life, and the randomness of each round of queries.

import { cp, writeFile } from "node:fs/promises";

import { expect } from "vitest";

import { browserTest } from "./support/fixtures.js";
import { FULL } from "./support/machine.js";
import { Middle } from "./support/middle.js";
import { done, failed } from "./support/outcomes.js";
import { Server, value } from "./support/servers.js";
import { connect, get } from "./support/steps.js";

const first = (row: number) => value(row).slice(0, 1);
const second = (row: number) => value(row).slice(1);

const CHANGING = FULL ? ["simple", "hybrid", "onion"] : ["simple", "hybrid"];

browserTest.for(CHANGING)("a new version between two look-ups: %s", async (protocol, { page, spirea }) => {
  const name = `changing-${protocol}`;
  const [repository, changes] = [spirea.path(`${name}-repository`), spirea.path(`${name}.jsonl`)];
  const base = await spirea.build(name, protocol, { fields: ["value"] });
  await spirea.run("publish", "--repository", repository, "--base", base);
  await writeFile(changes, '{"key": "key-5", "value": "new"}\n{"key": "key-6", "deleted": true}\n');
  {
    await using server = await Server.start(spirea, repository);
    await using between = await Middle.before(server.url);
    await connect(page, between.url, name);
    expect(await get(page, "key-5")).toEqual(first(5));
    const before = done(await page.call("lookUp", "client", ["key-6"])).description.version;
    await spirea.run("publish", "--server", server.admin, "--database", name, "--changes", changes);
    // An answer of the requested version announces a newer one, which the next look-up asks.
    expect(await get(page, "key-5")).toEqual(first(5));
    const found = done(await page.call("lookUp", "client", ["key-5", "key-6", "key-7"]));
    expect(found.values).toEqual([["new"], null, first(7)]);
    expect(found.description.version).not.toBe(before);
    // The stored hint serves the next version, which has the same base.
    await page.reload();
    await connect(page, between.url, name);
    expect(done(await page.call("lookUp", "client", ["key-5", "key-8"])).values).toEqual([["new"], first(8)]);
    // The hints of base and delta were fetched once each.
    expect(between.asked("hint")).toHaveLength(protocol === "simple" ? 2 : 0);
  }
  // A client whose server has ended reports that.
  failed(await page.call("lookUp", "client", ["key-5"]), "unreachable", "broken");
});

browserTest("a new version of two servers between two look-ups", async ({ page, spirea }) => {
  const old = await spirea.build("both", "dpf-xor", { fields: ["value"] });
  const fresh = await spirea.build("both-new", "dpf-xor", { fields: ["note"], options: ["--name", "both"] });
  const start = async (party: string) => {
    const repository = spirea.path(`both-${party}`);
    await spirea.run("publish", "--repository", repository, "--base", old);
    return Server.start(spirea, repository, "--party", party);
  };
  await using zero = await start("0");
  await using one = await start("1");
  const servers = [zero, one];
  await connect(page, servers.map(({ url }) => url), "both");
  const before = done(await page.call("lookUp", "client", ["key-5"]));
  expect(before.values).toEqual([first(5)]);
  for (const server of servers) {
    // While only one server has the new version, both answer with the version that they have in common.
    expect(await get(page, "key-5")).toEqual(first(5));
    await spirea.run("publish", "--server", server.admin, "--database", "both", "--base", fresh);
  }
  // The first server has announced the newer version, and both servers have it now.
  const after = done(await page.call("lookUp", "client", ["key-5"]));
  expect(after.values).toEqual([second(5)]);
  expect(after.description.version).not.toBe(before.description.version);
});

browserTest("a version that is older than what was seen is refused", async ({ page, spirea }) => {
  const publicKey = (await spirea.run("key", "new", "sealed.pem")).trim();
  const [old, fresh] = [spirea.path("sealed-old"), spirea.path("sealed-new")];
  const base = await spirea.build("sealed", "simple", { fields: ["value"] });
  await spirea.run("publish", "--repository", old, "--base", base, "--sign", "sealed.pem");
  await cp(old, fresh, { recursive: true });
  await writeFile(spirea.path("sealed.jsonl"), '{"key": "key-5", "value": "new"}\n');
  await spirea.run("publish", "--repository", fresh, "--changes", "sealed.jsonl", "--sign", "sealed.pem");
  await using older = await Server.start(spirea, old);
  await using newer = await Server.start(spirea, fresh);
  await using between = await Middle.before(newer.url);
  const options = { pinnedKey: publicKey };
  await connect(page, between.url, "sealed", options);
  expect(await get(page, "key-5")).toEqual(["new"]);
  // The server is rolled back and the page is reloaded, but the version seen is stored.
  between.upstream = older.url;
  await page.reload();
  failed(await page.call("connect", "client", between.url, { database: "sealed", ...options }), "untrusted-version");
  expect(await page.stored("damage", "seen", "gone")).toBe(1);
  await connect(page, between.url, "sealed", options);
  expect(await get(page, "key-5")).toEqual(first(5));
});

/** Script that records drawn randomness, and fails to draw when `dry` is set. */
const DRAWN = `
  globalThis.drawn = [];
  const draw = crypto.getRandomValues.bind(crypto);
  crypto.getRandomValues = (bytes) => {
    if (globalThis.dry) throw new Error("key-5");
    draw(bytes);
    drawn.push(Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join(""));
    return bytes;
  };
`;

browserTest.for(["simple", "hybrid", "dpf-xor"])("every round draws from the browser: %s", async (name, { page, server, pair }) => {
  page.beforeWorker(DRAWN);
  const [party, ...others] = name === "dpf-xor" ? pair : [server];
  await using between = await Middle.before(party!.url);
  await connect(page, [between.url, ...others.map(({ url }) => url)], name, { keep: "memory" });
  expect(await get(page, "key-5")).toEqual(value(5));
  await page.inWorker("drawn = []");
  const rounds: string[][] = [];
  for (let i = 0; i < 3; i++) {
    expect(await get(page, "key-5")).toEqual(value(5));
    rounds.push(await page.inWorker("drawn.splice(0)"));
  }
  // Each round draws the same amount, 32 bytes or more, and no draw repeats.
  const lengths = rounds.map((drawn) => drawn.map((draw) => draw.length));
  expect(lengths).toEqual([lengths[0], lengths[0], lengths[0]]);
  expect(rounds[0]!.join("").length).toBeGreaterThanOrEqual(64);
  expect(new Set(rounds.flat()).size).toBe(rounds.flat().length);
  const asked = between.seen.length;
  await page.inWorker("globalThis.dry = true");
  const error = failed(await page.call("lookUp", "client", ["key-5"]), "no-entropy");
  expect(JSON.stringify(error)).not.toContain("key-5");
  expect(between.seen).toHaveLength(asked);
  await page.inWorker("globalThis.dry = false");
  expect(await get(page, "key-5")).toEqual(value(5));
});
