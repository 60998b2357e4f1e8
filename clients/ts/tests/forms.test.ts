// Tables whose keys have a form, and domains with their parents.

import { writeFile } from "node:fs/promises";
import { join } from "node:path";

import { expect } from "vitest";

import { type Runtime, RUNTIMES, browserTest, test } from "./support/fixtures.js";
import { buildFormed } from "./support/forms.js";
import { Middle } from "./support/middle.js";
import { printedBy } from "./support/node.js";
import { done, failed } from "./support/outcomes.js";
import { Server, value } from "./support/servers.js";
import { close, connect, get } from "./support/steps.js";

/** Looks up keys. Returns the first field of each value, or null. */
async function found(runtime: Runtime, keys: string[]): Promise<(string | null)[]> {
  const { values } = done(await runtime.call("lookUp", "client", keys));
  return values.map((fields: string[] | null) => fields?.[0] ?? null);
}

const WRITTEN: [table: string, keys: string[], values: (string | null)[]][] = [
  ["callers", ["0041 (0)44 668 18 00", "+16502530000", "044-668-18-00"], ["Zurich", "California", "Zurich"]],
  ["people", ["ZOE@EXAMPLE.ORG ", "ann@example.org", "bob@example.org"], ["Zoe", "Ann", null]],
  ["names", ["BÜCHER.example.", "ADS.example.com", "www.example.com"], ["books", "ads", null]],
];

for (const { where, test } of RUNTIMES) {
  test.for(WRITTEN)(`keys are found however they are written, ${where}: %s`, async ([table, keys, values], { runtime, formed }) => {
    await connect(runtime, formed.url, table);
    expect(await found(runtime, keys)).toEqual(values);
    const fetched = done(await runtime.call("fetchOnce", "client", keys.slice(0, 1)));
    expect(fetched).toEqual([[values[0]]]);
  });

  test(`a key without the form is asked for and not found, ${where}`, async ({ runtime, formed }) => {
    await using between = await Middle.before(formed.url);
    await connect(runtime, between.url, "callers");
    expect(await found(runtime, ["nobody"])).toEqual([null]);
    expect(await found(runtime, ["044 668 18 00"])).toEqual(["Zurich"]);
    const lengths = between.asked("query").map(({ body }) => body.length);
    expect(lengths).toEqual([lengths[0], lengths[0]]);
  });

  test(`domains are found with their parents, ${where}`, async ({ runtime, formed }) => {
    await using between = await Middle.before(formed.url);
    await connect(runtime, between.url, "names");
    const domains = async (...args: unknown[]) => done(await runtime.call("domains", "client", ...args));
    expect(await domains(["a.b.Ads.Example.com"], { parents: 3 })).toEqual([
      {
        matches: [["example.com", "all"]],
        asked: ["a.b.ads.example.com", "example.com", "com"],
        unasked: ["b.ads.example.com", "ads.example.com"],
      },
    ]);
    const before = between.asked("query").length;
    expect(await domains(["x.ads.example.com", "no name"])).toEqual([
      {
        matches: [
          ["ads.example.com", "ads"],
          ["example.com", "all"],
        ],
        asked: ["x.ads.example.com", "ads.example.com", "example.com", "com"],
        unasked: [],
      },
      { matches: [], asked: ["no name"], unasked: [] },
    ]);
    expect(await domains(["org", "net"])).toHaveLength(2);
    // There are eight look-ups each time, for any names.
    const lengths = between.asked("query").slice(before);
    expect(lengths.map(({ body }) => body.length)).toEqual([lengths[0]!.body.length, lengths[0]!.body.length]);
    for (const [names, parents] of [[["org"], 0], [["org"], 1.5], [[7], 4]]) {
      failed(await runtime.call("domains", "client", names, { parents }), "bad-request");
    }
  });

  test(`keys get a form between two look-ups, ${where}`, async ({ runtime, spirea }) => {
    const folder = await spirea.makeFolder("changing-");
    const at = (name: string) => join(folder, name);
    await writeFile(spirea.path(at("old.csv")), "key,value\nZoe@Example.org,old\n");
    const options = ["--name", "people"];
    const old = await spirea.build(at("old"), "simple", { table: at("old.csv"), fields: ["value"], options });
    const fresh = await buildFormed(spirea, folder, "people");
    const repository = spirea.path(at("repository"));
    await spirea.run("publish", "--repository", repository, "--base", old);
    await using server = await Server.start(spirea, repository);
    await using between = await Middle.before(server.url);
    await connect(runtime, between.url, "people");
    expect(await found(runtime, ["Zoe@Example.org", "zoe@example.org"])).toEqual(["old", null]);
    await spirea.run("publish", "--server", server.admin, "--database", "people", "--base", fresh);
    // The answer of the old version announces a newer one.
    expect(await found(runtime, ["Zoe@Example.org"])).toEqual(["old"]);
    const before = between.asked("query").length;
    expect(await found(runtime, ["ZOE@example.org", "Zoe@Example.org "])).toEqual(["Zoe", "Zoe"]);
    expect(between.asked("query")).toHaveLength(before + 1);
  });
}

