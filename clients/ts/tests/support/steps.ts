// Common steps of tests: a client named `client` connects and looks up a key.

import { expect } from "vitest";

import type { Runtime } from "./fixtures.js";
import type { Middle } from "./middle.js";
import { type Failure, done } from "./outcomes.js";
import { keysNamed } from "./wire.js";

export const KEY = "key-5";
/** Options for two attempts with a short pause. */
export const HASTY = { attempts: 2, maxPause: 50 };
/** Options with short timeouts, for tests of silent servers. */
export const IMPATIENT = { ...HASTY, patience: 2000, timeout: 1500 };

/** Connects. Returns the client's description and storage. */
export async function connect(runtime: Runtime, url: unknown, database: string, options: object = {}): Promise<any> {
  return done(await runtime.call("connect", "client", url, { database, ...options }));
}

export async function connectHastily(runtime: Runtime, url: unknown, database = "simple", options: object = {}): Promise<any> {
  return connect(runtime, url, database, { ...HASTY, ...options });
}

/** Closes the client, which then has stored all its data. */
export async function close(runtime: Runtime): Promise<void> {
  done(await runtime.call("close", "client"));
}

/** Returns the fields of a value, or null. */
export async function get(runtime: Runtime, key = KEY): Promise<string[] | null> {
  return done(await runtime.call("lookUp", "client", [key])).values[0];
}

/** Checks that an error does not contain the key. */
export function silent(error: Failure, key = KEY): void {
  expect(JSON.stringify(error)).not.toContain(key);
}

/** Returns the hashes of the keys that the queries name, in the order of arrival. */
export function keysOfQueries(between: Middle): string[] {
  return between.asked("query").map(({ body }) => keysNamed(body));
}

/** Checks that two queries share no run of 16 aligned bytes, without their heads (version and keys' name) and their ends. */
export function shareNothing(one: Buffer, two: Buffer): void {
  expect(one.length).toBe(two.length);
  const shared: number[] = [];
  for (let at = 64; at < one.length - 64; at += 16) {
    if (one.subarray(at, at + 16).equals(two.subarray(at, at + 16))) shared.push(at);
  }
  expect(shared, "runs start at").toEqual([]);
}
