// A store in a folder, for Node, with a file for each name.

import { createHash, randomUUID } from "node:crypto";
import { mkdir, readFile, readdir, rename, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";

import type { Name, Store } from "./store.js";

/** Suffix of files; it changes with the format. */
const EXTENSION = ".spirea1";
/** Further suffix of files that are being written. */
const FRESH = ".tmp";
/** Age in milliseconds after which a file that was being written is abandoned. */
const ABANDONED = 3_600_000;

/** Returns the part of a file name for a part of a name: the part itself, or its hash if it is invalid or long. */
function filed(part: string): string {
  return /^[a-z0-9-]{1,140}$/.test(part) ? part : createHash("sha256").update(part).digest("hex");
}

/** Awaits an operation on a file; `undefined` if the file is gone. Other programs and threads may use the folder too. */
function ifThere<T>(awaited: Promise<T>): Promise<T | undefined> {
  return awaited.catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return undefined;
    throw error;
  });
}

/** Removes partial files of programs that ended while writing. */
async function sweep(folder: string): Promise<void> {
  for (const file of await readdir(folder)) {
    if (!file.endsWith(EXTENSION + FRESH)) continue;
    const about = await ifThere(stat(join(folder, file)));
    if (about && Date.now() - about.mtimeMs > ABANDONED) await rm(join(folder, file), { force: true });
  }
}

/**
 * Opens the store in a folder; creates the folder if necessary.
 * @throws errors of the file system.
 */
export async function openFolder(folder: string): Promise<Store> {
  await mkdir(folder, { recursive: true });
  await sweep(folder);
  const path = (name: Name) => join(folder, name.map(filed).join(".") + EXTENSION);
  const files = async (prefix: Name) => {
    const start = prefix.map(filed).join(".");
    const all = (await readdir(folder)).filter((file) => file.endsWith(EXTENSION));
    return all.filter((file) => file.startsWith(`${start}.`)).sort();
  };
  return {
    kind: "folder",
    // A hashed part stays hashed in the returned names.
    names: async (prefix) => (await files(prefix)).map((file) => file.slice(0, -EXTENSION.length).split(".")),
    async read(name) {
      const bytes = await ifThere(readFile(path(name)));
      return bytes && new Uint8Array(bytes);
    },
    async write(puts, drops) {
      for (const prefix of drops) {
        for (const file of await files(prefix)) await rm(join(folder, file), { force: true });
      }
      for (const [name, value] of puts) {
        // The name is unique among threads, and among machines that share the folder.
        const fresh = join(folder, randomUUID() + EXTENSION + FRESH);
        await writeFile(fresh, value);
        await rename(fresh, path(name));
      }
    },
    close: () => undefined,
  };
}