const FORMS = "**/dist/forms.wasm";

browserTest("a page loads the rules once, and only for what needs them", async ({ page, spirea, server }) => {
  const loaded: string[] = [];
  page.context.on("request", (request) => {
    if (request.url().endsWith("/forms.wasm")) loaded.push(request.url());
  });
  await connect(page, server.url, "simple");
  expect(await get(page)).toEqual(value(5));
  expect(loaded).toEqual([]);
  expect(done(await page.call("domains", "client", ["example.com"]))[0].matches).toEqual([]);
  expect(loaded).toHaveLength(1);
  await close(page);

  const people = await buildFormed(spirea, await spirea.makeFolder("kept-"), "people");
  await using other = await Server.start(spirea, people);
  await using between = await Middle.before(other.url);
  for (let visit = 0; visit < 2; visit++) {
    await connect(page, between.url, "people");
    expect(await found(page, ["zoe@example.org", "ZOE@example.org"])).toEqual(["Zoe", "Zoe"]);
    await close(page);
    await page.reload();
  }
  expect(loaded).toHaveLength(3);
  // When a client connects again with the rules, it reuses the stored keys.
  expect(between.asked("keys")).toHaveLength(1);
});

browserTest("a page that lacks the rules is told which file is missing", async ({ page, spirea, server }) => {
  const callers = await buildFormed(spirea, await spirea.makeFolder("lacking-"), "callers");
  await using other = await Server.start(spirea, callers);
  const tried = () => page.call("connect", "client", other.url, { database: "callers" });
  await page.context.route(FORMS, (route) => route.fulfill({ status: 404 }));
  expect(failed(await tried(), "no-worker").message).toContain("forms.wasm");
  await page.context.unroute(FORMS);
  // A Content-Security-Policy aborts the request like this.
  await page.context.route(FORMS, (route) => route.abort("blockedbyclient"));
  expect(failed(await tried(), "no-worker").message).toContain("connect-src");
  await connect(page, server.url, "simple");
  const error = failed(await page.call("domains", "client", ["secret.example"]), "no-worker");
  expect(error.message).toContain("forms.wasm");
  expect(JSON.stringify(error)).not.toContain("secret");
  expect(await get(page)).toEqual(value(5));
  await page.context.unroute(FORMS);
  done(await page.call("domains", "client", ["secret.example"]));
  done(await tried());
});

test("the rules tell which characters they know, and where they get no randomness", async ({ installed }) => {
  const program = `
    import { readFile } from "node:fs/promises";
    const { Forms, formsUrl } = await import("${installed}/node_modules/spirea/dist/worker/forms.js");
    let dry = false;
    const random = (bytes) => {
      if (dry) throw new Error("dry");
      crypto.getRandomValues(bytes);
    };
    const forms = await Forms.of(await WebAssembly.compile(await readFile(formsUrl())), random);
    const encoder = new TextEncoder();
    const ask = (question, form, key) => {
      forms.ask(question, encoder.encode(JSON.stringify(form)), encoder.encode(key));
      let answer;
      forms.takeAnswer((length) => (answer = new Uint8Array(length)));
      const head = new DataView(answer.buffer).getUint32(0, true);
      return [0, head].map((start, i) => new TextDecoder().decode(answer.slice(4 + start, i ? undefined : 4 + head)));
    };
    const newer = { steps: ["lower"], unicode: "99.0.0" };
    const numbers = (region) => ({ steps: ["e164"], region, phone_rules: "9.0.42" });
    const keys = forms.domains(["org", "org"], 3).flatMap(({ keys }) => keys).map((key) => new TextDecoder().decode(key));
    dry = true;
    let code;
    try { forms.domains(["org"], 3); } catch (error) { code = error.code; }
    console.log(JSON.stringify({
      keys, code,
      known: ask(1, newer, "ABC"),
      unknown: ask(1, newer, "A\u0378"),
      checked: ask(0, numbers("CH"), ""),
      refused: ask(0, numbers("ZZ"), ""),
    }));
  `;
  const { keys, code, known, unknown, checked, refused } = JSON.parse(await printedBy(program, installed));
  expect(known).toEqual(["true", "abc"]);
  expect(unknown).toEqual(["false", "A\u0378"]);
  expect(checked).toEqual(["null", ""]);
  expect(refused[0]).toContain("ZZ");
  expect(code).toBe("no-entropy");
  expect([keys[0], keys[3]]).toEqual(["org", "org"]);
  const dummies = keys.filter((key: string) => /^[0-9a-f]{32}\.invalid$/.test(key));
  expect(new Set(dummies).size).toBe(4);
});
