// The demo page on a phone, dark and light: structure, texts, readability and usability.

import { once } from "node:events";
import { constants } from "node:fs";
import { copyFile, cp, mkdir, writeFile } from "node:fs/promises";
import { type IncomingMessage, get } from "node:http";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";

import type { BrowserContextOptions, Page } from "playwright-core";
import { expect, inject } from "vitest";

import { lastWorker, listen } from "./support/browser.js";
import { CHROMIUM, test as base } from "./support/fixtures.js";
import { Middle, instead, passedOn } from "./support/middle.js";
import { Server, Spirea } from "./support/servers.js";

const PHONE = { width: 360, height: 740 };
const PICTURES = join(inject("machine").web, "pictures");
/** Timeout of a look-up in milliseconds. */
const LONG = 180_000;

const test = base.extend<{ demo: Server; opened: (url: string, options?: BrowserContextOptions) => Promise<Page> }>({
  demo: [
    async ({ spirea }, use) => {
      const folder = spirea.path("demo");
      const rows = Array.from({ length: 300 }, (_, i) => i);
      // The program finds the page relative to its own folder.
      for (const part of ["bin", join("share", "spirea")]) await mkdir(join(folder, part), { recursive: true });
      await writeFile(join(folder, "domains.csv"), `key,verdict\n${rows.map((i) => `ads-${i}.example,advertising\n`).join("")}`);
      await writeFile(join(folder, "passwords.csv"), `key,times\n${rows.map((i) => `password${i},${i}\n`).join("")}`);
      await copyFile(spirea.program, join(folder, "bin", "spirea"), constants.COPYFILE_FICLONE);
      await cp(inject("machine").demo, join(folder, "share", "spirea", "web"), { recursive: true });
      const installed = new Spirea(join(folder, "bin", "spirea"), folder);
      const options = ["--normalise", "domain"];
      const domains = await installed.build("bad-domains", "simple", { table: "domains.csv", fields: ["verdict"], options });
      const passwords = await installed.build("leaked-passwords", "onion", { table: "passwords.csv", fields: ["times"] });
      await writeFile(join(folder, "rows.csv"), `place,height\n${rows.map((i) => `mountain ${i},${i} m\n`).join("")}`);
      await installed.run("build", "--input", "rows.csv", "--value", "place", "height", "--protocol", "simple", "--out", "tall-rows");
      await mkdir(PICTURES, { recursive: true });
      await using server = await Server.start(installed, domains, passwords, installed.path("tall-rows"), "--demo");
      await use(server);
    },
    { scope: "file" },
  ],
  /** Opens the page in a separate context. */
  opened: async ({ browser }, use) => {
    const pages: Page[] = [];
    await use(async (url, options) => {
      const page = await (await browser.newContext(options)).newPage();
      pages.push(page);
      listen(page);
      page.setDefaultTimeout(LONG);
      await page.goto(url);
      await page.locator("#ask:enabled").waitFor();
      return page;
    });
    for (const page of pages) await page.context().close();
  },
});
const browserTest = test.skipIf(CHROMIUM === undefined);

/** Waits until an element has this text. */
async function shows(page: Page, selector: string, text: string): Promise<void> {
  const element = page.locator(selector);
  await expect.poll(() => element.textContent(), { timeout: LONG }).toBe(text);
}

async function ask(page: Page, key: string, verdict: string): Promise<void> {
  await page.locator("#key").fill(key);
  await page.locator("#key").press("Enter");
  await shows(page, "#verdict", verdict);
  await page.locator("#ask:enabled").waitFor();
}

