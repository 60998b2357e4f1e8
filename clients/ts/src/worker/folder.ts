// A store in a folder, for Node: a file for each name.

import { createHash } from "node:crypto";
import { mkdir, readFile, readdir, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";

import type { Name, Store } from "./store.js";

/** What files end with; those of another form end otherwise. */
const EXTENSION = ".spirea1";

/** A part of a name as part of a file's: itself, or what stands for it where it may be no file's name, or a long one. */
function filed(part: string): string {
  return /^[a-z0-9-]{1,140}$/.test(part) ? part : createHash("sha256").update(part).digest("hex");
}

/**
 * The store in a folder, which is made where it is not there.
 * @throws what the system does.
 */
export async function openFolder(folder: string): Promise<Store> {
  await mkdir(folder, { recursive: true });
  const files = async (prefix: Name) => {
    const start = prefix.map(filed).join(".");
    const all = (await readdir(folder)).filter((file) => file.endsWith(EXTENSION));
    return all.filter((file) => file.startsWith(`${start}.`)).sort();
  };
  return {
    kind: "folder",
    async list(prefix) {
      const read = async (file: string): Promise<[Name, Uint8Array]> => [
        file.slice(0, -EXTENSION.length).split("."),
        new Uint8Array(await readFile(join(folder, file))),
      ];
      return Promise.all((await files(prefix)).map(read));
    },
    async write(puts, drops) {
      for (const prefix of drops) {
        for (const file of await files(prefix)) await rm(join(folder, file), { force: true });
      }
      for (const [name, value] of puts) {
        const file = join(folder, name.map(filed).join(".") + EXTENSION);
        const fresh = `${file}.${process.pid}.tmp`;
        await writeFile(fresh, value);
        await rename(fresh, file);
      }
    },
    close: () => undefined,
  };
}
