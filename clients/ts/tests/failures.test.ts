// Networks and servers that fail: errors are typed and do not contain the key, and no call stalls.

import { readFileSync } from "node:fs";

import { generate } from "selfsigned";
import { describe, expect } from "vitest";

import { RUNTIMES, browserTest, test } from "./support/fixtures.js";
import { CORS, Middle, type Reply, instead, on, passedOn } from "./support/middle.js";
import { printedBy } from "./support/node.js";
import { aborted, done, failed } from "./support/outcomes.js";
import { HASTY, IMPATIENT, KEY, connectHastily as connect, get, silent } from "./support/steps.js";
import { value } from "./support/servers.js";

const OPTIONS: Record<string, unknown[]> = {
  database: [7, null],
  timeout: [-1, 0, 0.5, "7", 2 ** 31],
  maxPause: [-1, 2 ** 31],
  attempts: [0, 2 ** 32],
  patience: [-1, 2 ** 53],
  maxHintBytes: [-1, "much"],
  pinnedKey: [7, "no key", "0".repeat(63)],
  token: [7, "", "a b", "a\nb", "\x7f", "\u20ac"],
  cache: [7],
  keep: ["forever"],
  keepKeys: ["no"],
  acceptWeakPrf: [1],
  replicas: [7, "http://127.0.0.1", ["http://127.0.0.1", 7], [[], []]],
};

