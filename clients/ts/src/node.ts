// The package in Node: a client is a thread.

import { Worker } from "node:worker_threads";

import type { Call, Reply } from "./messages.js";
import { type Ears, type Port, provide } from "./platform.js";

export * from "./index.js";

function spawn(ears: Ears): Port {
  const worker = new Worker(new URL("./worker/thread.js", import.meta.url), {
    name: "spirea",
    // What the program was started with may be no thread's: `--input-type`.
    execArgv: [],
  });
  worker.on("message", (reply: Reply) => ears.reply(reply));
  worker.on("messageerror", () => ears.died());
  worker.on("error", () => ears.died());
  worker.unref();
  return {
    send: (call: Call) => worker.postMessage(call),
    // A program that waits for nothing ends, though a client is open.
    hold: (busy) => (busy ? worker.ref() : worker.unref()),
    end: () => void worker.terminate(),
  };
}

provide({ spawn, maxHintBytes: 2 ** 30 });
