// A page in Chromium with the package, and with the functions of page/harness.mjs.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";

import { type Browser, type BrowserContext, type Page, type Worker, chromium } from "playwright-core";

import { showInThisTest } from "./evidence.js";
import type { Site } from "./site.js";

// Options without traffic other than the tests' own, and without the sandbox, which does not work for root.
const FLAGS = [
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--hide-scrollbars",
];

const options = (program: string) => ({ executablePath: program, args: FLAGS, chromiumSandbox: false });

/** Starts headless Chromium with a fresh profile. */
export function launched(program: string): Promise<Browser> {
  return chromium.launch(options(program));
}

/** Starts headless Chromium with the profile in a folder. */
export function launchedWithProfile(program: string, folder: string): Promise<BrowserContext> {
  return chromium.launchPersistentContext(folder, options(program));
}

/** Starts headless Chromium with a profile and an extension in folders. Returns the address of the extension's pages, too. */
export async function launchedWithExtension(
  program: string,
  folder: string,
  extension: string,
): Promise<{ context: BrowserContext; address: string }> {
  const { args, ...others } = options(program);
  const context = await chromium.launchPersistentContext(folder, {
    ...others,
    args: [...args, `--disable-extensions-except=${extension}`, `--load-extension=${extension}`],
    ignoreDefaultArgs: ["--disable-extensions"],
  });
  // Chromium names an extension by the hash of its path, with letters a to p for the digits.
  const digits = createHash("sha256").update(extension).digest("hex").slice(0, 32);
  const name = digits.replace(/./g, (digit) => String.fromCharCode(97 + parseInt(digit, 16)));
  return { context, address: `chrome-extension://${name}` };
}

export interface Heard {
  /** Messages on the console. */
  said: string[];
  /** Unhandled errors. */
  errors: string[];
}

/** Collects a page's messages and errors, and shows them if the test fails. */
export function listen(page: Page, { said, errors }: Heard = { said: [], errors: [] }): Heard {
  page.on("console", (message) => said.push(message.text()));
  page.on("pageerror", (error) => errors.push(String(error)));
  showInThisTest("console of the page", () => [...said, ...errors].join("\n"));
  return { said, errors };
}

export class InBrowser implements AsyncDisposable {
  readonly name = "browser";
  readonly said: string[] = [];
  readonly errors: string[] = [];

  private constructor(
    readonly context: BrowserContext,
    readonly site: Site,
    public page: Page,
  ) {}

  /** Visits the site. Closes the context with the page. */
  static async open(context: BrowserContext, site: Site): Promise<InBrowser> {
    const opened = new InBrowser(context, site, await context.newPage());
    await opened.#load(opened.page);
    return opened;
  }

  /** Opens another page of the same origin. */
  async visit(): Promise<Page> {
    const page = await this.context.newPage();
    await this.#load(page);
    return page;
  }

  /** Closes the page, and visits the site again. */
  async leaveAndVisit(): Promise<void> {
    await this.page.close();
    this.page = await this.visit();
  }

  async reload(): Promise<void> {
    await this.page.reload();
    await this.page.waitForFunction("globalThis.harness !== undefined");
  }

  /** Calls a function of page/harness.mjs. */
  async call(name: string, ...args: unknown[]): Promise<any> {
    return this.callIn(this.page, name, ...args);
  }

  async callIn(page: Page, name: string, ...args: unknown[]): Promise<any> {
    const act = ([name, args]: [string, unknown[]]) =>
      (globalThis as unknown as { harness: Record<string, (...args: unknown[]) => unknown> }).harness[name]!(...args);
    return page.evaluate(act, [name, args] as [string, unknown[]]);
  }

  /** Calls a function of page/storage.mjs. */
  async stored(name: string, ...args: unknown[]): Promise<any> {
    return this.#callOf("storage.mjs", name, args);
  }

  /** Calls a function of page/vectors.mjs. */
  async vectors(name: string, ...args: unknown[]): Promise<any> {
    return this.#callOf("vectors.mjs", name, args);
  }

  /** Runs a script in the workers of the next clients, before the workers' own code. */
  beforeWorker(script: string): void {
    this.site.changes.set("worker/web.js", (text) => script + text);
  }

  /** Runs a script in the worker of the newest client. */
  async inWorker(script: string): Promise<any> {
    return lastWorker(this.page).evaluate(script);
  }

  /** Closes all pages. @throws AssertionError if a page had an unhandled error. */
  async close(): Promise<void> {
    this.site.changes.clear();
    await this.context.close();
    assert.deepEqual(this.errors, [], "errors that reached the page");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #load(page: Page): Promise<void> {
    listen(page, this);
    await page.goto(this.site.url);
    await page.waitForFunction("globalThis.harness !== undefined");
  }

  /** Imports a file of the site and calls a function of it. The code is a string, so that the page resolves the import. */
  async #callOf(file: string, name: string, args: unknown[]): Promise<unknown> {
    return this.page.evaluate(`import("/${file}").then((file) => file[${JSON.stringify(name)}](...${JSON.stringify(args)}))`);
  }
}

/** Returns the worker of the newest client. */
export function lastWorker(page: Page): Worker {
  const worker = page.workers().at(-1);
  assert(worker, "the page has no worker");
  return worker;
}
