// The compiled client. bindings/wasm documents the messages.

import { SpireaError } from "../errors.js";
import { Compiled, type Message, type MessageExports, type Random, instantiated } from "./compiled.js";
import type { Forms } from "./forms.js";
import type { Came, Change, Description, Kept, Options, Stored, Wanted } from "./heads.js";

interface Exports extends MessageExports {
  give(): number;
  connect(): number;
  look_up(): number;
  step(): number;
  provide_rules(): void;
  received(): number;
  abandon(): void;
  take_change(): number;
  forget_hints(): void;
  keep_keys(): void;
  take_keys(): number;
  describe(): void;
}

/** Functions that an instance imports. */
export interface Surroundings {
  random: Random;
  /** Milliseconds since 1970. */
  now(): number;
  progress(phase: "hint" | "keys", done: number, total: number): void;
}

/** `(module (func (result v128) (v128.const i64x2 0 0)))`: a module that is valid if WebAssembly has vectors of 128 bits. */
const VECTORS = [
  0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 22, 1, 20, 0, 253, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
  0, 0, 0, 0, 0, 0, 11,
];

/** @throws SpireaError if the engine has no vectors of 128 bits and cannot compile the module. */
export function checkEngine(): void {
  if (WebAssembly.validate(new Uint8Array(VECTORS))) return;
  throw new SpireaError(
    "no-worker",
    "this engine cannot compile the client, which uses WebAssembly's vectors of 128 bits: use Chrome 91, Firefox 89, " +
      "Safari 16.4, Node 16.4, or a newer version",
  );
}

/** Returns the module's address, written in a form that bundlers recognise. */
export function moduleUrl(): URL {
  return new URL("../spirea.wasm", import.meta.url);
}

/** Fills bytes with randomness of `crypto`, the browser's or Node's. */
export function random(bytes: Uint8Array): void {
  // 65,536 bytes are the limit of one call.
  for (let start = 0; start < bytes.length; start += 65536) {
    crypto.getRandomValues(bytes.subarray(start, start + 65536));
  }
}

/** Returns the milliseconds since 1970, by a monotonic clock. */
export function now(): number {
  return performance.timeOrigin + performance.now();
}

/** The rules for forms of keys, once they are loaded. The instance does not use them before. */
interface Rules {
  forms?: Forms;
}

/** An instance of the compiled client, for one client. */
export class Instance extends Compiled<Exports> {
  readonly #rules: Rules;

  private constructor(exports: Exports, rules: Rules) {
    super(exports);
    this.#rules = rules;
  }

  static async of(module: WebAssembly.Module, surroundings: Surroundings): Promise<Instance> {
    const rules: Rules = {};
    const exports = await instantiated<Exports>(module, surroundings.random, (bytesAt) => ({
      now: () => surroundings.now(),
      progress: (stage: number, done: number, total: number) =>
        surroundings.progress(stage === 0 ? "hint" : "keys", done, total),
      ask_rules: (question: number, form: number, formLength: number, key: number, keyLength: number) =>
        rules.forms!.ask(question, bytesAt(form, formLength), bytesAt(key, keyLength)),
      take_answer: (start: number) => rules.forms!.takeAnswer((length) => bytesAt(start, length)),
    }));
    return new Instance(exports, rules);
  }

  /** Gives stored data to the client. */
  give(head: Stored, body?: Uint8Array): void {
    this.tell(() => this.exports.give(), head, body);
  }

  /** Starts the conversation that connects. */
  connect(options: Options): void {
    this.tell(() => this.exports.connect(), options);
  }

  /** Starts the conversation of a look-up. */
  lookUp(wanted: Wanted, body: Uint8Array): void {
    this.tell(() => this.exports.look_up(), wanted, body);
  }

  step(): number {
    return this.call(() => this.exports.step());
  }

  /** Gives the client the rules for forms of keys. */
  provideRules(forms: Forms): void {
    this.#rules.forms = forms;
    this.call(() => this.exports.provide_rules());
  }

  received(head: Came, body?: Uint8Array): void {
    this.tell(() => this.exports.received(), head, body);
  }

  abandon(): void {
    if (!this.stopped) this.call(() => this.exports.abandon());
  }

  /** Takes the next change to store, if there is one. */
  takeChange(): Message<Change> | undefined {
    return this.call(() => this.exports.take_change()) ? this.output() : undefined;
  }

  forgetHints(): void {
    this.call(() => this.exports.forget_hints());
  }

  /** Yields the evaluation keys to store. */
  *keptKeys(): Generator<Message<Kept>> {
    this.call(() => this.exports.keep_keys());
    while (this.call(() => this.exports.take_keys())) yield this.output();
  }

  describe(): Description {
    this.call(() => this.exports.describe());
    return this.output<Description>().head;
  }
}
