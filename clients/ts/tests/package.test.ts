// The package that `npm pack` makes, after its installation.

import { readFile, readdir } from "node:fs/promises";
import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join, relative, resolve } from "node:path";

import { expect, vi } from "vitest";

import { InBrowser } from "./support/browser.js";
import { browserTest, test } from "./support/fixtures.js";
import { CLIENT, ROOT } from "./support/machine.js";
import { printedBy } from "./support/node.js";
import { done, failed } from "./support/outcomes.js";
import { run } from "./support/processes.js";
import { value } from "./support/servers.js";
import { Site } from "./support/site.js";

/** Returns all files in a folder and its subfolders. */
async function filesIn(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
}

/** Returns the files of the package that a script imports. */
async function imports(script: string): Promise<string[]> {
  const lines = (await readFile(script, "utf8")).split("\n").filter((line) => line.includes(' from ".'));
  return lines.map((line) => resolve(dirname(script), line.split('"')[1]!));
}

test("the package has what it needs and nothing else", async ({ installed }) => {
  const folder = join(installed, "node_modules", "spirea");
  const files = (await filesIn(folder)).map((file) => relative(folder, file));
  const scripts = ["browser.js", "node.js", "browser.d.ts", "node.d.ts", "worker/web.js", "worker/thread.js"];
  const about = ["package.json", "README.md", "LICENSE"];
  expect(files).toEqual(expect.arrayContaining([...about, ...scripts.map((name) => `dist/${name}`)]));
  const modules = ["dist/forms.wasm", "dist/spirea.wasm"];
  expect(files.filter((file) => file.endsWith(".wasm")).sort()).toEqual(modules);
  expect(files.filter((file) => !/\.(js|d\.ts|wasm)$/.test(file)).sort()).toEqual(about.sort());
  expect(files.filter((file) => /demo|test/.test(file))).toEqual([]);
  const { name, type, dependencies = {} } = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
  expect({ name, type, dependencies }).toEqual({ name: "spirea", type: "module", dependencies: {} });
  // No other package was installed with it.
  const packages = await readdir(join(installed, "node_modules"));
  expect(packages.filter((name) => !name.startsWith("."))).toEqual(["spirea"]);
  // Every imported file exists.
  for (const file of files.filter((file) => file.endsWith(".js"))) {
    for (const imported of await imports(join(folder, file))) expect(existsSync(imported), `${file}: ${imported}`).toBe(true);
  }
  // The modules contain no paths of the machine that compiled them.
  for (const file of modules) {
    const module = await readFile(join(folder, file));
    expect(module.includes(homedir()) || module.includes(ROOT), file).toBe(false);
  }
});

const RESOLUTIONS = ["--module nodenext", "--module esnext --moduleResolution bundler"];

test.for(RESOLUTIONS)("its types hold in a program that is compiled strictly: %s", async (resolution, { installed, folder }) => {
  const compiler = join(CLIENT, "node_modules", "typescript", "bin", "tsc");
  // The types of Node are not available.
  const types = ["--lib", "es2022,dom", "--typeRoots", folder];
  const strict = ["--noEmit", "--skipDefaultLibCheck", "--strict", "--exactOptionalPropertyTypes", "--target", "es2022"];
  await run(process.execPath, [compiler, ...strict, ...types, ...resolution.split(" "), "consumer.ts"], { cwd: installed });
});

test("a program ends though a client is open", async ({ installed, server }) => {
  const program = `
    import { Client } from "spirea";
    const client = await Client.connect("${server.url}", { database: "simple" });
    console.log((await client.get("key-5")).text("note"), await client.get("none"));
  `;
  expect(await printedBy(program, installed)).toBe("note of 5 undefined");
});

browserTest("a page loads the module once", async ({ page, server }) => {
  const fetched: string[] = [];
  page.context.on("request", (request) => fetched.push(request.url()));
  done(await page.call("connect", "client", server.url, { database: "hybrid" }));
  expect(done(await page.call("lookUp", "client", ["key-5"])).values).toEqual([value(5)]);
  const modules = fetched.filter((url) => url.endsWith(".wasm"));
  expect(modules.map((url) => url.split("/").at(-1))).toEqual(["spirea.wasm"]);
});

/** Script that runs before the package's scripts, to simulate an engine without vectors. */
const WITHOUT_VECTORS = "WebAssembly.validate = () => false;";
const TOO_OLD = /vectors of 128 bits.*Chrome 91, Firefox 89, Safari 16\.4, Node 16\.4/;

browserTest("a page in a browser without vectors is told which versions have them", async ({ page, server }) => {
  page.beforeWorker(WITHOUT_VECTORS);
  const error = failed(await page.call("connect", "client", server.url, { database: "simple" }), "no-worker");
  expect(error.message).toMatch(TOO_OLD);
});

