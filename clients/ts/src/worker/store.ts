// Where bytes are kept between visits, by names of several parts.

export type Name = readonly string[];

export interface Store {
  readonly kind: "indexeddb" | "folder";
  /** All names that begin with these parts, in their order. */
  names(prefix: Name): Promise<Name[]>;
  /** What is kept under a name; `undefined` if it is gone, or no bytes. */
  read(name: Name): Promise<Uint8Array | undefined>;
  /** Removes all whose names begin with one of `drops`, and then writes; in a browser all of it or nothing. */
  write(puts: readonly (readonly [Name, Uint8Array])[], drops: readonly Name[]): Promise<void>;
  close(): void;
}

/** All that is kept under names that begin with these parts, one after another. */
export async function* kept(store: Store, prefix: Name): AsyncGenerator<[Name, Uint8Array]> {
  for (const name of await store.names(prefix)) {
    const value = await store.read(name);
    if (value) yield [name, value];
  }
}