/** The page after a look-up, as assistive technology sees it. Capital letters replace values that vary. */
const STRUCTURE = `
- banner:
  - heading "Is it on the list?" [level=1]
  - paragraph: Look up a password, a domain, or any other key. The server answers, and does not learn what you asked for.
- main:
  - text: List
  - combobox "List":
    - option "bad-domains" [selected]
    - option "leaked-passwords"
    - option "tall-rows"
  - text: Domain
  - textbox "Domain": ads-7.example
  - paragraph: Such as ads-7.example. Capitals and spaces around it make no difference. It is hidden among all 300 entries of the list.
  - button "Look up privately"
  - paragraph: On the list
  - paragraph: "verdict: advertising"
  - region "What left this browser":
    - heading "What left this browser" [level=2]
    - paragraph: BYTES of encrypted query. As many for every key, listed or not.
    - figure "From the middle of this query": From the middle of this query EXCERPT
    - figure "From the middle of the one before": From the middle of the one before EXCERPT
    - paragraph: "Every query is encrypted under a fresh secret. Look the same key up again: it will be as long, and other bytes."
    - heading "What a plain look-up would have sent" [level=3]
    - text: GET /lists/bad-domains/
    - mark: ads-7.example
    - paragraph: Whoever runs that server, or reads its log, would have known.
  - region "Where the time went":
    - heading "Where the time went" [level=2]
    - table:
      - rowgroup:
        - row "Phase Where Time":
          - columnheader "Phase"
          - columnheader "Where"
          - columnheader "Time"
      - rowgroup:
        - row "Making the query this browser TIME":
          - rowheader "Making the query"
          - cell "this browser"
          - cell "TIME"
        - row "On the way, and waiting network TIME":
          - rowheader "On the way, and waiting"
          - cell "network"
          - cell "TIME"
        - row "Computing over the whole list server TIME":
          - rowheader "Computing over the whole list"
          - cell "server"
          - cell "TIME"
        - row "Decoding the answer this browser TIME":
          - rowheader "Decoding the answer"
          - cell "this browser"
          - cell "TIME"
        - row "All of it TIME":
          - rowheader "All of it"
          - cell
          - cell "TIME"
    - paragraph: Protocol simple, 300 entries, version VERSION; the answer had BYTES.
- contentinfo:
  - paragraph: "This page is a demo: the server that it asks also gave it its code. A page that must not trust the server takes the client from elsewhere. What was downloaded is kept in this browser for your next visit."
`.trim();

async function structure(page: Page): Promise<string> {
  const snapshot = await page.locator("body").ariaSnapshot();
  return snapshot
    .replaceAll(/([0-9a-f]{2} ){47}[0-9a-f]{2}/g, "EXCERPT")
    .replaceAll(/version [0-9a-f]{12}/g, "version VERSION")
    .replaceAll(/[0-9,]+ bytes/g, "BYTES")
    .replaceAll(/[0-9.,]+ ms/g, "TIME");
}

/** Runs in the page: measures the contrast of every text with its background, by WCAG 2, and the height of touch targets. */
function readable() {
  const channel = (value: number) => (value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  const rgb = (color: string) => color.match(/[0-9.]+/g)!.map(Number);
  const light = (color: number[]) => {
    const [r, g, b] = color.map((value) => channel(value / 255));
    return 0.2126 * r! + 0.7152 * g! + 0.0722 * b!;
  };
  const ground = (element: Element) => {
    for (let at: Element | null = element; at; at = at.parentElement) {
      const color = rgb(getComputedStyle(at).backgroundColor);
      if (color.length < 4 || color[3] === 1) return color;
    }
    return [255, 255, 255];
  };
  const shown = [...document.body.querySelectorAll("*")].filter((element) => element.checkVisibility());
  const hasText = (element: Element) => [...element.childNodes].some((node) => node instanceof Text && node.data.trim() !== "");
  const texts = shown.filter(hasText);
  const contrasts = texts.map((element) => {
    const [a, b] = [light(rgb(getComputedStyle(element).color)), light(ground(element))];
    return { element: element.id || element.tagName, ratio: (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) };
  });
  const touched = shown.filter((element) => ["BUTTON", "INPUT", "SELECT"].includes(element.tagName));
  const heights = touched.map((element) => ({ id: element.id, height: element.getBoundingClientRect().height }));
  return {
    texts: texts.length,
    touched: touched.length,
    faults: {
      contrast: contrasts.filter(({ ratio }) => ratio < 4.5),
      low: heights.filter(({ height }) => height < 44),
      small: texts.filter((element) => parseFloat(getComputedStyle(element).fontSize) < 12).length,
      wide: document.documentElement.scrollWidth - innerWidth,
    },
    ground: light(ground(document.body)),
  };
}

browserTest.for(["light", "dark"] as const)("the page on a phone, %s", async (colorScheme, { opened, demo }) => {
  const phone = { viewport: PHONE, colorScheme, deviceScaleFactor: 2, hasTouch: true };
  const page = await opened(`${demo.url}/demo/`, phone);
  const { said, errors } = listen(page);
  await ask(page, "ads-9.example", "On the list");
  const before = await page.locator("#now").innerText();
  await ask(page, "ads-7.example", "On the list");
  // The page shows another excerpt, with the former one beside it.
  expect(await page.locator("#now").innerText()).not.toBe(before);
  expect(await page.locator("#before").innerText()).toBe(before);
  expect(await structure(page)).toBe(STRUCTURE);
  const found = await page.evaluate(readable);
  expect(found.texts).toBeGreaterThan(20);
  expect(found.touched).toBeGreaterThanOrEqual(3);
  expect(found.faults).toEqual({ contrast: [], low: [], small: 0, wide: 0 });
  if (colorScheme === "dark") expect(found.ground).toBeLessThan(0.1);
  else expect(found.ground).toBeGreaterThan(0.9);
  await page.screenshot({ path: join(PICTURES, `phone-${colorScheme}.png`), fullPage: true });
  // The case of a domain makes no difference.
  await ask(page, " Ads-8.Example", "On the list");
  // Nor does a dot at its end, because the rules for forms of keys are served with the page.
  await ask(page, "ads-8.example.", "On the list");
  await ask(page, "absent.example", "Not on the list");
  expect([...said, ...errors]).toEqual([]);
});

/** In the page: words that are cut in two by the end of a line, but for bytes and what was typed. */
function cut() {
  const found: string[] = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
    const parent = node.parentElement!;
    if (parent.closest("pre, select, noscript, script") !== null || !parent.checkVisibility()) continue;
    for (const word of node.textContent!.matchAll(/[^\s-]+/g)) {
      const range = document.createRange();
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      if (new Set([...range.getClientRects()].map(({ top }) => Math.round(top))).size > 1) found.push(word[0]);
    }
  }
  return { found, wide: document.documentElement.scrollWidth - innerWidth };
}

