// The rules for forms of keys: bindings/wasm-forms says what crosses. A worker loads them if a table's keys have a form.

import { joined } from "./bytes.js";
import { Compiled, type MessageExports, type Random, instantiated } from "./compiled.js";

interface Exports extends MessageExports {
  check(): number;
  bring(): number;
  domains(): number;
}

/** Questions of the compiled client: the numbers are those of bindings/wasm. */
const QUESTIONS = ["check", "bring"] as const;

/** The module's address, written so that programs which bundle a page find the file. */
export function formsUrl(): URL {
  return new URL("../forms.wasm", import.meta.url);
}

/** The keys that are looked up for a domain. */
export interface DomainKeys {
  /** The name itself, then its parents: the first keys are theirs, and the others are dummies. */
  names: string[];
  /** Parents that are not looked up: there are too few look-ups. */
  unasked: string[];
  keys: Uint8Array[];
}

/** An instance of the rules. */
export class Forms extends Compiled<Exports> {
  static async of(module: WebAssembly.Module, random: Random): Promise<Forms> {
    return new Forms(await instantiated<Exports>(module, random));
  }

  /** Asks about a form and a key, which stay as they are; returns the bytes of the answer. */
  ask(question: number, form: Uint8Array, key: Uint8Array): number {
    const name = QUESTIONS[question]!;
    this.write(form, key);
    if (!this.call(() => this.exports[name]())) throw this.failure();
    return this.left().length;
  }

  /** Copies the answer to where it is wanted, and erases it here. */
  takeAnswer(place: (length: number) => Uint8Array): void {
    const answer = this.left();
    place(answer.length).set(answer);
    this.exports.erase();
  }

  /** Returns the keys that are looked up for domains, `count` for each. */
  domains(names: readonly string[], count: number): DomainKeys[] {
    const encoder = new TextEncoder();
    const bytes = names.map((name) => encoder.encode(name));
    this.tell(() => this.exports.domains(), { lengths: bytes.map((name) => name.length), count }, joined(bytes));
    bytes.forEach((name) => name.fill(0));
    const { head, body } = this.output<{ names: string[]; unasked: string[]; lengths: number[] }[]>();
    let start = 0;
    const next = (length: number) => {
      start += length;
      return body.slice(start - length, start);
    };
    const found = head.map(({ names, unasked, lengths }) => ({ names, unasked, keys: lengths.map(next) }));
    body.fill(0);
    return found;
  }
}
