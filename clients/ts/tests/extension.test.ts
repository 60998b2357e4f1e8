// The extension in examples/extension, loaded by Chromium.

import { cp, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { expect } from "vitest";

import { launchedWithExtension, listen } from "./support/browser.js";
import { CHROMIUM, browserTest } from "./support/fixtures.js";
import { ROOT } from "./support/machine.js";

browserTest("an extension checks domains, and tells a failure from an absence", async ({ formed, installed, folder }) => {
  const extension = join(folder, "extension");
  await cp(join(ROOT, "examples", "extension"), extension, { recursive: true });
  await cp(join(installed, "node_modules", "spirea", "dist"), join(extension, "spirea"), { recursive: true });
  const serving = (server: string) => writeFile(join(extension, "settings.json"), JSON.stringify({ server, database: "names" }));
  await serving("http://127.0.0.1:1");
  const { context, address } = await launchedWithExtension(CHROMIUM!, join(folder, "profile"), extension);
  try {
    const page = await context.newPage();
    const { errors } = listen(page);
    await page.goto(`${address}/popup.html`);
    const ask = async (domain: string, verdict: RegExp) => {
      await page.locator("#domain").fill(domain);
      await page.locator("#ask").click();
      await expect.poll(() => page.locator("#verdict").textContent(), { timeout: 180_000 }).toMatch(verdict);
    };
    await ask("example.com", /^No answer: /);
    await serving(formed.url);
    await ask("www.ads.example.com", /^On the list: (ads\.)?example\.com$/);
    await ask("example.org", /^Not on the list\.$/);
    expect(errors).toEqual([]);
  } finally {
    await context.close();
  }
});
