// Steps of many tests: a client named `client` that connects and looks a key up.

import { expect } from "vitest";

import type { Runtime } from "./fixtures.js";
import { type Failure, done } from "./outcomes.js";

export const KEY = "key-5";
/** Quick to give up, as the tests are. */
export const HASTY = { attempts: 2, maxPause: 50, patience: 2000, timeout: 1500 };

export async function connect(runtime: Runtime, url: unknown, database = "simple", options: object = {}): Promise<any> {
  return done(await runtime.call("connect", "client", url, { database, ...HASTY, ...options }));
}

/** Returns the fields of a value, or null. */
export async function get(runtime: Runtime, key = KEY): Promise<string[] | null> {
  return done(await runtime.call("lookUp", "client", [key])).values[0];
}

/** Checks that an error holds nothing of the key. */
export function silent(error: Failure, key = KEY): void {
  expect(JSON.stringify(error)).not.toContain(key);
}
