// Messages between the page and its worker.

import type { PlainError } from "./errors.js";
import type { Progress, SentRequest, Settings } from "./options.js";

/** The type of a field, used by {@link Value.value} to convert the field's text (docs/tables.md, "Types"). */
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

/** Description of a database, in the version last seen. */
export interface Description {
  /** The database's name. */
  name: string;
  /** The version: 64 hexadecimal digits. */
  version: string;
  /** The protocol's name. */
  protocol: string;
  /** True if values are looked up by key, false if by index. */
  keyword: boolean;
  /** Number of values in the table, among which a look-up is hidden. */
  entries: number;
  /** Names of a value's fields. */
  fields: string[];
  /** Types of the fields; empty if the table does not have them. */
  types: FieldType[];
  /** Number of servers that a look-up asks. */
  servers: number;
  /** Number of bins; a fetch brings one value of each bin. */
  bins: number;
  /** Bytes of the hints. */
  hintBytes: number;
  /** Bytes of a look-up's query to each server. */
  queryBytes: number;
  /** Bytes of a look-up's answer. */
  answerBytes: number;
  /** Bytes of the evaluation keys that the server needs; 0 if none. */
  keysBytes: number;
  /** True if a newer version is known; the next look-up starts by switching to it. */
  outdated: boolean;
}

/** Storage of hints and keys. */
export interface Storage {
  /** Kind of the storage. */
  kind: "indexeddb" | "folder" | "memory";
  /** Reason for memory where persistent storage was requested: `denied` or `full`. */
  reason?: "denied" | "full";
  /** True if evaluation keys are stored too. */
  keys: boolean;
}

/** Costs of look-ups in milliseconds and bytes, summed over their requests. */
export interface Timings {
  requests: number;
  sentBytes: number;
  receivedBytes: number;
  /** Bytes of evaluation keys uploaded; 0 if the server had them already or needs none. */
  keysBytes: number;
  /** Time to make the queries. */
  queryMs: number;
  /** Computation time that the server reports. */
  serverMs: number;
  /** Time between sending and receiving, without the server's computation. */
  networkMs: number;
  /** Time to decode the answers. */
  decodeMs: number;
  /** Time to upload evaluation keys. */
  keysMs: number;
}

/** Keys to look up, as bytes. */
export interface Keys {
  keys: Uint8Array[];
}

export interface Indices {
  indices: number[];
}

/** Domains to look up with their parents. */
export interface Domains {
  domains: string[];
  /** Look-ups for each domain. */
  count: number;
}

export type Wanted = Keys | Indices | Domains;

/** Names of a domain: itself and its parents. */
export interface Named {
  /** Names that were looked up, from the longest to the shortest; the domain's first outcomes belong to them. */
  names: string[];
  /** Names that were not looked up because there are too few look-ups. */
  unasked: string[];
}

/** Outcome of one look-up. */
export type Outcome = { value: Uint8Array[] } | "absent" | "dropped";

export interface Found {
  outcomes: Outcome[];
  /** For each outcome, the version that answered. */
  versions: string[];
  timings: Timings;
  /** Names of each domain, for a look-up of domains. Every domain has the same number of outcomes. */
  domains?: Named[];
}

/** State of the client. It is sent before the result of a call, and after keys have been stored. */
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
