// Setup of all tests: checks requirements, installs the package, and starts the servers that most tests use.

import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import type { TestProject } from "vitest/node";

import { type Machine, machine, need } from "./machine.js";
import { installPackage } from "./package.js";
import { COMMON, PAIRS, ROWS, Server, type Served, Spirea, writeTable } from "./servers.js";

declare module "vitest" {
  export interface ProvidedContext {
    machine: Machine;
    /** The folder with the package as npm installs it. */
    installed: string;
    /** The folder in which the command runs. */
    tables: string;
    /** The server of the tables in COMMON, and of `exppack-simple-bins`. */
    server: Served;
    /** The servers of the tables in PAIRS, and of `dpf-xor-bins`. */
    pair: Served[];
  }
}

const addresses = ({ url, admin, log }: Server): Served => ({ url, admin, log });

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const found = machine();
  need(join(found.web, "vectors.wasm"), "build it (python3 scripts/web.py --vectors), or set SPIREA_WEB to its folder");
  if (found.chromium === undefined) {
    console.warn("Chromium is missing: the tests in a browser are skipped (Debian: apt-get install chromium)");
  }
  const folder = await mkdtemp(join(tmpdir(), "spirea-tests-"));
  const [installed, tables] = [join(folder, "installed"), join(folder, "tables")];
  const servers: Server[] = [];
  const stop = async () => {
    await Promise.all(servers.map((server) => server.stop()));
    await rm(folder, { recursive: true, force: true });
  };
  try {
    await Promise.all([mkdir(installed), mkdir(tables)]);
    await writeTable(join(tables, "table.csv"), ROWS);
    const spirea = new Spirea(found.spirea, tables);
    const start = async (snapshots: string[], ...args: string[]) => {
      const server = await Server.start(spirea, ...snapshots, ...args);
      servers.push(server);
      return addresses(server);
    };
    const inBins = async (protocol: string) => spirea.build(`${protocol}-bins`, protocol, { options: ["--bins", "8"] });
    const built = async (names: readonly string[], bins: Promise<string>) =>
      Promise.all([...names.map((name) => spirea.build(name, name)), bins]);
    const common = async () => start(await built(COMMON, inBins("exppack-simple")));
    const pair = async () => {
      const snapshots = await built(PAIRS, inBins("dpf-xor"));
      return Promise.all(["0", "1"].map((party) => start(snapshots, "--party", party)));
    };
    const started = [common(), pair(), installPackage(installed)] as const;
    // Waits for all of them even if one fails, so that none goes on in the background.
    await Promise.allSettled(started);
    const [server, both] = await Promise.all(started);
    project.provide("machine", found);
    project.provide("installed", installed);
    project.provide("tables", tables);
    project.provide("server", server);
    project.provide("pair", both);
  } catch (error) {
    await stop();
    throw error;
  }
  return stop;
}
