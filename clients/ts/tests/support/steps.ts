// Steps of many tests: a client named `client` that connects and looks a key up.

import { expect } from "vitest";

import type { Runtime } from "./fixtures.js";
import type { Middle } from "./middle.js";
import { type Failure, done } from "./outcomes.js";
import { keysNamed } from "./wire.js";

export const KEY = "key-5";
/** Tries twice, and pauses shortly. */
export const HASTY = { attempts: 2, maxPause: 50 };
/** Gives a server up that says nothing: for tests of servers that do. */
export const IMPATIENT = { ...HASTY, patience: 2000, timeout: 1500 };

/** Connects; returns how it stands with the client. */
export async function connect(runtime: Runtime, url: unknown, database: string, options: object = {}): Promise<any> {
  return done(await runtime.call("connect", "client", url, { database, ...options }));
}

export async function connectHastily(runtime: Runtime, url: unknown, database = "simple", options: object = {}): Promise<any> {
  return connect(runtime, url, database, { ...HASTY, ...options });
}

/** Closes the client, so that all it keeps is stored. */
export async function close(runtime: Runtime): Promise<void> {
  done(await runtime.call("close", "client"));
}

/** Returns the fields of a value, or null. */
export async function get(runtime: Runtime, key = KEY): Promise<string[] | null> {
  return done(await runtime.call("lookUp", "client", [key])).values[0];
}

/** Checks that an error holds nothing of the key. */
export function silent(error: Failure, key = KEY): void {
  expect(JSON.stringify(error)).not.toContain(key);
}

/** The hashes of the keys that the queries name, in the order in which they came. */
export function keysOfQueries(between: Middle): string[] {
  return between.asked("query").map(({ body }) => keysNamed(body));
}

/** Checks that two queries share no run of bytes between their heads, with the version and the keys' name, and their ends. */
export function shareNothing(one: Buffer, two: Buffer): void {
  expect(one.length).toBe(two.length);
  for (let at = 64; at < one.length - 64; at += 16) {
    expect(one.subarray(at, at + 16).equals(two.subarray(at, at + 16)), `bytes from ${at} on`).toBe(false);
  }
}
