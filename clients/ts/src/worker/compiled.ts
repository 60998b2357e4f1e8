// An instance of a compiled module, over messages in its memory: bindings/wasm-memory says how they are made.

import { type PlainError, type SpireaError, revived, stopped } from "../errors.js";

/** What every module exports. */
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

/** Fills bytes with randomness that nobody can foretell. */
export type Random = (bytes: Uint8Array) => void;

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** Bytes of an instance's memory. They are good until it is called again: its memory may move. */
export type BytesAt = (start: number, length: number) => Uint8Array;

/** Makes an instance of a module whose imports reach its memory. */
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

/** An instance. After it stopped in the middle of a call it is of no more use. */
export class Compiled<Exports extends MessageExports> {
  protected readonly exports: Exports;
  #stopped = false;

  protected constructor(exports: Exports) {
    this.exports = exports;
  }

  protected get stopped(): boolean {
    return this.#stopped;
  }

  /** The failure that the last call left. */
  failure(): SpireaError {
    return revived(this.output<PlainError>().head);
  }

  /** The message that the last call left; it is erased there. */
  output<Head>(): Message<Head> {
    const bytes = this.left();
    const length = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
    const head = JSON.parse(decoder.decode(bytes.slice(4, 4 + length))) as Head;
    const body = bytes.slice(4 + length);
    this.exports.erase();
    return { head, body };
  }

  /** The bytes of the message that the last call left, in the instance's memory. */
  protected left(): Uint8Array<ArrayBuffer> {
    const { memory, output, output_length } = this.exports;
    // Its memory may have moved.
    return new Uint8Array(memory.buffer as ArrayBuffer, output() >>> 0, output_length() >>> 0);
  }

  /** A call with a message, whose body is erased here once it is there: it may be secret. */
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
      // What it stopped with may hold anything, and so may its memory.
      this.#stopped = true;
      throw stopped();
    }
  }
}
