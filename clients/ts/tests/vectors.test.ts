// The committed vectors of whole look-ups: the package computes the same bytes as Rust and the reference client.

import { readFileSync, readdirSync } from "node:fs";
import { copyFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { blake3 } from "@noble/hashes/blake3.js";
import { beforeAll, describe, expect, inject } from "vitest";

import { InBrowser } from "./support/browser.js";
import { RUNTIMES, test as base } from "./support/fixtures.js";
import { type Params, hintOf, recordsOf } from "./support/hints.js";
import { ROOT } from "./support/machine.js";
import { PAIRS, PROTOCOLS, bare } from "./support/servers.js";

const FOLDER = join(ROOT, "conformance", "vectors", "client");
const NAMES = readdirSync(FOLDER).map((file) => file.replace(/\.json$/, "")).sort();

base("there is a vector of every protocol", () => {
  const protocols = new Set(NAMES.map(bare));
  expect(protocols).toEqual(new Set([...PROTOCOLS, ...PAIRS]));
});

interface Vector {
  params: Params;
  content: number;
  index: number;
  /** The hint, for protocols whose hint can only be computed with a server's packing. */
  hint?: string;
  hint_blake3: string;
  keys_blake3: string | null;
  queries_blake3: string[];
  record: string;
  fetch?: { chosen: number[]; queries_blake3: string[] };
}

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString("hex");

/** Computed hints as files of the site, by the name of their vector. */
const hints = new Map<string, Promise<string>>();

async function writeHint(name: string, { params, hint, hint_blake3 }: Vector, contents: Uint8Array[]): Promise<string> {
  const bytes = hint === undefined ? hintOf(params, contents) : Buffer.from(hint, "hex");
  expect(hex(blake3(bytes))).toBe(hint_blake3);
  await writeFile(join(inject("installed"), `${name}.hint`), bytes);
  return `${name}.hint`;
}

beforeAll(async () => {
  await copyFile(join(inject("machine").web, "vectors.wasm"), join(inject("installed"), "vectors.wasm"));
});

describe.for(RUNTIMES)("$where", ({ among, test }) => {
  test.for(among(NAMES))("%s", async (name, { runtime }) => {
    const vector: Vector = JSON.parse(readFileSync(join(FOLDER, `${name}.json`), "utf8"));
    const contents = recordsOf(vector.content, vector.params);
    const hint = await (hints.get(name) ?? hints.set(name, writeHint(name, vector, contents)).get(name));
    const given = { vector, hint };
    const made = runtime instanceof InBrowser ? await runtime.vectors("inPage", given) : await runtime.call("inNode", given);
    const { keys_blake3, queries_blake3, record, fetch } = vector;
    expect(made).toMatchObject({ keys_blake3, queries_blake3, record });
    expect(made.record).toBe(hex(contents[vector.index]!));
    if (fetch) {
      const { chosen } = fetch;
      expect(made.fetch).toEqual({ chosen, queries_blake3: fetch.queries_blake3 });
      expect(made.fetched).toBe(chosen.map((index) => hex(contents[index]!)).join(""));
    }
  });
});