describe.for(RUNTIMES)("$where", ({ test }) => {
  test("nothing at the address, and addresses that are none", async ({ runtime }) => {
    const middle = await Middle.before(undefined);
    await middle.stop();
    const { url } = middle;
    const unreachable = failed(await runtime.call("connect", "client", url, { database: "simple", ...HASTY }), "unreachable");
    expect(unreachable.url).toMatch(url);
    for (const bad of ["ftp://127.0.0.1/", "http://user:word@127.0.0.1/", "http://127.0.0.1/?x=1", "http://", 7, [7]]) {
      failed(await runtime.call("connect", "client", bad, { database: "simple" }), "bad-address");
    }
    failed(await runtime.call("connect", "client", url, { database: "No Name" }), "bad-address");
    const inClear = await runtime.call("connect", "client", "http://pir.example.org", { database: "simple", token: "t" });
    failed(inClear, "bad-option");
  });

  test("options that cannot be", async ({ runtime, between }) => {
    for (const [name, values] of Object.entries(OPTIONS)) {
      for (const wrong of values) {
        const options = { database: "simple", keep: "memory", [name]: wrong };
        const { message } = failed(await runtime.call("connect", "client", between.url, options), "bad-option");
        if (!["replicas", "pinnedKey"].includes(name)) expect(message).toContain(name);
      }
    }
    failed(await runtime.call("connect", "client", between.url, { database: "simple", replicas: [[7]] }), "bad-address");
    expect(between.seen).toEqual([]);
    // For a single server, further addresses may be a flat array.
    done(await runtime.call("connect", "replica", "http://127.0.0.1:1", { database: "simple", replicas: [between.url], keep: "memory" }));
    // The largest values: a timer with a longer time would end at once.
    const most = { timeout: 2 ** 31 - 1, maxPause: 2 ** 31 - 1, attempts: 2 ** 32 - 1, patience: 2 ** 53 - 1, token: "~!" };
    await connect(runtime, between.url, "simple", most);
    expect(await get(runtime)).toEqual(value(5));
  });

  test("a host that is not known and a server that is not trusted", async ({ runtime }) => {
    const options = { database: "simple", ...HASTY };
    const inNode = runtime.name === "node";
    // Browsers do not distinguish the cause.
    const unknown = await runtime.call("connect", "client", "http://x.invalid", options);
    failed(unknown, inNode ? "unknown-host" : "unreachable");
    await using middle = await Middle.before(undefined, await certificateOfNobody());
    const untrusted = await runtime.call("connect", "client", middle.url, options);
    const { message } = failed(untrusted, inNode ? "untrusted-server" : "unreachable");
    expect(message.includes("browser")).toBe(!inNode);
    expect(middle.seen).toEqual([]);
  });

  test("a slow network is waited for as long as enough comes", async ({ runtime, between }) => {
    const spread = (reply: Reply) => ({ ...reply, pieces: Math.floor(reply.body.length / 20) + 1, pause: 100 });
    // In total the hint takes longer than the timeout, but faster than the least rate.
    between.fate = on("hint", spread);
    await connect(runtime, between.url, "simple", { ...IMPATIENT, keep: "memory" });
    expect(await get(runtime)).toEqual(value(5));
    // The same pauses between a few bytes are slower than the least rate.
    between.fate = on("query", spread);
    silent(failed(await runtime.call("lookUp", "client", [KEY]), "timed-out"));
    between.fate = on("query", (reply) => ({ ...reply, pieces: 100, pause: 30_000 }));
    silent(failed(await runtime.call("lookUp", "client", [KEY]), "timed-out"));
    between.fate = passedOn;
    expect(await get(runtime)).toEqual(value(5));
  });

  test("an upload is waited for by its length", async ({ runtime, between }) => {
    // Hundreds of kilobytes of keys, whose upload takes longer than the timeout of a silent server.
    between.upload = 2 * IMPATIENT.timeout;
    await connect(runtime, between.url, "onion", { ...IMPATIENT, keep: "memory" });
    expect(await get(runtime)).toEqual(value(5));
    const [keys, ...others] = between.asked("keys");
    expect(others).toEqual([]);
    expect(keys!.body.length).toBeGreaterThan(1 << 19);
  });

  test("a server that says nothing", async ({ runtime, between }) => {
    await connect(runtime, between.url, "simple", IMPATIENT);
    between.fate = between.silence;
    silent(failed(await runtime.call("lookUp", "client", [KEY]), "timed-out"));
    failed(await runtime.call("connect", "other", between.url, { database: "simple", ...IMPATIENT }), "timed-out");
  });

  test("statuses that no server of ours gives", async ({ runtime, between }) => {
    await connect(runtime, between.url);
    for (const status of [500, 502, 404, 418, 302, 204]) {
      const headers = { ...CORS, "content-type": "text/html", ...(status === 302 && { location: "/elsewhere" }) };
      between.fate = instead("query", { status, headers, body: Buffer.from(status === 204 ? "" : "<h1>no</h1>") });
      between.seen = [];
      const error = failed(await runtime.call("lookUp", "client", [KEY]), "unexpected-status");
      silent(error);
      // Browsers hide the status of a redirection.
      expect(status === 302 ? [302, 307] : [status]).toContain(error.status);
      expect(new Set(between.seen.map(({ what }) => what))).toEqual(new Set(["query"]));
      between.fate = passedOn;
      expect(await get(runtime)).toEqual(value(5));
    }
  });

  test("a refusal is passed on, and a passing one is tried again", async ({ runtime, server, between }) => {
    const error = failed(await runtime.call("connect", "client", server.url, { database: "nothing", ...HASTY }), "refused");
    expect(error).toMatchObject({ status: 404, refusal: "UNKNOWN_DATABASE" });
    await connect(runtime, between.url);
    // A load balancer answers like this while a server is being replaced.
    const busy = (after: string): Reply => ({ status: 503, headers: { ...CORS, "retry-after": after }, body: Buffer.from("busy") });
    const once = [busy("0")];
    between.fate = (seen, ask) => (seen.what === "query" && once.pop()) || ask();
    expect(await get(runtime)).toEqual(value(5));
    // The retry sent the same bytes.
    const [first, second, ...others] = between.asked("query");
    expect(others).toEqual([]);
    expect(first!.body.equals(second!.body)).toBe(true);
    // If a server asks for a longer pause than the client's patience, there is no retry.
    between.fate = instead("query", busy("3600"));
    expect(failed(await runtime.call("lookUp", "client", [KEY]), "unexpected-status").status).toBe(503);
    expect(between.asked("query")).toHaveLength(3);
  });

  test("a look-up that is aborted, and the next one", async ({ runtime, between }) => {
    for (const database of ["simple", "hybrid"]) {
      between.fate = passedOn;
      await connect(runtime, between.url, database);
      expect(await get(runtime)).toEqual(value(5));
      between.fate = between.silence;
      const queries = between.asked("query").length;
      await runtime.call("begin", "client", [KEY]);
      await between.waitFor("query", queries + 1);
      await runtime.call("abort", "client", "enough");
      aborted(await runtime.call("outcome", "client"));
      between.fate = passedOn;
      expect(await get(runtime)).toEqual(value(5));
    }
    // A look-up that is aborted before it starts sends nothing.
    const seen = between.seen.length;
    await runtime.call("beginAborted", "client", [KEY], "enough");
    aborted(await runtime.call("outcome", "client"));
    expect(await get(runtime)).toEqual(value(5));
    expect(between.seen.slice(seen).map(({ what }) => what)).toEqual(["query"]);

    between.fate = between.silence;
    await runtime.call("begin", "other", [], between.url, { database: "simple" });
    await between.waitFor("config", 3);
    await runtime.call("abort", "other", "enough");
    aborted(await runtime.call("outcome", "other"));
  });

  test("a client that is closed", async ({ runtime, between }) => {
    await connect(runtime, between.url);
    done(await runtime.call("close", "client"));
    failed(await runtime.call("lookUp", "client", [KEY]), "closed");
    done(await runtime.call("close", "client"));
  });

  test("a server of another version", async ({ runtime, between }) => {
    // Field 1 of every message is its format.
    const other = (reply: Reply) => ({ ...reply, body: Buffer.concat([Buffer.from([8, 2]), reply.body.subarray(2)]) });
    between.fate = on("config", other);
    const refused = await runtime.call("connect", "client", between.url, { database: "simple", ...HASTY });
    expect(failed(refused, "other-version").message).toContain("format");
    between.fate = on("query", other);
    await connect(runtime, between.url);
    silent(failed(await runtime.call("lookUp", "client", [KEY]), "other-version"));
    between.fate = passedOn;
    expect(await get(runtime)).toEqual(value(5));
  });
});