browserTest("a table by position on a phone: a number field, fields as a list, whole words", async ({ opened, demo }) => {
  const page = await opened(`${demo.url}/demo/?list=leaked-passwords`, { viewport: { width: 375, height: 740 } });
  // The page is widest with keys, whose rows are in the table of times.
  await ask(page, "password17", "On the list");
  expect(await page.evaluate(cut)).toEqual({ found: [], wide: 0 });
  await page.locator("#list").selectOption("tall-rows");
  await shows(page, "#key-label", "Row");
  expect(await page.locator("#key").getAttribute("type")).toBe("number");
  expect(await page.locator("#key").inputValue()).toBe("");
  await ask(page, "17", "Found");
  expect(await page.locator("#fields li").allTextContents()).toEqual(["place: mountain 17", "height: 17 m"]);
  expect(await page.evaluate(cut)).toEqual({ found: [], wide: 0 });
  await page.screenshot({ path: join(PICTURES, "rows.png"), fullPage: true });
  await page.locator("#list").selectOption("bad-domains");
  expect(await page.locator("#key").getAttribute("type")).toBe("text");
});

browserTest("a look-up takes away what the one before showed", async ({ opened, demo }) => {
  await using between = await Middle.before(demo.url);
  const page = await opened(`${between.url}/demo/?list=bad-domains`, { viewport: PHONE });
  await ask(page, "ads-1.example", "On the list");
  expect(await page.locator("#sent").isVisible()).toBe(true);
  between.fate = (seen, ask) => (seen.what === "query" ? between.silence(seen, ask) : ask());
  await page.locator("#key").fill("ads-2.example");
  await page.locator("#ask").click();
  await shows(page, "#verdict", "asking…");
  for (const old of ["#sent", "#time", "#fields"]) expect(await page.locator(old).isVisible()).toBe(false);
  expect(await page.locator("#detail").textContent()).toBe("");
  await page.locator("#stop").click();
  await shows(page, "#verdict", "Stopped");
});

browserTest("the page by keyboard on a desk, with keys and progress", async ({ opened, demo }) => {
  const page = await opened(`${demo.url}/demo/`, { viewport: { width: 1100, height: 900 } });
  await page.locator("#list").selectOption("leaked-passwords");
  await shows(page, "#key-label", "Password");
  const focused = () => page.evaluate(() => document.activeElement?.id);
  await page.locator("#list").press("Tab");
  expect(await focused()).toBe("key");
  await page.keyboard.type("password17");
  await page.keyboard.press("Tab");
  expect(await focused()).toBe("ask");
  await page.keyboard.press("Enter");
  await shows(page, "#verdict", "On the list");
  await shows(page, "#detail", "times: 17");
  await page.locator("#ask:enabled").waitFor();
  const sent = () => page.locator("#sent-summary").textContent();
  expect(await sent()).toContain("bytes of evaluation keys, once");
  expect(await page.locator("#time").textContent()).toContain("Uploading evaluation keys, once");
  await page.screenshot({ path: join(PICTURES, "desk.png"), fullPage: true });
  await ask(page, "Password17", "Not on the list");
  expect(await sent()).not.toContain("evaluation keys");
});

