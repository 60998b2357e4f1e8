// An instance of a compiled module, called by messages in its memory. bindings/wasm-memory documents the messages.

import { type SpireaError, revived, stopped } from "../errors.js";
import type { Failure } from "./heads.js";

/** Exports of every module. */
export interface MessageExports {
  memory: WebAssembly.Memory;
  input(length: number): number;
  output(): number;
  output_length(): number;
  erase(): void;
}

/** A message: a head, and bytes. */
export interface Message<Head> {
  head: Head;
  body: Uint8Array;
}

/** Fills bytes with cryptographic randomness. */
export type Random = (bytes: Uint8Array) => void;

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** Returns bytes of an instance's memory. They are valid until its next call, which may move the memory. */
export type BytesAt = (start: number, length: number) => Uint8Array;

/** Instantiates a module, with imports that access its memory. */
export async function instantiated<Exports extends MessageExports>(
  module: WebAssembly.Module,
  random: Random,
  imports: (bytesAt: BytesAt) => WebAssembly.ModuleImports = () => ({}),
): Promise<Exports> {
  let memory: WebAssembly.Memory | undefined;
  const bytesAt = (start: number, length: number) => new Uint8Array(memory!.buffer, start >>> 0, length >>> 0);
  const spirea = {
    random(start: number, length: number): number {
      try {
        random(bytesAt(start, length));
        return 0;
      } catch {
        return 1;
      }
    },
    ...imports(bytesAt),
  };
  const instance = await WebAssembly.instantiate(module, { spirea });
  const exports = instance.exports as unknown as Exports;
  memory = exports.memory;
  return exports;
}

/** An instance of a module. It cannot be used after a call has trapped. */
export class Compiled<Exports extends MessageExports> {
  protected readonly exports: Exports;
  #stopped = false;

  protected constructor(exports: Exports) {
    this.exports = exports;
  }

  protected get stopped(): boolean {
    return this.#stopped;
  }

  /** Returns the failure of the last call. */
  failure(): SpireaError {
    return revived(this.output<Failure>().head);
  }

  /** Takes the output message of the last call; erases it in the instance. */
  output<Head>(): Message<Head> {
    const bytes = this.left();
    const length = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
    const head = JSON.parse(decoder.decode(bytes.slice(4, 4 + length))) as Head;
    const body = bytes.slice(4 + length);
    this.exports.erase();
    return { head, body };
  }

  /** Returns the bytes of the last call's output message, in the instance's memory. */
  protected left(): Uint8Array<ArrayBuffer> {
    const { memory, output, output_length } = this.exports;
    // The memory may have moved, so the buffer is read again.
    return new Uint8Array(memory.buffer as ArrayBuffer, output() >>> 0, output_length() >>> 0);
  }

  /** Calls with a message. Erases `body` after copying it, because it may be secret. */
  protected tell(call: () => number, head: object, body: Uint8Array = new Uint8Array()): void {
    this.write(encoder.encode(JSON.stringify(head)), body);
    body.fill(0);
    if (!this.call(call)) throw this.failure();
  }

  /** Writes a message for the next call. */
  protected write(head: Uint8Array, body: Uint8Array): void {
    const start = this.call(() => this.exports.input(4 + head.length + body.length)) >>> 0;
    const { buffer } = this.exports.memory;
    new DataView(buffer).setUint32(start, head.length, true);
    new Uint8Array(buffer).set(head, start + 4);
    new Uint8Array(buffer).set(body, start + 4 + head.length);
  }

  protected call<T>(call: () => T): T {
    if (this.#stopped) throw stopped();
    try {
      return call();
    } catch {
      // The error and the instance's memory may contain secrets or be inconsistent.
      this.#stopped = true;
      throw stopped();
    }
  }
}
