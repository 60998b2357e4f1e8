// Visits a page in headless Chromium, and prints the first line that the page writes to its console.
// usage: node visit.mjs CHROMIUM URL

import { chromium } from "playwright-core";

const MOST_MILLISECONDS = 300_000;

const [program, url] = process.argv.slice(2);
// The sandbox of Chromium does not work for root.
const browser = await chromium.launch({
  executablePath: program,
  args: ["--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update"],
  chromiumSandbox: false,
});
try {
  const page = await browser.newPage();
  page.on("pageerror", (error) => console.error(`error in the page: ${error}`));
  page.on("requestfailed", (request) => console.error(`failed: ${request.url()}`));
  const predicate = (message) => message.type() === "log";
  const said = page.waitForEvent("console", { predicate, timeout: MOST_MILLISECONDS });
  await page.goto(url);
  console.log((await said).text());
} finally {
  await browser.close();
}
