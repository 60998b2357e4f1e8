// Logs of servers, and consoles of pages, for the messages of failing tests.

import { readFileSync, statSync } from "node:fs";

interface Source {
  title: string;
  read(): string;
}

/** The most characters that are shown of each source: the last ones. */
const MOST = 8000;

const sources = new Set<Source>();
/** Logs of servers that several tests use, with the length that each had when this test began. */
const logs = new Map<string, number>();

/** Shows what `read` returns, in this test alone. */
export function showInThisTest(title: string, read: () => string): void {
  sources.add({ title, read });
}

/** Shows a log in this test and in those after it: what was written since the test began. */
export function showLog(path: string): void {
  logs.set(path, 0);
}

/** Begins a test: forgets what the one before it showed. */
export function begin(): void {
  sources.clear();
  for (const path of logs.keys()) logs.set(path, statSync(path).size);
}

/** All that there is to show. */
export function collected(): string {
  const written = [...logs].map(([path, start]) => ({ title: path, text: readFileSync(path).subarray(start).toString() }));
  const told = [...sources].map(({ title, read }) => ({ title, text: read() }));
  const shown = [...written, ...told].filter(({ text }) => text !== "");
  return shown.map(({ title, text }) => `--- ${title}\n${text.slice(-MOST)}`).join("\n");
}
