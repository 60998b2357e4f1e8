// What is kept between visits: hints, the versions seen under pinned keys, and evaluation keys with their secret.
//
// Nothing that is stored is believed: the instance checks hints by their hash and keys by their checksum. A place that cannot
// be had, is full, or breaks is done without, and the client says so; only what must not be used twice has to be gone.

import { SpireaError } from "../errors.js";
import type { Storage } from "../messages.js";
import { joined } from "./bytes.js";
import type { Instance } from "./instance.js";
import { keyScope } from "./scope.js";
import { type Name, type Store, kept } from "./store.js";

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

/** The pieces of a hint that are there without a gap, as one; `undefined` if there are none, or more than `most` bytes. */
async function beginning(store: Store, names: readonly Name[], most: number): Promise<Uint8Array | undefined> {
  const pieces: Uint8Array[] = [];
  let bytes = 0;
  for (const name of names) {
    const piece = await store.read(name);
    if (!piece || Number(name[3]) !== pieces.length) break;
    pieces.push(piece);
    bytes += piece.length;
    if (bytes > most) return undefined;
  }
  return pieces.length > 0 ? joined(pieces) : undefined;
}

export class Keeper {
  readonly #instance: Instance;
  /** What its names have in common: the database and its servers. */
  readonly #scope: string;
  /** The part that the names of evaluation keys have in its place: the token counts too. */
  #keyScope = "";
  /** The most bytes of hints that are read. */
  readonly #most: number;
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
  /** The hint whose pieces are coming. */
  #coming: string | undefined;

  constructor(instance: Instance, scope: string, maxHintBytes: number) {
    this.#instance = instance;
    this.#scope = scope;
    this.#most = maxHintBytes;
  }

  get storage(): Storage {
    const keys = this.#release !== undefined && this.#store !== undefined;
    const kind = this.#store?.kind ?? "memory";
    return { kind, keys, ...(this.#reason !== undefined && { reason: this.#reason }) };
  }

  /** Opens the place, and gives the instance what is there. */
  async open(place: () => Promise<Store>, withKeys: boolean, token: string | undefined): Promise<void> {
    this.#place = place;
    await this.#attempt(async () => {
      const store = (this.#store = await place());
      for await (const [, value] of kept(store, ["latest", this.#scope])) this.#giveLatest(value);
      for await (const [, value] of kept(store, ["seen", this.#scope])) this.#giveSeen(value);
      await this.#giveHints(store);
      // Keys that two clients go on with would end with one of them, and not with the other. A lock holds among the workers
      // of an origin, as the browser's storage does, and not among the programs that have a folder in common.
      if (withKeys && store.kind === "indexeddb") {
        this.#keyScope = await keyScope(this.#scope, token);
        this.#release = await lock(`spirea ${this.#keyScope}`);
      }
      if (this.#release) await this.#giveKeys(store);
    });
  }

  /** Stores what the instance has for it; nothing to wait for where that is nothing. */
  store(): Promise<void> | undefined {
    const change = this.#instance.takeChange<Change>();
    return change && this.#storeFrom(change);
  }

  /** What a new version's hint can be made of, which is not in memory. */
  async recall(): Promise<void> {
    const store = this.#store;
    if (store) await this.#attempt(() => this.#giveHints(store));
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
    const secret = ["secret", this.#keyScope];
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
      const living = new Set<string>();
      for (const { head, body } of this.#instance.keptKeys<{ keys: string; record: number }>()) {
        living.add(head.keys);
        puts.push([["secret", this.#keyScope, head.keys], body.slice(0, head.record)]);
        if (!this.#keys.has(head.keys)) puts.push([["keys", this.#keyScope, head.keys], body.slice(head.record)]);
        body.fill(0);
      }
      const ended = [...this.#keys].filter((keys) => !living.has(keys));
      if (puts.length === 0 && ended.length === 0) return;
      this.#secretStored = true;
      try {
        await store.write(puts, [["secret", this.#keyScope], ...ended.map((keys) => ["keys", this.#keyScope, keys])]);
      } finally {
        puts.forEach(([, value]) => value.fill(0));
      }
      ended.forEach((keys) => this.#keys.delete(keys));
      living.forEach((keys) => this.#keys.add(keys));
    });
  }

  close(): void {
    this.#store?.close();
    this.#release?.();
  }

  /** Gives the hints that are stored, and removes those that are more than may be read: a slot's are the last to go. */
  async #giveHints(store: Store): Promise<void> {
    this.#coming = undefined;
    const pieces = new Map<string, Name[]>();
    for (const name of await store.names(["hint", this.#scope])) {
      const before = pieces.get(name[2]!) ?? [];
      pieces.set(name[2]!, [...before, name]);
    }
    const named = new Set(this.#latest.values());
    let room = this.#most;
    for (const hint of [...pieces.keys()].sort((a, b) => Number(named.has(b)) - Number(named.has(a)))) {
      const bytes = isHash(hint) ? await beginning(store, pieces.get(hint)!, room) : undefined;
      if (bytes === undefined) {
        await store.write([], [["hint", this.#scope, hint]]);
      } else {
        room -= bytes.length;
        this.#instance.give({ stored: "hint", hint }, bytes);
      }
    }
  }

  /** The names of hints that no slot names, but for one. */
  async #unnamed(store: Store, but?: string): Promise<Name[]> {
    const used = new Set([...this.#latest.values(), but]);
    const stored = new Set((await store.names(["hint", this.#scope])).map((name) => name[2]!));
    return [...stored].filter((hint) => !used.has(hint)).map((hint) => ["hint", this.#scope, hint]);
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
    for await (const [name, value] of kept(store, ["keys", this.#keyScope])) {
      this.#keys.add(name[2]!);
      this.#instance.give({ stored: "keys" }, value);
    }
    for await (const [, value] of kept(store, ["secret", this.#keyScope])) {
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
    if (!store) return;
    switch (change.change) {
      case "piece": {
        const { hint, index } = change;
        // Of downloads that broke off the last one is gone on with, if any.
        const drops = hint === this.#coming ? [] : await this.#unnamed(store, hint);
        this.#coming = hint;
        await store.write([[["hint", this.#scope, hint, String(index).padStart(6, "0")], body]], drops);
        break;
      }
      case "drop":
        await store.write([], [["hint", this.#scope, change.hint]]);
        break;
      case "latest": {
        const { slot, hint } = change;
        this.#latest.set(slot, hint);
        await store.write([[["latest", this.#scope, slot], json({ slot, hint })]], await this.#unnamed(store));
        break;
      }
      case "seen": {
        const { pin, sequence } = change;
        await store.write([[["seen", this.#scope, pin], json({ pin, sequence })]], []);
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
