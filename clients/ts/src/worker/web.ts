// The worker in a browser, a Web Worker.

import type { Call } from "../messages.js";
import { Engine } from "./engine.js";
import { openIndexedDb } from "./indexeddb.js";

const scope = globalThis as unknown as {
  postMessage(message: unknown): void;
  addEventListener(type: "message", listener: (event: MessageEvent<Call>) => void): void;
};

/** Loads a module. Compiles it while it arrives, if the server states the type `application/wasm`. */
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
