// The package in a browser: a client is a Web Worker.

import type { Call, Reply } from "./messages.js";
import { type Ears, type Port, provide } from "./platform.js";

export * from "./index.js";

function spawn(ears: Ears): Port {
  const worker = new Worker(new URL("./worker/web.js", import.meta.url), { type: "module", name: "spirea" });
  worker.addEventListener("message", ({ data }: MessageEvent<Reply>) => ears.reply(data));
  worker.addEventListener("messageerror", () => ears.died());
  worker.addEventListener("error", (event) => {
    // What went wrong is nobody's to read but the client's.
    event.preventDefault();
    ears.died();
  });
  return {
    send: (call: Call) => worker.postMessage(call),
    hold: () => undefined,
    end: () => worker.terminate(),
  };
}

const { href } = globalThis.location;
// A page that is no file of a server's has no addresses beside its own.
provide({ spawn, maxHintBytes: 2 ** 28, ...(/^https?:/.test(href) && { base: href }) });
