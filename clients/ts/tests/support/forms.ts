// Tables whose keys have a form.

import { writeFile } from "node:fs/promises";
import { join } from "node:path";

import type { Spirea } from "./servers.js";

/** The tables by name: the form of their keys, the protocol, and the rows. */
export const FORMED: Record<string, [form: string, protocol: string, rows: string[]]> = {
  callers: ["e164:CH", "simple", ["044 668 18 00,Zurich", "+1 650-253-0000,California"]],
  people: ["trim,lower", "hybrid", ["Zoe@Example.org,Zoe", " Ann@example.org,Ann"]],
  names: ["domain", "simple", ["Ads.Example.COM,ads", "bücher.example,books", "example.com,all"]],
};

/** Builds a table of FORMED in a folder. Returns its snapshot. */
export async function buildFormed(spirea: Spirea, folder: string, name: string): Promise<string> {
  const [form, protocol, rows] = FORMED[name]!;
  const table = join(folder, `${name}.csv`);
  await writeFile(spirea.path(table), `key,value\n${rows.join("\n")}\n`);
  return spirea.build(join(folder, name), protocol, { table, fields: ["value"], options: ["--normalise", form] });
}
