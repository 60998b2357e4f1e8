// Malicious servers: wrong data is never accepted, and the next messages do not depend on the looked-up key.

import { describe, expect } from "vitest";

import { showInThisTest } from "./support/evidence.js";
import { RUNTIMES, browserTest } from "./support/fixtures.js";
import { FULL } from "./support/machine.js";
import { type Fate, Middle, type Reply, on, passedOn } from "./support/middle.js";
import { failed, done } from "./support/outcomes.js";
import { value } from "./support/servers.js";
import { HASTY, KEY, connectHastily as connect, get, silent } from "./support/steps.js";
import { UNKNOWN_KEYS, flipped, keysNamed, ofAnotherVersion, oneAtATime, withNewest } from "./support/wire.js";

type Change = (reply: Reply) => Reply;

/** Changes a reply's body. */
const body =
  (change: (body: Buffer) => Buffer): Change =>
  (reply) => ({ ...reply, body: change(reply.body) });

const cut = body((bytes) => bytes.subarray(0, bytes.length >> 1));
const emptied = body(() => Buffer.alloc(0));
const doubled = body((bytes) => Buffer.concat([bytes, bytes]));
const endless: Change = (reply) => ({ ...reply, endless: Buffer.alloc(1 << 16) });

function damaged(at: number): Change {
  return body((bytes) => {
    const copy = Buffer.from(bytes);
    const place = Math.floor(at * (copy.length - 1));
    copy[place]! ^= 0x10;
    return copy;
  });
}

/** Wrong answers, with the codes with which a look-up may fail. */
const LIES: Record<string, [Change, ...codes: string[]]> = {
  "another answer": [body(flipped), "wrong-answer"],
  zeros: [body((bytes) => Buffer.concat([bytes.subarray(0, 200)], bytes.length)), "wrong-answer", "unusable-response"],
  "half of it": [cut, "unusable-response", "wrong-answer"],
  nothing: [emptied, "unusable-response", "other-version", "wrong-answer"],
  twice: [doubled, "broken", "unusable-response"],
  "of another version": [body(ofAnotherVersion), "wrong-config"],
  text: [body(() => Buffer.from("<html>")), "unusable-response", "other-version"],
  "a length that is not so": [(reply) => ({ ...reply, length: reply.body.length + 100 }), "broken", "timed-out", "unreachable"],
  "without end": [endless, "broken"],
  "a connection that closes": [(reply) => ({ ...reply, body: Buffer.alloc(0), length: 1000 }), "broken", "unreachable"],
};

browserTest.for(FULL ? ["simple", "hybrid"] : ["hybrid"])("answers that are lies: %s", async (database, { page, between }) => {
  let current = "";
  showInThisTest("lie", () => current);
  await connect(page, between.url, database);
  for (const [lie, [change, ...codes]] of Object.entries(LIES)) {
    current = lie;
    between.fate = passedOn;
    expect(await get(page)).toEqual(value(5));
    between.fate = on("query", change);
    for (const key of [KEY, "key-1001"]) {
      const error = failed(await page.call("lookUp", "client", [key]), ...codes);
      silent(error, key);
      silent(error, "value 5");
    }
  }
  between.fate = passedOn;
  expect(await get(page)).toEqual(value(5));
  expect(await page.page.evaluate(() => Object.keys(globalThis).filter((name) => name === "harness"))).toEqual(["harness"]);
  expect(page.errors).toEqual([]);
});

/** Replies to one query of a look-up of four requests. */
const FATES: Record<string, Change> = {
  damaged: body(flipped),
  "damaged and replaced": body((bytes) => withNewest(flipped(bytes), Buffer.alloc(32))),
  forgotten: ({ headers }) => ({ status: 424, headers, body: UNKNOWN_KEYS }),
};
const HONEST = ["query", "query", "query", "query"];
const RENEWED = ["query", "query", "query", "query", "query"];
/** The same expectations as in crates/client/src/http/tests/lies.rs. */
const LIES_OF_MANY: { fates: Record<number, string>; asked: string[]; answered: boolean }[] = [
  { fates: { 0: "damaged" }, asked: HONEST, answered: false },
  { fates: { 3: "damaged" }, asked: HONEST, answered: false },
  { fates: { 0: "damaged", 2: "damaged" }, asked: HONEST, answered: false },
  { fates: { 2: "forgotten" }, asked: RENEWED, answered: true },
  { fates: { 0: "damaged", 2: "forgotten" }, asked: RENEWED, answered: false },
  { fates: { 0: "damaged and replaced" }, asked: ["query", "config", "query", "query", "query"], answered: false },
];

