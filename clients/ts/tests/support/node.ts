// A program in Node with the package, and with the functions of page/harness.mjs.

import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";

import { showInThisTest } from "./evidence.js";
import { ended, endWithParent, run } from "./processes.js";

export class InNode implements AsyncDisposable {
  readonly name = "node";
  readonly #process: ChildProcess;
  readonly #lines: AsyncIterator<string>;
  #errors = "";

  constructor(folder: string) {
    this.#process = spawn(process.execPath, ["node.mjs"], { cwd: folder, stdio: "pipe" });
    endWithParent(this.#process);
    this.#lines = createInterface({ input: this.#process.stdout! })[Symbol.asyncIterator]();
    this.#process.stderr!.on("data", (data) => (this.#errors += data));
    showInThisTest("standard error of the program in Node", () => this.#errors);
  }

  /** Calls a function of page/harness.mjs; one call at a time. */
  async call(name: string, ...args: unknown[]): Promise<any> {
    this.#process.stdin!.write(`${JSON.stringify([name, args])}\n`);
    const { value: line, done } = await this.#lines.next();
    assert(!done, `the program ended in ${name}:\n${this.#errors}`);
    return JSON.parse(line);
  }

  /** Closes the program's input, after which it must end although clients are open. */
  async close(): Promise<void> {
    this.#process.stdin!.end();
    assert.equal(await ended(this.#process), 0, `the program's exit code:\n${this.#errors}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/** Runs a program in Node, which must end by itself and print no errors. Returns its output. */
export async function printedBy(program: string, folder: string): Promise<string> {
  const { stdout, stderr } = await run(process.execPath, ["--input-type=module", "-e", program], { cwd: folder });
  assert.equal(stderr, "");
  return stdout.trim();
}
