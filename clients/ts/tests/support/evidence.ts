// Logs of servers, and consoles of pages, for the messages of failing tests.

import { readFileSync, statSync } from "node:fs";

interface Source {
  title: string;
  read(): string;
}

/** Most characters shown of each source, taken from its end. */
const MOST = 8000;

const sources = new Set<Source>();
/** Logs of servers that several tests use, with the length of each at the start of this test. */
const logs = new Map<string, number>();

/** Shows the result of `read`, in this test only. */
export function showInThisTest(title: string, read: () => string): void {
  sources.add({ title, read });
}

/** Shows a log in this test and in later ones: the part written since the start of the test. */
export function showLog(path: string): void {
  logs.set(path, 0);
}

/** Begins a test: drops the sources of the test before. */
export function begin(): void {
  sources.clear();
  for (const path of logs.keys()) logs.set(path, statSync(path).size);
}

/** Returns everything to show. */
export function collected(): string {
  const written = [...logs].map(([path, start]) => ({ title: path, text: readFileSync(path).subarray(start).toString() }));
  const told = [...sources].map(({ title, read }) => ({ title, text: read() }));
  const shown = [...written, ...told].filter(({ text }) => text !== "");
  return shown.map(({ title, text }) => `--- ${title}\n${text.slice(-MOST)}`).join("\n");
}
