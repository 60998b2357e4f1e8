import type { Call, Reply } from "./messages.js";

/** A client's interface to its worker. */
export interface Port {
  send(call: Call): void;
  /** Sets if the worker keeps the program running. */
  hold(busy: boolean): void;
  end(): void;
}

/** Receiver of a worker's messages, and of its end. */
export interface Ears {
  reply(reply: Reply): void;
  died(): void;
}

/** Differences between browsers and Node. */
export interface Platform {
  spawn(ears: Ears): Port;
  /** Base of relative addresses. */
  base?: string;
  /** Default of the longest hint, in bytes. */
  maxHintBytes: number;
}

let platform: Platform | undefined;

/** Sets the platform that the package runs on. */
export function provide(here: Platform): void {
  platform = here;
}

export function provided(): Platform {
  if (platform === undefined) throw new Error("import the package by its name, not a file of it");
  return platform;
}
