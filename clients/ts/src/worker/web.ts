// The worker in a browser.

import type { Call } from "../messages.js";
import { Engine } from "./engine.js";
import { openIndexedDb } from "./indexeddb.js";

const scope = globalThis as unknown as {
  postMessage(message: unknown): void;
  addEventListener(type: "message", listener: (event: MessageEvent<Call>) => void): void;
};

/** Compiled as it arrives, where the server says what it is. */
async function compiled(url: URL, signal: AbortSignal): Promise<WebAssembly.Module> {
  const response = await fetch(url, { signal });
  if (!response.ok) throw new Error(`status ${response.status}`);
  if (response.headers.get("content-type") === "application/wasm") return WebAssembly.compileStreaming(response);
  return WebAssembly.compile(await response.arrayBuffer());
}

const engine = new Engine({
  module: compiled,
  place: ({ keep }) => (keep === "persistent" ? openIndexedDb : undefined),
  reply: (reply) => scope.postMessage(reply),
});
scope.addEventListener("message", ({ data }) => engine.call(data));
