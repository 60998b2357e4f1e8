// Data kept between visits: hints, the versions seen under pinned keys, and evaluation keys with their secret.
//
// Stored data is untrusted: the instance checks hints by their hash and keys by their checksum. If the storage is unavailable,
// full or broken, the client works without it and reports that. One failure is an error: a secret that cannot be removed, because
// it must not be used twice.

import { SpireaError } from "../errors.js";
import type { Storage } from "../messages.js";
import { joined } from "./bytes.js";
import type { Change } from "./heads.js";
import type { Instance } from "./instance.js";
import { keyScope } from "./scope.js";
import { type Name, type Store, kept } from "./store.js";

const encoder = new TextEncoder();
const decoder = new TextDecoder();

function json(value: object): Uint8Array {
  return encoder.encode(JSON.stringify(value));
}

/** Parses stored JSON; returns an empty object if it is damaged. */
function read(value: Uint8Array): Record<string, unknown> {
  try {
    const found: unknown = JSON.parse(decoder.decode(value));
    return typeof found === "object" && found !== null ? { ...found } : {};
  } catch {
    return {};
  }
}

/** True for a hash in hexadecimal digits. */
function isHash(text: unknown): text is string {
  return typeof text === "string" && /^[0-9a-f]{64}$/.test(text);
}

/** Takes a lock that excludes all other workers of this origin. Returns its release; `undefined` if the lock is not available. */
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

/** Returns the stored pieces of a hint up to the first gap, concatenated; `undefined` for no piece or more than `most` bytes. */
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
  /** Common part of all names: the database and its servers. */
  readonly #scope: string;
  /** Part of the names of evaluation keys in place of the scope; it also depends on the token. */
  #keyScope = "";
  /** Most bytes of hints to read. */
  readonly #most: number;
  #store: Store | undefined;
  /** Opens the storage again. */
  #place: (() => Promise<Store>) | undefined;
  #reason: Storage["reason"];
  /** Releases the lock on the evaluation keys; defined while this client holds it. */
  #release: (() => void) | undefined;
  /** Hashes of the stored keys. */
  readonly #keys = new Set<string>();
  /** True if the secret of any keys may be stored. */
  #secretStored = false;
  /** Hash of each slot's hint. */
  readonly #latest = new Map<string, string>();
  /** Hint that is being downloaded. */
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

  /** Opens the storage, and gives the stored data to the instance. */
  async open(place: () => Promise<Store>, withKeys: boolean, token: string | undefined): Promise<void> {
    this.#place = place;
    await this.#attempt(async () => {
      const store = (this.#store = await place());
      for await (const [, value] of kept(store, ["latest", this.#scope])) this.#giveLatest(value);
      for await (const [, value] of kept(store, ["seen", this.#scope])) this.#giveSeen(value);
      await this.#giveHints(store);
      // Two clients must not share keys: if one of them revoked the keys, the other would go on. Locks work among the workers of
      // an origin, like the browser's storage, but not among programs that share a folder.
      if (withKeys && store.kind === "indexeddb") {
        this.#keyScope = await keyScope(this.#scope, token);
        this.#release = await lock(`spirea ${this.#keyScope}`);
      }
      if (this.#release) await this.#giveKeys(store);
    });
  }

  /** Stores the instance's changes. Returns `undefined` if there are none. */
  store(): Promise<void> | undefined {
    const change = this.#instance.takeChange();
    return change && this.#storeFrom(change);
  }

  /** Gives the stored hints to the instance again, because a new version's hint can be made from them. */
  async recall(): Promise<void> {
    const store = this.#store;
    if (store) await this.#attempt(() => this.#giveHints(store));
  }

  /** Frees the instance's hints, if they are stored. */
  settle(): void {
    if (this.#store) this.#instance.forgetHints();
  }

  /**
   * Removes the stored secret before it is used, so that it cannot be used again if this client ends unexpectedly.
   * @throws SpireaError if the secret may still be stored.
   */
  async takeSecret(): Promise<void> {
    if (!this.#secretStored) return;
    const secret = ["secret", this.#keyScope];
    try {
      // A storage that has failed, or that the browser has closed, may still have the secret.
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

  /** Stores the evaluation keys for the next visit, with the rest of their lifetime. */
  async keepKeys(): Promise<void> {
    const store = this.#store;
    if (!store || !this.#release) return;
    await this.#attempt(async () => {
      const puts: [Name, Uint8Array][] = [];
      const living = new Set<string>();
      for (const { head, body } of this.#instance.keptKeys()) {
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

  /** Gives the stored hints to the instance. Removes hints beyond the limit of bytes, those of slots last. */
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

  /** Returns the names of stored hints that no slot uses, except `but`. */
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
    this.#instance.give({ stored: "seen", pin, sequence: Number(sequence) });
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
    for (; change; change = this.#instance.takeChange()) {
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
        // Only the last interrupted download can be resumed, so the pieces of others are removed.
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

  /** Runs an operation on the storage. If it fails, works without the storage from then on. */
  async #attempt(act: () => Promise<void>): Promise<void> {
    try {
      await act();
    } catch (error) {
      if (error instanceof SpireaError) throw error;
      const { name } = (error ?? {}) as { name?: unknown };
      this.#reason = name === "QuotaExceededError" ? "full" : "denied";
      // A partial hint is useless if there is no room for the rest.
      if (this.#reason === "full") await this.#store?.write([], [["hint", this.#scope]]).catch(() => undefined);
      this.#store?.close();
      this.#store = undefined;
    }
  }
}
