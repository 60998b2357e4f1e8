// Processes that the tests start. None outlives its parent.

import { type ChildProcess, execFile } from "node:child_process";
import { once } from "node:events";
import { promisify } from "node:util";

const execute = promisify(execFile);
const running = new Set<ChildProcess>();

process.on("exit", () => running.forEach((child) => child.kill("SIGKILL")));

/** Ensures that the child ends at the latest with this process. */
export function endWithParent(child: ChildProcess): void {
  running.add(child);
  child.once("exit", () => running.delete(child));
}

/** Waits until the child has ended; kills it after a minute. Returns its exit code. */
export async function ended(child: ChildProcess): Promise<number | null> {
  const timer = setTimeout(() => child.kill("SIGKILL"), 60_000);
  if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  clearTimeout(timer);
  return child.exitCode;
}

export interface RunOptions {
  cwd: string;
  env?: NodeJS.ProcessEnv;
}

/**
 * Runs a program to its end. Returns its output.
 * @throws Error if it failed; the message has its standard error and output.
 */
export async function run(program: string, args: readonly string[], options: RunOptions): Promise<{ stdout: string; stderr: string }> {
  try {
    return await execute(program, args, { ...options, maxBuffer: 1 << 28, timeout: 300_000, killSignal: "SIGKILL" });
  } catch (error) {
    const { code, signal, stdout, stderr } = error as { code?: unknown; signal?: unknown; stdout?: string; stderr?: string };
    throw new Error(`${program} ${args.join(" ")} failed (${code ?? signal}):\n${stderr}\n${stdout}`, { cause: error });
  }
}
