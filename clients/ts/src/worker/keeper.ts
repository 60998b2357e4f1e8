// What is kept between visits: hints, the versions seen under pinned keys, and evaluation keys with their secret.
//
// Nothing that is stored is believed: the instance checks hints by their hash and keys by their checksum. A place that cannot
// be had, is full, or breaks is done without, and the client says so; only what must not be used twice has to be gone.

import { SpireaError } from "../errors.js";
import type { Storage } from "../messages.js";
import type { Instance } from "./instance.js";
import type { Name, Store } from "./store.js";

/** As bindings/wasm names it. */
type Change =
  | { change: "piece"; hint: string; index: number }
  | { change: "drop"; hint: string }
  | { change: "latest"; slot: string; hint: string }
  | { change: "seen"; pin: string; sequence: number };

const encoder = new TextEncoder();
const decoder = new TextDecoder();

function json(value: object): Uint8Array {
  return encoder.encode(JSON.stringify(value));
}

/** What was stored as JSON, whatever that is by now. */
function read(value: Uint8Array): Record<string, unknown> {
  try {
    const found: unknown = JSON.parse(decoder.decode(value));
    return typeof found === "object" && found !== null ? { ...found } : {};
  } catch {
    return {};
  }
}

/** Whether it is a hash in hexadecimal digits. */
function isHash(text: unknown): text is string {
  return typeof text === "string" && /^[0-9a-f]{64}$/.test(text);
}

function joined(pieces: Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
  let start = 0;
  for (const piece of pieces) {
    whole.set(piece, start);
    start += piece.length;
  }
  return whole;
}

/** A lock that no other worker of this origin has, for as long as this one lives; `undefined` if it cannot be had. */
async function lock(name: string): Promise<(() => void) | undefined> {
  const locks = (globalThis.navigator as Partial<Navigator> | undefined)?.locks;
  if (locks === undefined) return undefined;
  return new Promise((resolve) => {
    const held = locks.request(name, { ifAvailable: true }, (granted) => {
      if (!granted) return resolve(undefined);
      return new Promise<void>((release) => resolve(release));
    });
    held.catch(() => resolve(undefined));
  });
}

export class Keeper {
  readonly #instance: Instance;
  /** What its names have in common: the database and its servers. */
  readonly #scope: string;
  #store: Store | undefined;
  /** Opens the place again. */
  #place: (() => Promise<Store>) | undefined;
  #reason: Storage["reason"];
  /** Gives the evaluation keys to whoever comes next; there if they are this client's alone. */
  #release: (() => void) | undefined;
  /** The keys that are stored, by hash. */
  readonly #keys = new Set<string>();
  /** Whether the secret of any may be stored. */
  #secretStored = false;
  /** The hash of each slot's hint. */
  readonly #latest = new Map<string, string>();

  constructor(instance: Instance, scope: string) {
    this.#instance = instance;
    this.#scope = scope;
  }

