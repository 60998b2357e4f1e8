// The harness's calls in Node: a line of JSON in, a line of JSON out.

import { createInterface } from "node:readline";

import * as harness from "./harness.mjs";
import { inNode } from "./vectors.mjs";

const calls = { ...harness, inNode };

for await (const line of createInterface({ input: process.stdin })) {
  const [name, args] = JSON.parse(line);
  process.stdout.write(`${JSON.stringify((await calls[name](...args)) ?? null)}\n`);
}