browserTest("the page stops, and says what failed", async ({ opened, demo }) => {
  await using between = await Middle.before(demo.url);
  const page = await opened(`${between.url}/demo/`, { viewport: PHONE });
  between.fate = (seen, ask) => (seen.what === "query" ? between.silence(seen, ask) : ask());
  await page.locator("#key").fill("ads-1.example");
  await page.locator("#ask").click();
  await between.waitFor("query");
  await page.locator("#stop").click();
  await shows(page, "#verdict", "Stopped");
  await page.locator("#stop").waitFor({ state: "hidden" });
  between.fate = instead("query", { status: 500, headers: {}, body: Buffer.alloc(0) });
  await ask(page, "ads-1.example", "No answer");
  expect(await page.locator("#detail").innerText()).toContain("500");
  await page.screenshot({ path: join(PICTURES, "failed.png"), fullPage: true });
  between.fate = passedOn;
  await ask(page, "ads-1.example", "On the list");
});

browserTest("the policy of the page lets nothing else in", async ({ opened, demo }) => {
  const page = await opened(`${demo.url}/demo/`);
  const origins = await page.evaluate(() => performance.getEntriesByType("resource").map(({ name }) => new URL(name).origin));
  expect(new Set(origins)).toEqual(new Set([demo.url]));
  const blocked = await page.evaluate(() => {
    const violated = new Promise<string>((told) => {
      document.addEventListener("securitypolicyviolation", (event) => told(event.violatedDirective));
    });
    const script = document.createElement("script");
    script.textContent = "1";
    document.body.append(script);
    return violated;
  });
  expect(blocked).toMatch(/^script-src/);
  // The policy allows the page's own pictures, such as the icon.
  const drawn = await page.evaluate(() => {
    const image = new Image();
    const loaded = new Promise<boolean>((done) => {
      image.onload = () => done(true);
      image.onerror = () => done(false);
    });
    image.src = "icon.svg";
    return loaded;
  });
  expect(drawn).toBe(true);
});

browserTest("a client that stops is followed by another", async ({ opened, demo }) => {
  const page = await opened(`${demo.url}/demo/`);
  await ask(page, "ads-1.example", "On the list");
  const worker = lastWorker(page);
  const closed = new Promise((resolve) => worker.once("close", resolve));
  await worker.evaluate("setTimeout(() => { throw new Error('stopped'); })");
  await closed;
  await ask(page, "ads-1.example", "No answer");
  await ask(page, "ads-1.example", "On the list");
});

browserTest("a list may be named in the address", async ({ opened, demo }) => {
  for (const [named, chosen] of [["leaked-passwords", "leaked-passwords"], ["nothing", "bad-domains"]]) {
    const page = await opened(`${demo.url}/demo/?list=${named}`);
    expect(await page.locator("#list").inputValue()).toBe(chosen);
  }
});

/** Returns a response as it crosses the wire; `fetch` would decompress it. */
async function fetched(url: string, headers: Record<string, string>) {
  const request = get(url, { headers, agent: false });
  const [response] = (await once(request, "response")) as [IncomingMessage];
  return { status: response.statusCode, headers: response.headers, body: Buffer.concat(await response.toArray()) };
}

test("files are compressed and sent once", async ({ demo }) => {
  const script = `${demo.url}/demo/demo.js`;
  const plain = await fetched(script, {});
  expect(plain.status).toBe(200);
  expect(plain.headers).not.toHaveProperty("content-encoding");
  const packed = await fetched(script, { "accept-encoding": "gzip, br" });
  expect(packed.status).toBe(200);
  expect(packed.headers["content-encoding"]).toBe("gzip");
  expect(gunzipSync(packed.body).equals(plain.body)).toBe(true);
  expect(packed.body.length).toBeLessThan(plain.body.length / 2);
  const unchanged = await fetched(script, { "if-none-match": packed.headers.etag! });
  expect(unchanged.status).toBe(304);
  expect(unchanged.body).toHaveLength(0);
});
