// A page of a browser extension that checks a domain and its parents against a list.
import { Client } from "./spirea/browser.js";

const domain = document.querySelector("#domain");
const ask = document.querySelector("#ask");
const verdict = document.querySelector("#verdict");

/** Returns the host of the tab on whose toolbar the extension was clicked; "" if there is none. */
async function currentHost() {
  const [tab] = await chrome.tabs.query({ active: true, currentWindow: true });
  const url = tab?.url && new URL(tab.url);
  return url && /^https?:$/.test(url.protocol) ? url.hostname : "";
}

/** Connects at the first look-up, and again after a failure. */
let client;
async function connected() {
  const { server, database } = await (await fetch("settings.json")).json();
  client ??= Client.connect(server, { database });
  client.catch(() => (client = undefined));
  return client;
}

document.querySelector("form").addEventListener("submit", async (event) => {
  event.preventDefault();
  ask.disabled = true;
  verdict.textContent = "Asking ...";
  try {
    const { matches } = await (await connected()).getDomain(domain.value.trim());
    const [listed] = matches.keys();
    verdict.textContent = listed === undefined ? "Not on the list." : `On the list: ${listed}`;
  } catch (error) {
    // An error is not an answer: it never means that the domain is not on the list.
    verdict.textContent = `No answer: ${error.message}`;
  }
  ask.disabled = false;
});

domain.value = await currentHost();
