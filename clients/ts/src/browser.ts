// The package's entry for browsers: a client runs in a Web Worker.

import type { Call, Reply } from "./messages.js";
import { type Ears, type Port, provide } from "./platform.js";

export * from "./index.js";

function spawn(ears: Ears): Port {
  const worker = new Worker(new URL("./worker/web.js", import.meta.url), { type: "module", name: "spirea" });
  worker.addEventListener("message", ({ data }: MessageEvent<Reply>) => ears.reply(data));
  worker.addEventListener("messageerror", () => ears.died());
  worker.addEventListener("error", (event) => {
    // Keeps the error from the page's own error handlers: only the client may read it.
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
// A page that does not come from a server has no base for relative addresses.
provide({ spawn, maxHintBytes: 2 ** 28, ...(/^https?:/.test(href) && { base: href }) });
