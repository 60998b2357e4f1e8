// The compiled client: bindings/wasm says what crosses.

import { type PlainError, SpireaError, revived, stopped } from "../errors.js";

/** What is to be done next: the numbers are those of the other half. */
export const Next = { Send: 1, Read: 2, Wait: 3, Connected: 4, Values: 5, Failed: 6 } as const;

interface Exports {
  memory: WebAssembly.Memory;
  input(length: number): number;
  output(): number;
  output_length(): number;
  erase(): void;
  give(): number;
  connect(): number;
  look_up(): number;
  step(): number;
  received(): number;
  abandon(): void;
  take_change(): number;
  forget_hints(): void;
  keep_keys(): void;
  take_keys(): number;
  describe(): void;
}

/** What an instance is given of the world around it. */
export interface Surroundings {
  /** Fills bytes with randomness that nobody can foretell. */
  random(bytes: Uint8Array): void;
  /** Milliseconds since 1970. */
  now(): number;
  progress(phase: "hint" | "keys", done: number, total: number): void;
}

/** A message: a head, and bytes. */
export interface Message<Head> {
  head: Head;
  body: Uint8Array;
}

/** `(module (func (result v128) (v128.const i64x2 0 0)))`: valid where WebAssembly has vectors of 128 bits. */
const VECTORS = [
  0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 22, 1, 20, 0, 253, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
  0, 0, 0, 0, 0, 0, 11,
];

/** @throws SpireaError: the engine has no vectors of 128 bits, and cannot compile the module. */
export function checkEngine(): void {
  if (WebAssembly.validate(new Uint8Array(VECTORS))) return;
  throw new SpireaError(
    "no-worker",
    "this engine cannot compile the client, which uses WebAssembly's vectors of 128 bits: use Chrome 91, Firefox 89, " +
      "Safari 16.4, Node 16.4, or a newer version",
  );
}

/** The module's address, written so that programs which bundle a page find the file. */
export function moduleUrl(): URL {
  return new URL("../spirea.wasm", import.meta.url);
}

/** Randomness of the browser's, or of Node's, `crypto`. */
export function random(bytes: Uint8Array): void {
  // The most that it gives at once.
  for (let start = 0; start < bytes.length; start += 65536) {
    crypto.getRandomValues(bytes.subarray(start, start + 65536));
  }
}

/** Milliseconds since 1970, by a clock that never goes back while it runs. */
export function now(): number {
  return performance.timeOrigin + performance.now();
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** An instance, which has one client. After it stopped in the middle of a call it is of no more use. */
export class Instance {
  readonly #exports: Exports;
  #stopped = false;

  private constructor(exports: Exports) {
    this.#exports = exports;
  }

  static async of(module: WebAssembly.Module, surroundings: Surroundings): Promise<Instance> {
    let memory: WebAssembly.Memory | undefined;
    const imports = {
      spirea: {
        random(start: number, length: number): number {
          try {
            surroundings.random(new Uint8Array(memory!.buffer, start >>> 0, length >>> 0));
            return 0;
          } catch {
            return 1;
          }
        },
        now: () => surroundings.now(),
        progress: (stage: number, done: number, total: number) =>
          surroundings.progress(stage === 0 ? "hint" : "keys", done, total),
      },
    };
    const instance = await WebAssembly.instantiate(module, imports);
    const exports = instance.exports as unknown as Exports;
    memory = exports.memory;
    return new Instance(exports);
  }

  /** Gives something that was stored. */
  give(head: object, body?: Uint8Array): void {
    this.#tell(() => this.#exports.give(), head, body);
  }

  /** Begins to connect. */
  connect(options: object): void {
    this.#tell(() => this.#exports.connect(), options);
  }

  /** Begins to look up. */
  lookUp(wanted: object, body: Uint8Array): void {
    this.#tell(() => this.#exports.look_up(), wanted, body);
  }

  step(): number {
    return this.#call(() => this.#exports.step());
  }

  received(head: object, body?: Uint8Array): void {
    this.#tell(() => this.#exports.received(), head, body);
  }

  abandon(): void {
    if (!this.#stopped) this.#call(() => this.#exports.abandon());
  }

  /** What is to be stored, if there is anything. */
  takeChange<Head>(): Message<Head> | undefined {
    return this.#call(() => this.#exports.take_change()) ? this.output() : undefined;
  }

  forgetHints(): void {
    this.#call(() => this.#exports.forget_hints());
  }

  /** What is to be kept of evaluation keys. */
  *keptKeys<Head>(): Generator<Message<Head>> {
    this.#call(() => this.#exports.keep_keys());
    while (this.#call(() => this.#exports.take_keys())) yield this.output();
  }

  describe<Head>(): Head {
    this.#call(() => this.#exports.describe());
    return this.output<Head>().head;
  }

  /** The failure that the last call left. */
  failure(): SpireaError {
    return revived(this.output<PlainError>().head);
  }

  /** The message that the last call left; it is erased there. */
  output<Head>(): Message<Head> {
    const { memory, output, output_length, erase } = this.#exports;
    // Its memory may have moved.
    const bytes = new Uint8Array(memory.buffer, output() >>> 0, output_length() >>> 0);
    const length = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
    const head = JSON.parse(decoder.decode(bytes.slice(4, 4 + length))) as Head;
    const body = bytes.slice(4 + length);
    erase();
    return { head, body };
  }

  /** A call with a message, whose body is erased here once it is there: it may be secret. */
  #tell(call: () => number, head: object, body: Uint8Array = new Uint8Array()): void {
    const bytes = encoder.encode(JSON.stringify(head));
    const start = this.#call(() => this.#exports.input(4 + bytes.length + body.length)) >>> 0;
    const { buffer } = this.#exports.memory;
    new DataView(buffer).setUint32(start, bytes.length, true);
    new Uint8Array(buffer).set(bytes, start + 4);
    new Uint8Array(buffer).set(body, start + 4 + bytes.length);
    body.fill(0);
    if (!this.#call(call)) throw this.failure();
  }

  #call<T>(call: () => T): T {
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
