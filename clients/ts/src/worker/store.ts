// Where bytes are kept between visits, by names of several parts.

export type Name = readonly string[];

export interface Store {
  readonly kind: "indexeddb" | "folder";
  /** All whose names begin with these parts, in the order of their names. */
  list(prefix: Name): Promise<[Name, Uint8Array][]>;
  /** Removes all whose names begin with one of `drops`, and then writes; in a browser all of it or nothing. */
  write(puts: readonly (readonly [Name, Uint8Array])[], drops: readonly Name[]): Promise<void>;
  close(): void;
}
