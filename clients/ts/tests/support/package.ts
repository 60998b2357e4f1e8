// The package as npm installs it.

import { cp, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { CLIENT } from "./machine.js";
import { run } from "./processes.js";

/** The pages of the tests, and their script for Node. */
const PAGES = join(CLIENT, "tests", "page");

/** Installs the output of `npm pack` into a folder by `npm install`, and adds the tests' pages. */
export async function installPackage(folder: string): Promise<void> {
  const pack = ["pack", "--json", "--loglevel=error", "--pack-destination", folder];
  const [{ filename }] = JSON.parse((await run("npm", pack, { cwd: CLIENT })).stdout) as [{ filename: string }];
  await writeFile(join(folder, "package.json"), '{"private": true, "type": "module"}');
  const install = ["install", "--offline", "--no-audit", "--no-fund", "--loglevel=error", join(folder, filename)];
  await run("npm", install, { cwd: folder });
  await cp(PAGES, folder, { recursive: true });
}
