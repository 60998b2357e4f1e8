// Fixtures of the tests: the package as npm installs it, servers, a page in Chromium, a program in Node.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import type { Browser } from "playwright-core";
import { inject, test as base } from "vitest";

import { InBrowser, launched } from "./browser.js";
import { begin, collected, showLog } from "./evidence.js";
import { FORMED, buildFormed } from "./forms.js";
import { FULL } from "./machine.js";
import { Middle } from "./middle.js";
import { InNode } from "./node.js";
import { Server, type Served, Spirea } from "./servers.js";
import { Site } from "./site.js";

export type Runtime = InBrowser | InNode;

interface Fixtures {
  evidence: void;
  installed: string;
  spirea: Spirea;
  /** A server of the tables that most tests need. */
  server: Served;
  /** A server of the tables in FORMED. */
  formed: Served;
  /** Two servers of all tables of two servers. */
  pair: Served[];
  /** A proxy of `server`. */
  between: Middle;
  browser: Browser;
  site: Site;
  /** A page with the package, in a browser with empty storage. */
  page: InBrowser;
  node: InNode;
  /** An empty folder. */
  folder: string;
}

for (const { log } of [inject("server"), ...inject("pair")]) showLog(log);

export const test = base.extend<Fixtures>({
  evidence: [
    async ({ task, onTestFailed }, use) => {
      begin();
      onTestFailed(() => {
        for (const error of task.result?.errors ?? []) error.message += `\n${collected()}`;
      });
      await use();
    },
    { auto: true },
  ],
  installed: [async ({}, use) => use(inject("installed")), { scope: "file" }],
  spirea: [async ({}, use) => use(new Spirea(inject("machine").spirea, inject("tables"))), { scope: "file" }],
  server: [async ({}, use) => use(inject("server")), { scope: "file" }],
  formed: [
    async ({ spirea }, use) => {
      const folder = await spirea.makeFolder("formed-");
      const snapshots = await Promise.all(Object.keys(FORMED).map((name) => buildFormed(spirea, folder, name)));
      await using server = await Server.start(spirea, ...snapshots);
      await use(server);
    },
    { scope: "file" },
  ],
  pair: [async ({}, use) => use(inject("pair")), { scope: "file" }],
  between: async ({ server }, use) => {
    await using middle = await Middle.before(server.url);
    await use(middle);
  },
  browser: [
    async ({}, use) => {
      const browser = await launched(CHROMIUM!);
      await use(browser);
      await browser.close();
    },
    { scope: "worker" },
  ],
  site: [
    async ({}, use) => {
      await using site = await Site.of(inject("installed"));
      await use(site);
    },
    { scope: "worker" },
  ],
  page: async ({ browser, site }, use) => {
    await using page = await InBrowser.open(await browser.newContext(), site);
    await use(page);
  },
  node: async ({ installed }, use) => {
    await using node = new InNode(installed);
    await use(node);
  },
  folder: async ({}, use) => {
    const folder = await mkdtemp(join(tmpdir(), "spirea-test-"));
    await use(folder);
    await rm(folder, { recursive: true });
  },
});

export const CHROMIUM = inject("machine").chromium;

/** Skips tests in a browser if there is no browser. */
export const browserTest = test.skipIf(CHROMIUM === undefined);

const inPage = test.extend<{ runtime: Runtime }>({ runtime: async ({ page }, use) => use(page) });
const inNode = test.extend<{ runtime: Runtime }>({ runtime: async ({ node }, use) => use(node) });

/** Protocols with a hint, with keys, and with two servers. */
const REPRESENTATIVE = ["simple", "hybrid", "dpf-xor"];
const every = (names: string[]) => names;
const representative = (names: string[]) => names.filter((name) => REPRESENTATIVE.includes(name));

/** Tests with a `runtime`, in a page and in Node, and the selection of tables that they use there. */
export const RUNTIMES = [
  { where: "in a page", test: inPage.skipIf(CHROMIUM === undefined), among: FULL ? every : representative },
  { where: "in Node", test: inNode, among: every },
];
