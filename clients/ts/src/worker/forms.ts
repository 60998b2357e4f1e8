// The rules for forms of keys, loaded if a table's keys have a form. bindings/wasm-forms documents the messages.

import { joined } from "./bytes.js";
import { Compiled, type MessageExports, type Random, instantiated } from "./compiled.js";

interface Exports extends MessageExports {
  check(): number;
  bring(): number;
  domains(): number;
}

/** Questions of the compiled client, in the order of their numbers in bindings/wasm. */
const QUESTIONS = ["check", "bring"] as const;

/** Returns the module's address, written in a form that bundlers recognise. */
export function formsUrl(): URL {
  return new URL("../forms.wasm", import.meta.url);
}

/** The keys to look up for a domain. */
export interface DomainKeys {
  /** The name itself, then its parents. The first keys belong to them; the others are dummies. */
  names: string[];
  /** Parents that are not looked up because there are too few look-ups. */
  unasked: string[];
  keys: Uint8Array[];
}

/** An instance of the module of rules. */
export class Forms extends Compiled<Exports> {
  static async of(module: WebAssembly.Module, random: Random): Promise<Forms> {
    return new Forms(await instantiated<Exports>(module, random));
  }

  /** Asks about a form and a key, without changing them. Returns the length of the answer in bytes. */
  ask(question: number, form: Uint8Array, key: Uint8Array): number {
    const name = QUESTIONS[question]!;
    this.write(form, key);
    if (!this.call(() => this.exports[name]())) throw this.failure();
    return this.left().length;
  }

  /** Copies the answer to `place`, and erases it in this instance. */
  takeAnswer(place: (length: number) => Uint8Array): void {
    const answer = this.left();
    place(answer.length).set(answer);
    this.exports.erase();
  }

  /** Returns the keys to look up for domains, `count` for each. */
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