/** Returns a self-signed certificate, and its key. */
async function certificateOfNobody() {
  const subject = [{ name: "commonName", value: "127.0.0.1" }];
  const { cert, private: key } = await generate(subject, {
    keyType: "ec",
    curve: "P-256",
    algorithm: "sha256",
    extensions: [{ name: "subjectAltName", altNames: [{ type: 7, ip: "127.0.0.1" }] }],
  });
  return { cert, key };
}

browserTest("offline", async ({ page, between }) => {
  await connect(page, between.url);
  expect(await get(page)).toEqual(value(5));
  await page.context.setOffline(true);
  const error = failed(await page.call("lookUp", "client", [KEY]), "unreachable", "broken");
  expect(error.message).toContain("offline");
  silent(error);
  await page.context.setOffline(false);
  expect(await get(page)).toEqual(value(5));
});

test("a late failure of a request leaves the next one alone", async ({ installed }) => {
  const program = `
    const { Line } = await import("${installed}/node_modules/spirea/dist/worker/line.js");
    const asked = [];
    globalThis.fetch = (url, { signal }) => new Promise((resolve, reject) => asked.push({ signal, resolve, reject }));
    const line = new Line(0, { timeout: 60000 });
    const send = () => line.send({ server: 0, method: "GET", url: "http://127.0.0.1/", headers: [] }, new Uint8Array());
    const [first, second] = [send(), send()];
    asked[0].reject(new TypeError("late"));
    const late = (await first) ?? null;
    asked[1].resolve(new Response("body"));
    const { head } = await second;
    const { body } = await line.read();
    console.log(JSON.stringify([late, head.status, asked.map(({ signal }) => signal.aborted), new TextDecoder().decode(body)]));
  `;
  expect(JSON.parse(await printedBy(program, installed))).toEqual([null, 200, [true, false], "body"]);
});

test("a line gives the heads that the instance reads", async ({ installed }) => {
  // The instance's own test reads the same file.
  const heads = JSON.parse(readFileSync(new URL("../../../bindings/wasm/src/shim/heads.json", import.meta.url), "utf8"));
  const program = `
    const { Line } = await import("${installed}/node_modules/spirea/dist/worker/line.js");
    const toSend = { server: 1, method: "GET", url: "http://127.0.0.1/", headers: [] };
    const line = new Line(1, { timeout: 60000 });
    globalThis.fetch = async () => new Response("body", { status: 503, headers: { etag: '"5"', "retry-after": "7" } });
    const { head } = await line.send(toSend, new Uint8Array());
    const { head: piece } = await line.read();
    const failed = async (timeout, fetched) => {
      globalThis.fetch = fetched;
      const { head } = await new Line(1, { timeout }).send(toSend, new Uint8Array());
      return [head.received, head.server, typeof head.words, head.kind];
    };
    const coded = (code) => failed(60000, async () => { throw new TypeError("failed", { cause: { code } }); });
    const failures = [
      await failed(60000, async () => { throw new TypeError("failed"); }),
      await coded("ENOTFOUND"),
      await failed(1, () => new Promise(() => undefined)),
      await coded("ECONNRESET"),
      await coded("CERT_HAS_EXPIRED"),
    ];
    console.log(JSON.stringify([head, piece, failures]));
  `;
  const [head, piece, failures] = JSON.parse(await printedBy(program, installed));
  expect([head, piece]).toEqual([heads.head, heads.piece]);
  expect(failures).toEqual(heads.kinds.map((kind: string) => ["failed", 1, "string", kind]));
});
