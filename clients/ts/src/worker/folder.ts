// A store in a folder, for Node: a file for each name.

import { createHash, randomUUID } from "node:crypto";
import { mkdir, readFile, readdir, rename, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";

import type { Name, Store } from "./store.js";

/** What files end with; those of another form end otherwise. */
const EXTENSION = ".spirea1";
/** What files end with that are being written. */
const FRESH = ".tmp";
/** Milliseconds after which nobody is writing such a file any more. */
const ABANDONED = 3_600_000;

/** A part of a name as part of a file's: itself, or what stands for it where it may be no file's name, or a long one. */
function filed(part: string): string {
  return /^[a-z0-9-]{1,140}$/.test(part) ? part : createHash("sha256").update(part).digest("hex");
}

/** What becomes of a file, or `undefined` if it is not there: other programs and threads have the folder too. */
function ifThere<T>(awaited: Promise<T>): Promise<T | undefined> {
  return awaited.catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return undefined;
    throw error;
  });
}

/** Removes what programs that ended in the middle were writing. */
async function sweep(folder: string): Promise<void> {
  for (const file of await readdir(folder)) {
    if (!file.endsWith(EXTENSION + FRESH)) continue;
    const about = await ifThere(stat(join(folder, file)));
    if (about && Date.now() - about.mtimeMs > ABANDONED) await rm(join(folder, file), { force: true });
  }
}

/**
 * The store in a folder, which is made where it is not there.
 * @throws what the system does.
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
    // A part that is filed under another name is that from here on.
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
        // A name that nobody else has: neither another thread, nor another machine that has the folder too.
        const fresh = join(folder, randomUUID() + EXTENSION + FRESH);
        await writeFile(fresh, value);
        await rename(fresh, path(name));
      }
    },
    close: () => undefined,
  };
}
