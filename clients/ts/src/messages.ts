// Messages between the page and its worker.

import type { Progress, SentRequest, Settings } from "./options.js";
import type { Description, Failure, Timings } from "./worker/heads.js";

export type { Description, FieldType, Timings } from "./worker/heads.js";

/** Storage of hints and keys. */
export interface Storage {
  /** Kind of the storage. */
  kind: "indexeddb" | "folder" | "memory";
  /** Reason for memory where persistent storage was requested: `denied` or `full`. */
  reason?: "denied" | "full";
  /** True if evaluation keys are stored too. */
  keys: boolean;
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
  | { reply: "failed"; id: number; error: Failure }
  | { reply: "progress"; progress: Progress }
  | { reply: "request"; request: SentRequest }
  | { reply: "standing"; standing: Standing };
