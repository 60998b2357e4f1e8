// The loop that drives a conversation: does what the instance asks, and hands back the results.

import type { SpireaError } from "../errors.js";
import type { Message } from "./compiled.js";
import { Next, type ToSend } from "./heads.js";
import type { Instance } from "./instance.js";
import type { Came, Line } from "./line.js";

/** Queue of results, with the waiter for the next one. */
class Mailbox {
  #came: Came[] = [];
  #waiting: (() => void) | undefined;

  put(came: Came): void {
    this.#came.push(came);
    this.#waiting?.();
  }

  /** Takes all results. Waits for the first, at most `atMost` milliseconds if given. */
  async take(atMost: number | null, signal: AbortSignal): Promise<Came[]> {
    if (this.#came.length === 0) {
      await new Promise<void>((resolve) => {
        const timer = atMost === null ? undefined : setTimeout(() => done(), atMost);
        const done = () => {
          clearTimeout(timer);
          signal.removeEventListener("abort", done);
          this.#waiting = undefined;
          resolve();
        };
        this.#waiting = done;
        signal.addEventListener("abort", done);
      });
    }
    return this.#came.splice(0);
  }
}

/** Ends of a conversation without failure. */
type Over = typeof Next.Connected | typeof Next.Values | typeof Next.Rules;

function isOver(next: number): next is Over {
  return next === Next.Connected || next === Next.Values || next === Next.Rules;
}

/**
 * Runs a conversation to its end; the result is in the instance's output. Calls `between` after each step except a successful
 * last one.
 * @throws SpireaError; the signal's reason.
 */
export async function converse(
  instance: Instance,
  lines: readonly Line[],
  between: () => Promise<void> | undefined,
  signal: AbortSignal,
): Promise<Over> {
  const mailbox = new Mailbox();
  try {
    for (;;) {
      signal.throwIfAborted();
      const next = instance.step();
      const ended = isOver(next);
      const over = ended || next === Next.Failed;
      const failure: SpireaError | undefined = next === Next.Failed ? instance.failure() : undefined;
      const message: Message<unknown> | undefined = over ? undefined : instance.output();
      if (!over) act(next, message!, lines, mailbox);
      if (!ended) await between();
      if (failure) throw failure;
      if (ended) return next;
      if (next !== Next.Wait) continue;
      for (const { head, body } of await mailbox.take(message!.head as number | null, signal)) {
        instance.received(head, body);
      }
    }
  } finally {
    lines.forEach((line) => line.close());
    instance.abandon();
  }
}

function act(next: number, { head, body }: Message<unknown>, lines: readonly Line[], mailbox: Mailbox): void {
  if (next === Next.Send) {
    const request = head as ToSend;
    void lines[request.server]!.send(request, body).then((came) => came && mailbox.put(came));
  } else if (next === Next.Read) {
    void lines[head as number]!.read().then((came) => came && mailbox.put(came));
  }
}