  get storage(): Storage {
    const keys = this.#release !== undefined && this.#store !== undefined;
    const kind = this.#store?.kind ?? "memory";
    return { kind, keys, ...(this.#reason !== undefined && { reason: this.#reason }) };
  }

  /** Opens the place, and gives the instance what is there. */
  async open(place: () => Promise<Store>, withKeys: boolean): Promise<void> {
    this.#place = place;
    await this.#attempt(async () => {
      this.#store = await place();
      await this.#giveHints();
      for (const [, value] of await this.#store.list(["latest", this.#scope])) this.#giveLatest(value);
      for (const [, value] of await this.#store.list(["seen", this.#scope])) this.#giveSeen(value);
      // Keys that two clients go on with would end with one of them, and not with the other. A lock holds among the workers
      // of an origin, as the browser's storage does, and not among the programs that have a folder in common.
      if (withKeys && this.#store.kind === "indexeddb") this.#release = await lock(`spirea ${this.#scope}`);
      if (this.#release) await this.#giveKeys(this.#store);
    });
  }

  /** Stores what the instance has for it; nothing to wait for where that is nothing. */
  store(): Promise<void> | undefined {
    const change = this.#instance.takeChange<Change>();
    return change && this.#storeFrom(change);
  }

  /** What a new version's hint can be made of, which is not in memory. */
  async recall(): Promise<void> {
    if (this.#store) await this.#attempt(() => this.#giveHints());
  }

  /** Nothing that is stored needs memory too. */
  settle(): void {
    if (this.#store) this.#instance.forgetHints();
  }

  /**
   * Removes the secret before it is used: should this client end in the middle, nobody goes on with it.
   * @throws SpireaError if it may still be there.
   */
  async takeSecret(): Promise<void> {
    if (!this.#secretStored) return;
    const secret = ["secret", this.#scope];
    try {
      // A place that has failed, or that the browser has closed, may still have it.
      if (this.#store === undefined) await this.#eraseAnew(secret);
      else await this.#store.write([], [secret]).catch(() => this.#eraseAnew(secret));
      this.#secretStored = false;
    } catch {
      const text = "the evaluation keys' secret cannot be removed from storage before it is used; connect with keepKeys: false";
      throw new SpireaError("storage", text);
    }
  }

  async #eraseAnew(name: Name): Promise<void> {
    const store = await this.#place?.();
    try {
      await store?.write([], [name]);
    } finally {
      store?.close();
    }
  }

  /** Keeps the evaluation keys for the next visit, with what is left of their life. */
  async keepKeys(): Promise<void> {
    const store = this.#store;
    if (!store || !this.#release) return;
    await this.#attempt(async () => {
      const puts: [Name, Uint8Array][] = [];
      const kept = new Set<string>();
      for (const { head, body } of this.#instance.keptKeys<{ keys: string; record: number }>()) {
        kept.add(head.keys);
        puts.push([["secret", this.#scope, head.keys], body.slice(0, head.record)]);
        if (!this.#keys.has(head.keys)) puts.push([["keys", this.#scope, head.keys], body.slice(head.record)]);
      }
      const over = [...this.#keys].filter((keys) => !kept.has(keys));
      if (puts.length === 0 && over.length === 0) return;
      this.#secretStored = true;
      await store.write(puts, [["secret", this.#scope], ...over.map((keys) => ["keys", this.#scope, keys])]);
      over.forEach((keys) => this.#keys.delete(keys));
      kept.forEach((keys) => this.#keys.add(keys));
    });
  }

  close(): void {
    this.#store?.close();
    this.#release?.();
  }

  async #giveHints(): Promise<void> {
    const pieces = new Map<string, Uint8Array[]>();
    for (const [name, value] of (await this.#store?.list(["hint", this.#scope])) ?? []) {
      const [, , hint, index] = name;
      const before = pieces.get(hint!) ?? [];
      // What comes behind a piece that is missing is of no use.
      if (Number(index) === before.length) before.push(value);
      pieces.set(hint!, before);
    }
    for (const [hint, all] of pieces) {
      if (isHash(hint)) this.#instance.give({ stored: "hint", hint }, joined(all));
    }
  }

  #giveLatest(value: Uint8Array): void {
    const { slot, hint } = read(value);
    if (typeof slot !== "string" || !isHash(hint)) return;
    this.#latest.set(slot, hint);
    this.#instance.give({ stored: "latest", slot, hint });
  }

  #giveSeen(value: Uint8Array): void {
    const { pin, sequence } = read(value);
    if (typeof pin !== "string" || !Number.isSafeInteger(sequence) || Number(sequence) < 0) return;
    this.#instance.give({ stored: "seen", pin, sequence });
  }

  async #giveKeys(store: Store): Promise<void> {
    for (const [name, value] of await store.list(["keys", this.#scope])) {
      this.#keys.add(name[2]!);
      this.#instance.give({ stored: "keys" }, value);
    }
    for (const [, value] of await store.list(["secret", this.#scope])) {
      this.#secretStored = true;
      this.#instance.give({ stored: "secret" }, value);
    }
  }

  async #storeFrom(first: { head: Change; body: Uint8Array }): Promise<void> {
    let change: typeof first | undefined = first;
    for (; change; change = this.#instance.takeChange<Change>()) {
      const { head, body } = change;
      await this.#attempt(() => this.#storeOne(head, body));
    }
  }

  async #storeOne(change: Change, body: Uint8Array): Promise<void> {
    const store = this.#store;
    switch (change.change) {
      case "piece":
        await store?.write([[["hint", this.#scope, change.hint, String(change.index).padStart(6, "0")], body]], []);
        break;
      case "drop":
        await store?.write([], [["hint", this.#scope, change.hint]]);
        break;
      case "latest": {
        const { slot, hint } = change;
        const former = this.#latest.get(slot);
        this.#latest.set(slot, hint);
        const unused = former !== undefined && ![...this.#latest.values()].includes(former);
        const drops = unused ? [["hint", this.#scope, former]] : [];
        await store?.write([[["latest", this.#scope, slot], json({ slot, hint })]], drops);
        break;
      }
      case "seen": {
        const { pin, sequence } = change;
        await store?.write([[["seen", this.#scope, pin], json({ pin, sequence })]], []);
        break;
      }
    }
  }

  /** Does without the place from here on, where it fails. */
  async #attempt(act: () => Promise<void>): Promise<void> {
    try {
      await act();
    } catch (error) {
      if (error instanceof SpireaError) throw error;
      const { name } = (error ?? {}) as { name?: unknown };
      this.#reason = name === "QuotaExceededError" ? "full" : "denied";
      // A hint that is there in part is of no use where the rest has no room.
      if (this.#reason === "full") await this.#store?.write([], [["hint", this.#scope]]).catch(() => undefined);
      this.#store?.close();
      this.#store = undefined;
    }
  }
}
