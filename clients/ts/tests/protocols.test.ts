// Look-ups by every protocol, in a page and in Node, and the servers' view of them.

import { writeFile } from "node:fs/promises";
import { join } from "node:path";

import { afterAll, describe, expect } from "vitest";

import { RUNTIMES, type Runtime } from "./support/fixtures.js";
import { type Seen, proxies } from "./support/middle.js";
import { done, failed } from "./support/outcomes.js";
import { COMMON, FIELDS, OTHERS, PAIRS, ROWS, Server, type Served, type Spirea, bare, value } from "./support/servers.js";
import { close, connect, get, shareNothing } from "./support/steps.js";

const KEYED = ["exppack-simple", "exppack-double", "double-pack", "hybrid", "onion"];
const HINTED = ["simple", "double"];
const OF_PAIRS = [...PAIRS, "dpf-xor-bins"];
const IN_BINS = ["dpf-xor-bins", "exppack-simple-bins"];

/** A server of the tables in OTHERS, once a test needs it. To open them takes seconds of processor time. */
let others: Promise<Server> | undefined;
afterAll(async () => (await others)?.stop());

async function startOthers(spirea: Spirea): Promise<Server> {
  const folder = await spirea.makeFolder("others-");
  const build = (name: string) => {
    const options = name.endsWith("-per-query") ? ["--keys", "per-query"] : [];
    return spirea.build(join(folder, name), bare(name), { options });
  };
  return Server.start(spirea, ...(await Promise.all(OTHERS.map(build))));
}

const shape = ({ method, what, body, status, answer }: Seen) => [method, what, body.length, status, answer.length];

/** Looks up present and absent keys, and checks that they look the same to the servers. */
async function lookUps(runtime: Runtime, name: string, servers: Served[]): Promise<void> {
  await using between = await proxies(servers);
  // Two servers may be given in any order.
  const urls = between.map(({ url }) => url).reverse();
  const { description, storage } = await connect(runtime, urls, name, { keep: "memory" });
  expect(description).toMatchObject({ protocol: bare(name), entries: ROWS, fields: FIELDS, keyword: true });
  expect(description.servers).toBe(servers.length);
  expect(description.version).toHaveLength(64);
  expect(description.hintBytes > 0).toBe(HINTED.includes(name) || name.endsWith("-per-query"));
  expect(description.keysBytes > 0).toBe(KEYED.includes(name));
  expect(storage).toEqual({ kind: "memory", keys: false });

  /** The requests of each look-up, by server. */
  const lookedUp: Seen[][][] = [];
  const asked: [key: string, found: string[] | null][] = [
    ["key-7", value(7)],
    ["key-7", value(7)],
    ["key-999", value(999)],
    ["key-1000", null],
    ["", null],
  ];
  for (const [key, expected] of asked) {
    for (const one of between) one.seen = [];
    const { values, timings } = done(await runtime.call("lookUp", "client", [key]));
    expect(values).toEqual([expected]);
    expect(timings.requests).toBe(1);
    expect(timings.sentBytes).toBeGreaterThan(0);
    expect(timings.receivedBytes).toBeGreaterThan(0);
    lookedUp.push(between.map(({ seen }) => seen));
    for (const { path, body } of between.flatMap(({ seen }) => seen)) {
      if (key !== "") expect(body.includes(key) || path.includes(key)).toBe(false);
    }
  }
  // Keys are uploaded once. Otherwise number and lengths of requests are the same for any key, present or absent.
  const [first, ...rest] = lookedUp.map((ofServers) => ofServers.map((seen) => seen.map(shape)));
  const expectedOfEach = KEYED.includes(name) ? ["keys", "query"] : ["query"];
  expect(first!.map((seen) => seen.map(([, what]) => what))).toEqual(servers.map(() => expectedOfEach));
  const queries = first!.map((seen) => seen.slice(-1));
  expect(rest).toEqual(rest.map(() => queries));
  // Two queries for the same key share no run of bytes, except for the version and the keys' name at the start.
  for (const server of servers.keys()) {
    shareNothing(lookedUp[0]![server]!.at(-1)!.body, lookedUp[1]![server]!.at(-1)!.body);
  }

  for (const one of between) one.seen = [];
  await runtime.call("told");
  const many = done(await runtime.call("lookUp", "client", ["key-3", "key-1500", "key-3", "key-4"]));
  expect(many.values).toEqual([value(3), null, value(3), value(4)]);
  // The page is told of every request, and no other request was sent.
  const { requests } = await runtime.call("told");
  const sent = between.flatMap(({ seen }) => seen);
  const lasts = requests.map(({ url }: { url: string }) => url.split("/").at(-1));
  expect(lasts).toEqual(sent.map(({ what }) => what));
  expect(new Set(lasts)).toEqual(new Set(["query"]));
  await close(runtime);
}

