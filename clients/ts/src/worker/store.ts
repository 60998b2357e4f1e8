// Interface to storage between visits: bytes by names of several parts.

export type Name = readonly string[];

export interface Store {
  readonly kind: "indexeddb" | "folder";
  /** Returns all names that begin with these parts, sorted. */
  names(prefix: Name): Promise<Name[]>;
  /** Reads the bytes under a name; `undefined` if there are none. */
  read(name: Name): Promise<Uint8Array | undefined>;
  /** Removes all entries whose names begin with one of `drops`, then writes `puts`; atomically in a browser. */
  write(puts: readonly (readonly [Name, Uint8Array])[], drops: readonly Name[]): Promise<void>;
  close(): void;
}

/** Yields all entries whose names begin with these parts. */
export async function* kept(store: Store, prefix: Name): AsyncGenerator<[Name, Uint8Array]> {
  for (const name of await store.names(prefix)) {
    const value = await store.read(name);
    if (value) yield [name, value];
  }
}