test("a program in an engine without vectors is told which versions have them", async ({ installed, server }) => {
  const program = `
    ${WITHOUT_VECTORS}
    const { Engine } = await import("${installed}/node_modules/spirea/dist/worker/engine.js");
    const module = async () => { throw new Error("the module is loaded all the same"); };
    const reply = ({ reply, error }) => console.log(reply, error.code, error.message);
    const engine = new Engine({ module, place: () => undefined, reply });
    engine.call({ call: "connect", id: 0, settings: { addresses: [["${server.url}/"]], database: "simple" } });
  `;
  const printed = await printedBy(program, installed);
  expect(printed).toMatch(/^failed no-worker /);
  expect(printed).toMatch(TOO_OLD);
});

browserTest.for(["worker/web.js", "worker/line.js", "*.wasm"])("a page that lacks %s is told", async (files, { page, server }) => {
  await page.context.route(`**/dist/${files}`, (route) => route.fulfill({ status: 404 }));
  const error = failed(await page.call("connect", "client", server.url, { database: "simple" }), "no-worker");
  expect(error.message).toContain("policy");
  await page.context.unroute(`**/dist/${files}`);
  done(await page.call("connect", "client", server.url, { database: "simple" }));
});

const ALLOWED: Record<string, string> = {
  "default-src": "'self'",
  "script-src": "'self' 'unsafe-inline' 'wasm-unsafe-eval'",
  "connect-src": "http:",
};
/** Directives that replace those of the page's policy, with the directive that the error must name. */
const POLICIES: [directive: string, sources: string, named: string | undefined][] = [
  ["worker-src", "'none'", "worker-src"],
  ["script-src", "'self' 'unsafe-inline'", "'wasm-unsafe-eval'"],
  ["connect-src", "http:", undefined],
  ["connect-src", "'none'", "connect-src"],
];

browserTest.for(POLICIES)("a policy of %s %s", async ([directive, sources, named], { browser, installed, server }) => {
  const policy = Object.entries({ ...ALLOWED, [directive]: sources }).map((part) => part.join(" "));
  await using site = await Site.of(installed, policy.join("; "));
  await using page = await InBrowser.open(await browser.newContext(), site);
  const outcome = await page.call("connect", "client", server.url, { database: "simple" });
  if (named === undefined) done(outcome);
  else expect(failed(outcome, "no-worker").message).toContain(named);
});

browserTest("halves that do not belong together end the client", async ({ page, server }) => {
  const { changes } = page.site;
  changes.set("worker/line.js", (text) => text.replace('received: "head"', 'received: "tail"'));
  const error = failed(await page.call("connect", "client", server.url, { database: "simple" }), "internal");
  expect(error.message).toContain("one version");
  changes.clear();
  done(await page.call("connect", "client", server.url, { database: "simple" }));
  // The instance traps during a look-up.
  changes.set("worker/instance.js", (text) => text.replace("exports.look_up()", "exports.trap()"));
  done(await page.call("connect", "other", server.url, { database: "simple" }));
  for (let i = 0; i < 2; i++) failed(await page.call("lookUp", "other", ["key-5"]), "internal");
  // Its worker has ended, with all secrets.
  await vi.waitFor(() => expect(page.page.workers()).toHaveLength(1), { timeout: 180_000 });
  expect(done(await page.call("lookUp", "client", ["key-5"])).values).toEqual([value(5)]);
});

// Makes WebAssembly and randomness throw on the page's own thread, where the package must not compute.
const NOTHING_COMPILED = `
  for (const name of ["compile", "compileStreaming", "instantiate", "instantiateStreaming", "Module", "Instance"]) {
    Object.defineProperty(WebAssembly, name, { get() { throw new Error("the page asks for " + name); } });
  }
  crypto.getRandomValues = () => { throw new Error("the page draws randomness"); };
`;

browserTest("nothing is computed on the page's thread", async ({ browser, site, server }) => {
  const context = await browser.newContext();
  await context.addInitScript(NOTHING_COMPILED);
  await using page = await InBrowser.open(context, site);
  // The first visit fetches a hint and generates keys; the second takes both from IndexedDB.
  for (let visit = 0; visit < 2; visit++) {
    for (const name of ["simple", "hybrid"]) {
      const { storage } = done(await page.call("connect", name, server.url, { database: name, keep: "persistent" }));
      expect(storage.kind).toBe("indexeddb");
      expect(done(await page.call("lookUp", name, ["key-5", "none"])).values).toEqual([value(5), null]);
      done(await page.call("close", name));
    }
    await page.reload();
  }
});

test("no module of the page is one of the worker", async ({ installed }) => {
  const dist = join(installed, "node_modules", "spirea", "dist");
  const reached = new Set([join(dist, "browser.js")]);
  // The iteration of a set includes elements added during the loop.
  for (const script of reached) for (const imported of await imports(script)) reached.add(imported);
  expect(reached).toContain(join(dist, "client.js"));
  for (const script of reached) {
    expect(dirname(script)).toBe(dist);
    expect(await readFile(script, "utf8"), script).not.toContain("WebAssembly");
  }
});