browserTest.for(["hybrid", "onion"])("a lying server and a look-up of many requests: %s", async (database, { page, between }) => {
  const oneEach = on("config", body(oneAtATime));
  const keys = [0, 1, 2, 3].map((row) => `key-${row}`);
  between.fate = oneEach;
  await connect(page, between.url, database, { keep: "memory" });
  expect(await get(page)).toEqual(value(5));
  for (const { fates, asked, answered } of LIES_OF_MANY) {
    between.seen = [];
    between.fate = async (seen, ask) => {
      const fate = seen.what === "query" ? fates[between.asked("query").length - 1] : undefined;
      const reply = await oneEach(seen, ask);
      return fate !== undefined && reply ? FATES[fate]!(reply) : reply;
    };
    const found = await page.call("lookUp", "client", keys);
    if (answered) expect(done(found).values).toEqual([0, 1, 2, 3].map(value));
    else failed(found, "wrong-answer");
    expect(between.seen.map(({ what }) => what)).toEqual(asked);
    const queries = between.asked("query");
    // All queries name the same keys and have the same length, whatever the replies are. A request that is sent again begins
    // with the same bytes, and the keys follow; the next one brings them too.
    const brought = queries.filter((query) => query.body.length > queries[0]!.body.length);
    expect(brought).toHaveLength(asked === RENEWED ? 2 : 0);
    if (brought[0]) {
      const refused = queries[queries.indexOf(brought[0]) - 1]!.body;
      expect(brought[0].body.subarray(0, refused.length).equals(refused)).toBe(true);
    }
    expect(new Set(queries.map((query) => keysNamed(query.body))).size).toBe(1);
    expect(new Set(queries.map((query) => query.body.length)).size).toBe(asked === RENEWED ? 2 : 1);
    between.fate = oneEach;
    between.seen = [];
    expect(await get(page)).toEqual(value(5));
    // An answer that does not verify ends the use of the keys.
    const [next, ...others] = between.asked("query");
    expect(others).toEqual([]);
    expect(keysNamed(next!.body) !== keysNamed(queries[0]!.body)).toBe(!answered);
    // The new ones are registered, or come behind the query if earlier refusals make requests bring keys.
    const brings = next!.body.length > queries[0]!.body.length;
    expect(between.asked("keys").length + Number(brings)).toBe(answered ? 0 : 1);
  }
});

/** Number of places at which a message is damaged, one after another. */
const PLACES = FULL ? 8 : 3;
const damagedSomewhere = (...outcomes: string[]) =>
  Array.from({ length: PLACES }, (_, i): [Change, ...string[]] => [damaged(i / (PLACES - 1)), ...outcomes]);

/**
 * Changes to the responses while a client connects, with the outcomes of each: codes, or "right". A client never reads more
 * than the length of a hint. A doubled configuration has the same content.
 */
const LIES_TO_CONNECT: Record<string, [Change, ...outcomes: string[]][]> = {
  config: [
    ...damagedSomewhere("wrong-config", "unusable-response", "right"),
    [cut, "unusable-response", "wrong-config"],
    [emptied, "other-version"],
    [doubled, "right"],
    [endless, "broken"],
  ],
  hint: [
    ...damagedSomewhere("hint-corrupted"),
    [cut, "broken"],
    [emptied, "broken"],
    [doubled, "right"],
    [endless, "right"],
  ],
};

describe.for(RUNTIMES)("$where", ({ test }) => {
  for (const [what, lies] of Object.entries(LIES_TO_CONNECT)) {
    test(`a ${what} that is a lie`, async ({ runtime, between }) => {
      let wrong = 0;
      for (const [change, ...outcomes] of lies) {
        between.fate = on(what, change);
        const options = { database: "simple", keep: "memory", ...HASTY };
        const outcome = await runtime.call("connect", "client", between.url, options);
        if ("failed" in outcome) {
          failed(outcome, ...outcomes);
          wrong += 1;
        } else {
          // Changes are accepted in parts that the configuration's hash does not cover.
          expect(outcomes).toContain("right");
          expect(await get(runtime)).toEqual(value(5));
        }
      }
      // Without a pinned key, the list of versions at the end is the only such part.
      expect(wrong).toBe(PLACES + 2);
      between.fate = passedOn;
      await connect(runtime, between.url);
      expect(await get(runtime)).toEqual(value(5));
    });
  }

  for (const database of ["hybrid", "onion"]) {
    test(`a wrong answer ends the keys and changes no request: ${database}`, async ({ runtime, between }) => {
      const lookedUp = async (fate: Fate) => {
        [between.fate, between.seen] = [fate, []];
        await runtime.call("lookUp", "client", ["key-0", "key-1", "key-2"]);
        return between.seen.map(({ what, body }) => ({ what, length: body.length }));
      };
      await connect(runtime, between.url, database);
      expect(await get(runtime)).toEqual(value(5));
      const honest = await lookedUp(passedOn);
      expect(new Set(honest.map(({ what }) => what))).toEqual(new Set(["query"]));
      expect(await lookedUp(on("query", body(flipped)))).toEqual(honest);
      // The next look-up uses other keys, and registers them first.
      const after = await lookedUp(passedOn);
      expect(after).toEqual([{ what: "keys", length: after[0]!.length }, ...honest]);
      expect(await lookedUp(passedOn)).toEqual(honest);
    });
  }

  test("a hint that is too long is not begun", async ({ runtime, between }) => {
    const options = { database: "simple", maxHintBytes: 1000, keep: "memory" };
    failed(await runtime.call("connect", "client", between.url, options), "hint-too-large");
    expect(between.asked("hint")).toEqual([]);
  });

  test("two servers that do not agree", async ({ runtime, pair, server }) => {
    const options = { database: "dpf-xor", ...HASTY };
    const [zero, one] = pair.map(({ url }) => url) as [string, string];
    const connected = (urls: unknown) => runtime.call("connect", "client", urls, options);
    failed(await connected(zero), "bad-address", "bad-option", "wrong-config");
    failed(await connected([zero, zero]), "bad-address", "bad-option", "wrong-config", "different-snapshots");
    failed(await connected([zero, server.url]), "refused");
    await using between = await Middle.before(one);
    await connect(runtime, [zero, between.url], "dpf-xor");
    expect(await get(runtime)).toEqual(value(5));
    between.fate = on("query", body(flipped));
    silent(failed(await runtime.call("lookUp", "client", [KEY]), "wrong-answer"));
    between.fate = () => undefined;
    const error = failed(await runtime.call("lookUp", "client", [KEY]), "unreachable", "broken");
    // The error names the server.
    expect(error.url?.replace(/\/$/, "")).toBe(between.url);
    expect(error.party).toBe(1);
    between.fate = passedOn;
    expect(await get(runtime)).toEqual(value(5));
  });
});