describe.for(RUNTIMES)("$where", ({ among, test }) => {
  test.for(among(COMMON))("look-ups: %s", (name, { runtime, server }) => lookUps(runtime, name, [server]));
  test.for(among(OTHERS))("look-ups: %s", async (name, { runtime, spirea }) => {
    await lookUps(runtime, name, [await (others ??= startOthers(spirea))]);
  });
  test.for(among(OF_PAIRS))("look-ups of two servers: %s", (name, { runtime, pair }) => lookUps(runtime, name, pair));

  test.for(IN_BINS)("a fetch brings a value of each bin: %s", async (name, { runtime, server, pair }) => {
    await using between = await proxies(name.startsWith("dpf") ? pair : [server]);
    await connect(runtime, between.map(({ url }) => url), name);
    const keys = Array.from({ length: 12 }, (_, row) => `key-${row}`);
    // The first fetch registers keys, if there are any.
    done(await runtime.call("fetchOnce", "client", []));
    const shapes: unknown[] = [];
    for (const asked of [keys, keys.slice(0, 1), ["none"]]) {
      for (const one of between) one.seen = [];
      const found: unknown[] = done(await runtime.call("fetchOnce", "client", asked));
      expect(found).toHaveLength(asked.length);
      expect(found[0]).not.toBe("dropped");
      for (const [row, got] of found.entries()) {
        if (got !== "dropped") expect(got).toEqual(asked[0] === "none" ? null : value(row));
      }
      shapes.push(between.map(({ seen }) => seen.map(shape)));
    }
    expect(shapes).toEqual([shapes[0], shapes[0], shapes[0]]);
    // Of twelve keys in eight bins, at least two are in the same bin.
    expect(done(await runtime.call("fetchOnce", "client", keys))).toContain("dropped");
  });

  test("progress is told", async ({ runtime, server }) => {
    done(await runtime.call("connect", "hinted", server.url, { database: "simple" }));
    type Event = { phase: string; done: number; total: number };
    const ofHint: Event[] = (await runtime.call("told")).progress;
    expect(new Set(ofHint.map(({ phase }) => phase))).toEqual(new Set(["hint"]));
    const steps = ofHint.map(({ done }) => done);
    expect(steps).toEqual([...steps].sort((a, b) => a - b));
    expect(steps.at(-1)).toBe(ofHint.at(-1)!.total);
    expect(steps.at(-1)).toBeGreaterThan(0);
    done(await runtime.call("connect", "keyed", server.url, { database: "onion" }));
    const ofKeys: Event[] = (await runtime.call("told")).progress;
    expect(ofKeys.map(({ phase, done, total }) => [phase, done === total])).toEqual([["keys", false], ["keys", true]]);
    expect(ofKeys[1]!.total).toBeGreaterThan(100_000);
  });

  test("what is no key of the table is refused", async ({ runtime, server }) => {
    // A table with keys cannot be looked up by index.
    await connect(runtime, server.url, "simple");
    for (const keys of [[7], [-1], ["key-1", 7]]) failed(await runtime.call("lookUp", "client", keys), "bad-request");
    expect(done(await runtime.call("lookUp", "client", [])).values).toEqual([]);
    expect(await get(runtime, "key-7")).toEqual(value(7));
  });

  test("a key that is no text is asked for by its one text", async ({ runtime, spirea }) => {
    const moment = Date.parse("2024-05-01T14:34:56.500+02:00");
    const keys = [{ date: 0 }, { date: moment }, { bigint: "18446744073709551615" }, { bigint: "-7" }, true];
    const texts = ["1970-01-01T00:00:00Z", "2024-05-01T12:34:56.5Z", "18446744073709551615", "-7", "true"];
    const table = `typed-${runtime.name}.csv`;
    await writeFile(spirea.path(table), ["k,v", ...texts.map((text, i) => `${text},${i}`), ""].join("\n"));
    const snapshot = spirea.path(`typed-${runtime.name}`);
    await spirea.run("build", "--input", table, "--key", "k", "--value", "v", "--name", "typed", "--out", snapshot);
    await using server = await Server.start(spirea, snapshot);
    await connect(runtime, server.url, "typed");
    expect(done(await runtime.call("lookUp", "client", keys)).values).toEqual(texts.map((_, i) => [String(i)]));
    for (const key of [{ date: "none" }, { date: 8.64e15 }, 1.5]) {
      failed(await runtime.call("lookUp", "client", [key]), "bad-request");
    }
  });

  test("a look-up says which version answered, and takes the bytes of a buffer", async ({ runtime, server }) => {
    const { description } = await connect(runtime, server.url, "simple");
    const { values, versions } = done(await runtime.call("lookUpBuffers", "client", ["key-7", "nobody"]));
    expect(values).toEqual([value(7), null]);
    expect(versions).toEqual([description.version, description.version]);
    expect(done(await runtime.call("textOf", "client", "key-7", FIELDS[0]))).toBe(value(7)[0]);
    expect(failed(await runtime.call("textOf", "client", "key-7", "none"), "bad-request").message).toContain(FIELDS[0]);
  });

  test("a table without keys is asked by index", async ({ runtime, spirea }) => {
    const snapshot = spirea.path(`rows-${runtime.name}`);
    await spirea.run("build", "--input", "table.csv", "--value", "value", "--name", "rows", "--out", snapshot);
    await using server = await Server.start(spirea, snapshot);
    expect((await connect(runtime, server.url, "rows")).description.keyword).toBe(false);
    const rows = [7, 999, 0];
    expect(done(await runtime.call("lookUp", "client", rows)).values).toEqual(rows.map((row) => value(row).slice(0, 1)));
    failed(await runtime.call("lookUp", "client", [1000]), "bad-request");
    failed(await runtime.call("lookUp", "client", ["key-7"]), "bad-request");
  });
});
