// Measures the dependence of the time of the client's primitives, as WebAssembly in this engine, on their secret input.
//
// usage: npm run timing -- [RUNS]
//
// A primitive runs on a fixed input and on random inputs in random order, RUNS times in total. Prints Welch's t for each, and the
// difference of the means in nanoseconds. It never fails: the figures are for people to read (docs/constant-time.md).

import { readFile } from "node:fs/promises";
import { cpus } from "node:os";
import { join } from "node:path";

import { WEB, need } from "./support/machine.js";

const RUNS = Number(process.argv[2] ?? 100_000);
/** Number of runs before the measurement, in which the engine compiles the primitive. */
const WARM_UP = RUNS / 10;
/** Share of runs that count; the slowest ones are due to interruptions. */
const COUNTED = 0.9;
/** Input of every fixed run, with the same size as a random one. */
const FIXED = 0x89abcdef01234567n;
/** Number of runs whose inputs are drawn at once. */
const DRAWN = 1024;
/** Value of t from which the difference is probably not due to chance (Goodwill et al., 2011). */
const SUSPECT = 4.5;

interface Exports {
  memory: WebAssembly.Memory;
  output(): number;
  primitives(): void;
  prepare(primitive: number, input: bigint): void;
  run(): void;
}

interface Class {
  mean: number;
  variance: number;
  count: number;
}

async function load(): Promise<Exports> {
  const path = join(WEB, "timing.wasm");
  need(path, "build it (python3 scripts/web.py --timing), or set SPIREA_WEB to its folder");
  const file = await readFile(path);
  let memory: WebAssembly.Memory | undefined;
  const spirea = {
    random(start: number, length: number): number {
      crypto.getRandomValues(new Uint8Array(memory!.buffer, start >>> 0, length >>> 0));
      return 0;
    },
    now: () => performance.now(),
    progress: () => undefined,
    ask_rules: () => 0,
    take_answer: () => undefined,
  };
  const { instance } = await WebAssembly.instantiate(file, { spirea });
  const exports = instance.exports as unknown as Exports;
  memory = exports.memory;
  return exports;
}

function names({ memory, output, primitives }: Exports): string[] {
  primitives();
  const start = output() >>> 0;
  const length = new DataView(memory.buffer).getUint32(start, true);
  return JSON.parse(new TextDecoder().decode(new Uint8Array(memory.buffer, start + 4, length))) as string[];
}

/** Measures the nanoseconds of one run. */
function time({ prepare, run }: Exports, primitive: number, input: bigint): number {
  prepare(primitive, input);
  const started = process.hrtime.bigint();
  run();
  return Number(process.hrtime.bigint() - started);
}

function classOf(times: readonly number[]): Class {
  const mean = times.reduce((sum, time) => sum + time, 0) / times.length;
  const squares = times.reduce((sum, time) => sum + (time - mean) ** 2, 0);
  return { mean, variance: squares / (times.length - 1), count: times.length };
}

/** Measures times on the fixed input and on random ones, without the slowest. */
function measured(exports: Exports, primitive: number): [fixed: number[], random: number[]] {
  const inputs = new BigUint64Array(DRAWN);
  const coins = new Uint8Array(DRAWN);
  const runs: { isFixed: boolean; time: number }[] = [];
  for (let i = -WARM_UP; i < RUNS; i++) {
    const place = (i + WARM_UP) % DRAWN;
    if (place === 0) {
      crypto.getRandomValues(inputs);
      crypto.getRandomValues(coins);
      // Both kinds of inputs are read from one array, because an input from another place would affect caches differently.
      coins.forEach((coin, at) => coin & 1 && (inputs[at] = FIXED));
    }
    const taken = time(exports, primitive, inputs[place]!);
    if (i >= 0) runs.push({ isFixed: (coins[place]! & 1) === 1, time: taken });
  }
  const limit = runs.map((run) => run.time).sort((a, b) => a - b)[Math.floor(RUNS * COUNTED)]!;
  const counted = runs.filter((run) => run.time < limit);
  const of = (isFixed: boolean) => counted.filter((run) => run.isFixed === isFixed).map((run) => run.time);
  return [of(true), of(false)];
}

const exports = await load();
console.log(`${RUNS} runs each; Node ${process.version} on ${cpus()[0]?.model}\n`);
console.log("| primitive | mean | difference | t |\n|---|---|---|---|");
for (const [number, name] of names(exports).entries()) {
  const [fixed, random] = measured(exports, number).map(classOf) as [Class, Class];
  const difference = random.mean - fixed.mean;
  const t = difference / Math.sqrt(fixed.variance / fixed.count + random.variance / random.count);
  const verdict = Math.abs(t) < SUSPECT ? "" : " (suspect)";
  console.log(`| ${name} | ${fixed.mean.toFixed(0)} ns | ${difference.toFixed(1)} ns | ${t.toFixed(1)}${verdict} |`);
}
