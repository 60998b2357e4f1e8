// Tables, and processes of the command that serve them.

import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, readFileSync } from "node:fs";
import { mkdtemp, writeFile } from "node:fs/promises";
import { type IncomingMessage, get } from "node:http";
import { basename, join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

import { showLog } from "./evidence.js";
import { FULL } from "./machine.js";
import { ended, endWithParent, run } from "./processes.js";

export const ROWS = 1000;
export const FIELDS = ["value", "note"];
export const PROTOCOLS = ["simple", "double", "exppack-simple", "exppack-double", "double-pack", "hybrid", "onion"];
/** Protocols that need the least work to build, one of each kind: with a hint, with keys, with keys of another shape. */
export const COMMON = ["simple", "hybrid", "onion"];
/** Tables whose queries contain their keys. */
export const PER_QUERY = ["exppack-simple-per-query", "exppack-double-per-query", "hybrid-per-query"];
/** All other tables of one server; the short form has only those with the least work. */
export const OTHERS = FULL
  ? [...PROTOCOLS.filter((name) => !COMMON.includes(name)), ...PER_QUERY]
  : ["exppack-simple", "hybrid-per-query"];
/** Protocols with two servers. */
export const PAIRS = ["dpf-xor", "dpf-sum"];

/** Returns the protocol of a table by its name. */
export function bare(name: string): string {
  return name.replace(/(-(per-query|short|bins|rounded|brief))+$/, "");
}

export function value(row: number): string[] {
  return [`value ${row}`, `note of ${row}`];
}

export async function writeTable(path: string, rows: number): Promise<void> {
  const lines = Array.from({ length: rows }, (_, row) => [`key-${row}`, ...value(row)].join(","));
  await writeFile(path, `${["key", ...FIELDS].join(",")}\n${lines.join("\n")}\n`);
}

export interface Table {
  /** The CSV file, in the command's folder. */
  table?: string;
  fields?: readonly string[];
  /** Further options of `spirea build`. */
  options?: readonly string[];
}

/** The command, run in a separate folder that has `table.csv`. */
export class Spirea {
  constructor(
    readonly program: string,
    readonly folder: string,
  ) {}

  path(name: string): string {
    return join(this.folder, name);
  }

  /** Makes a folder in the command's folder. Returns its name. */
  async makeFolder(prefix: string): Promise<string> {
    return basename(await mkdtemp(this.path(prefix)));
  }

  /** Runs the command. Returns its output. */
  async run(...args: string[]): Promise<string> {
    const env = { ...process.env, XDG_CACHE_HOME: this.path("cache") };
    return (await run(this.program, args, { cwd: this.folder, env })).stdout;
  }

  /** Builds a snapshot. Returns its path. */
  async build(name: string, protocol: string, { table = "table.csv", fields = FIELDS, options = [] }: Table = {}): Promise<string> {
    const out = this.path(name);
    await this.run(
      ...["build", "--input", table, "--key", "key", "--value", ...fields, "--protocol", protocol, "--out", out, ...options],
    );
    return out;
  }
}

/** Addresses and log of a server. */
export interface Served {
  url: string;
  admin: string;
  log: string;
}

let servers = 0;

/** A running server that is ready. */
export class Server implements Served, AsyncDisposable {
  private constructor(
    private readonly process: ChildProcess,
    readonly url: string,
    readonly admin: string,
    readonly log: string,
  ) {}

  static async start(spirea: Spirea, ...args: string[]): Promise<Server> {
    const log = spirea.path(`server-${process.pid}-${servers++}.log`);
    const file = openSync(log, "a");
    const listen = ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];
    // Keys are registered in one request, which tests count.
    const env = { ...process.env, SPIREA_LIMITS__REQUEST_BYTES: "64MiB" };
    const child = spawn(spirea.program, ["serve", ...args, ...listen], { env, stdio: ["ignore", "pipe", file] });
    closeSync(file);
    endWithParent(child);
    showLog(log);
    try {
      const [url, admin] = await addresses(child, 2);
      assert(url !== undefined && admin !== undefined, "the server printed no two addresses");
      await ready(url);
      return new Server(child, url, admin, log);
    } catch (error) {
      child.kill("SIGKILL");
      throw new Error(`the server does not start: ${error}\n${readFileSync(log, "utf8")}`);
    }
  }

  async stop(): Promise<void> {
    this.process.kill("SIGTERM");
    assert.equal(await ended(this.process), 0, `a server's exit code; its log is:\n${readFileSync(this.log, "utf8")}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }
}

/** Reads the `count` addresses that a server prints, one on each line; fewer if its output ends. */
async function addresses(child: ChildProcess, count: number): Promise<string[]> {
  const found: string[] = [];
  for await (const line of createInterface({ input: child.stdout! })) {
    found.push(...(line.match(/http:\/\/127\.0\.0\.1:\d+/) ?? []));
    if (found.length === count) break;
  }
  // Later output is dropped, so that it does not fill the pipe.
  child.stdout!.resume();
  return found;
}

async function ready(url: string): Promise<void> {
  const signal = AbortSignal.timeout(180_000);
  for (;;) {
    const status = await statusOf(`${url}/readyz`, signal);
    if (status === 200) return;
    assert.equal(status, 503, "the status of /readyz");
    await sleep(10, undefined, { signal });
  }
}

/** Returns the status of a response. Closes the connection, because a server counts open connections. */
async function statusOf(url: string, signal: AbortSignal): Promise<number | undefined> {
  const [response] = (await once(get(url, { agent: false, signal }), "response")) as [IncomingMessage];
  response.resume();
  return response.statusCode;
}
