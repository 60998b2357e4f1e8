// Programs and files that the tests need, and the remedy if one is missing.

import { accessSync, constants, existsSync } from "node:fs";
import { delimiter, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

/** The repository's folder. */
export const ROOT = fileURLToPath(new URL("../../../../", import.meta.url));
/** The package's folder. */
export const CLIENT = join(ROOT, "clients", "ts");
/** True for the long form of the tests. */
export const FULL = process.env["CI_FULL"] === "1";

const TARGET = resolve(process.env["CARGO_TARGET_DIR"] ?? join(ROOT, "target"));
/** The folder with the modules for tests; screenshots go there too. */
export const WEB = resolve(process.env["SPIREA_WEB"] ?? join(TARGET, "web"));

export interface Machine {
  /** The program `spirea`. */
  spirea: string;
  /** Chromium; if undefined, the tests in a browser are skipped. */
  chromium: string | undefined;
  /** {@link WEB}. */
  web: string;
  /** The folder of the demo page. */
  demo: string;
}

export class Missing extends Error {
  override readonly name = "Missing";
}

/** @throws Missing if a requirement is missing; names the first one. */
export function machine(): Machine {
  const spirea = resolve(process.env["SPIREA"] ?? join(TARGET, "debug", "spirea"));
  need(spirea, "build the program (cargo build --locked --package spirea-cli), or set SPIREA to its path");
  need(join(CLIENT, "dist", "browser.js"), "build the package (python3 scripts/web.py)");
  const demo = join(WEB, "..", "share", "spirea", "web");
  need(join(demo, "demo.js"), "build the demo page (python3 scripts/web.py)");
  return { spirea, chromium: findChromium(), web: WEB, demo };
}

/** @throws Missing if there is no such file; names the remedy. */
export function need(path: string, remedy: string): void {
  if (!existsSync(path)) throw new Missing(`${path} is missing: ${remedy}`);
}

const INSTALL = "install it (Debian: apt-get install chromium), or set CHROMIUM to its path";

function findChromium(): string | undefined {
  const named = process.env["CHROMIUM"];
  if (named !== undefined) {
    if (!isProgram(named)) throw new Missing(`CHROMIUM names ${named}, which is no program: ${INSTALL}`);
    return named;
  }
  const folders = (process.env["PATH"] ?? "").split(delimiter);
  const names = ["chromium", "chromium-browser", "google-chrome"];
  const found = names.flatMap((name) => folders.map((folder) => join(folder, name))).find(isProgram);
  if (found === undefined && FULL) throw new Missing(`Chromium is missing, and CI_FULL=1 needs it: ${INSTALL}`);
  return found;
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
