// The package's entry for Node: a client runs in a thread.

import { Worker } from "node:worker_threads";

import type { Call, Reply } from "./messages.js";
import { type Ears, type Port, provide } from "./platform.js";

export * from "./index.js";

function spawn(ears: Ears): Port {
  const worker = new Worker(new URL("./worker/thread.js", import.meta.url), {
    name: "spirea",
    // Threads do not accept all options of the program, such as `--input-type`.
    execArgv: [],
  });
  worker.on("message", (reply: Reply) => ears.reply(reply));
  worker.on("messageerror", () => ears.died());
  worker.on("error", () => ears.died());
  worker.unref();
  return {
    send: (call: Call) => worker.postMessage(call),
    // An idle client does not keep the program running.
    hold: (busy) => (busy ? worker.ref() : worker.unref()),
    end: () => void worker.terminate(),
  };
}

provide({ spawn, maxHintBytes: 2 ** 30 });
