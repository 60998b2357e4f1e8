// The worker in Node, a thread.

import { readFile } from "node:fs/promises";
import { parentPort } from "node:worker_threads";

import type { Call } from "../messages.js";
import { Engine } from "./engine.js";
import { openFolder } from "./folder.js";

const port = parentPort;
if (port === null) throw new Error("this file is a thread's");

const engine = new Engine({
  module: async (url, signal) => {
    const bytes = await readFile(url, { signal });
    return WebAssembly.compile(new Uint8Array(bytes));
  },
  place: ({ keep, cache }) => (keep === "persistent" && cache !== undefined ? () => openFolder(cache) : undefined),
  reply: (reply) => port.postMessage(reply),
});
port.on("message", (call: Call) => engine.call(call));
