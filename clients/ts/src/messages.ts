// What the page and its worker say to each other.

import type { PlainError } from "./errors.js";
import type { Progress, SentRequest, Settings } from "./options.js";

/** The type of a field, by which {@link Value.value} reads its text (docs/tables.md, "Types"). */
export type FieldType =
  | "text"
  | "bytes"
  | "integer"
  | "number"
  | "decimal"
  | "boolean"
  | "date"
  | "time"
  | "datetime"
  | "instant"
  | "duration"
  | "uuid"
  | "json";

/** A database, in the version that was last seen. */
export interface Description {
  /** Its name. */
  name: string;
  /** The version: 64 hexadecimal digits. */
  version: string;
  /** The protocol's name. */
  protocol: string;
  /** Whether values are found by key, or else by index. */
  keyword: boolean;
  /** Values in the table: one that is looked up is hidden among them. */
  entries: number;
  /** Names of a value's fields. */
  fields: string[];
  /** Their types; empty if the table does not tell them. */
  types: FieldType[];
  /** Servers that a look-up asks. */
  servers: number;
  /** Bins of the table: a fetch brings a value of each. */
  bins: number;
  /** Bytes of its hints. */
  hintBytes: number;
  /** Bytes of a look-up's query, to each server. */
  queryBytes: number;
  /** Bytes of its answer. */
  answerBytes: number;
  /** Bytes of the evaluation keys that the server needs; 0 if none. */
  keysBytes: number;
  /** Whether a newer version is known, with which the next look-up begins. */
  outdated: boolean;
}

/** Where hints and keys are kept. */
export interface Storage {
  /** The place. */
  kind: "indexeddb" | "folder" | "memory";
  /** Why it is memory, where more was asked for: `denied` or `full`. */
  reason?: "denied" | "full";
  /** Whether evaluation keys are kept there too. */
  keys: boolean;
}

/** What look-ups cost, summed over their requests: milliseconds and bytes. */
export interface Timings {
  requests: number;
  sentBytes: number;
  receivedBytes: number;
  /** Bytes of evaluation keys that were uploaded; 0 if the server had them or needs none. */
  keysBytes: number;
  /** Making the queries. */
  queryMs: number;
  /** Computation on the server, as it says. */
  serverMs: number;
  /** Everything else between sending and receiving. */
  networkMs: number;
  /** Decoding the answers. */
  decodeMs: number;
  /** Uploading evaluation keys. */
  keysMs: number;
}

/** Keys that are looked up, as bytes. */
export interface Keys {
  keys: Uint8Array[];
}

export interface Indices {
  indices: number[];
}

/** Domains that are looked up with their parents. */
export interface Domains {
  domains: string[];
  /** Look-ups for each. */
  count: number;
}

export type Wanted = Keys | Indices | Domains;

/** The names of a domain. */
export interface Named {
  /** Those that were looked up, from the longest to the shortest: the first outcomes are theirs. */
  names: string[];
  /** Those that were not: there are too few look-ups. */
  unasked: string[];
}

/** What became of each. */
export type Outcome = { value: Uint8Array[] } | "absent" | "dropped";

export interface Found {
  outcomes: Outcome[];
  /** The version that answered, for each. */
  versions: string[];
  timings: Timings;
  /** Of domains: as many outcomes belong to each. */
  domains?: Named[];
}

/** How it stands with the client: told before what came of a call, and when keys have been stored. */
export interface Standing {
  description: Description;
  storage: Storage;
}

export type Call =
  | { call: "connect"; id: number; settings: Settings }
  | { call: "lookUp"; id: number; wanted: Wanted; fetch: boolean }
  | { call: "abort"; id: number }
  | { call: "close"; id: number };

export type Reply =
  | { reply: "done"; id: number; found?: Found }
  | { reply: "failed"; id: number; error: PlainError }
  | { reply: "progress"; progress: Progress }
  | { reply: "request"; request: SentRequest }
  | { reply: "standing"; standing: Standing };
