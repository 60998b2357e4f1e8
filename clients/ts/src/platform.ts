import type { Call, Reply } from "./messages.js";

/** A worker, as a client sees it. */
export interface Port {
  send(call: Call): void;
  /** Says whether the worker should keep a program running. */
  hold(busy: boolean): void;
  end(): void;
}

/** What a worker's messages, and its end, go to. */
export interface Ears {
  reply(reply: Reply): void;
  died(): void;
}

/** What differs between browsers and Node. */
export interface Platform {
  spawn(ears: Ears): Port;
  /** What addresses are relative to. */
  base?: string;
  /** The longest hint, in bytes, where nothing is said of it. */
  maxHintBytes: number;
}

let platform: Platform | undefined;

/** Says where the package runs. */
export function provide(here: Platform): void {
  platform = here;
}

export function provided(): Platform {
  if (platform === undefined) throw new Error("import the package by its name, not a file of it");
  return platform;
}
