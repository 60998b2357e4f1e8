// Heads of the messages to and from the compiled client, and the public types that they contain.
//
// A test of bindings/wasm generates this file:
// SPIREA_WRITE_VECTORS=1 cargo test -p spirea-wasm contract

/** Code of an error, for programs. Codes are stable across releases. */
export type ErrorCode =
  /** An address or a name is invalid, or there are too few or too many addresses. */
  | "bad-address"
  /** An option is invalid. */
  | "bad-option"
  /** A key, an index or a field is invalid. */
  | "bad-request"
  /** The server uses another format of messages: client or server is older. */
  | "other-version"
  /** The response is not that of a Spirea server. */
  | "unusable-response"
  /** The response has a status that Spirea servers do not use. */
  | "unexpected-status"
  /** The parts of a configuration are inconsistent. */
  | "wrong-config"
  /** The hint is longer than `maxHintBytes`. */
  | "hint-too-large"
  /** The hint does not have the hash in the configuration. */
  | "hint-corrupted"
  /** The database kept changing during a download. */
  | "changing"
  /** The server refuses queries for the version that it has just announced. */
  | "still-stale"
  /** The server does not keep the evaluation keys that it received. */
  | "keys-forgotten"
  /** The secret for these answers was erased, because another answer did not verify. */
  | "keys-ended"
  /** The server received evaluation keys that differ from those sent. */
  | "keys-changed"
  /** The server refused the request; `refusal` and `status` have the reason. */
  | "refused"
  /** No server listens at the address, this device is offline, or the server does not allow this page's origin. */
  | "unreachable"
  /** The host name does not resolve. */
  | "unknown-host"
  /** The server's certificate is not trusted. */
  | "untrusted-server"
  /** The server did not answer within the timeout. */
  | "timed-out"
  /** The connection broke. */
  | "broken"
  /** A stored secret cannot be removed, so it could be used twice. */
  | "storage"
  /** An answer failed its checksum and was withheld: data is damaged, or the server is malicious. */
  | "wrong-answer"
  /** A record is intact, but differs from the one that the operator published. */
  | "unproven"
  /** The pinned key has not signed this version. */
  | "untrusted-version"
  /** Two servers serve different versions. */
  | "different-snapshots"
  /** The database's pseudorandom function must be accepted first: `acceptWeakPrf`. */
  | "weak-prf"
  /** There is no source of randomness, which queries need. */
  | "no-entropy"
  /** The client's code or its worker stopped because of a defect: connect again, and report it. */
  | "internal"
  /**
   * The client's worker or its compiled code cannot start: its files are missing, the page's policy forbids them, or the
   * engine is too old.
   */
  | "no-worker"
  /** The client was closed. */
  | "closed";

/** Details of a failure, beside its code and its message. */
export interface Circumstances {
  /** The HTTP status. */
  status?: number;
  /** The server's own code, such as `STALE_VERSION`. */
  refusal?: string;
  /** Index of the server, if there are two. */
  party?: number;
  /** Address of the server; the first of its addresses if there is one server. */
  url?: string;
}

/**
 * An error: a code for programs, and a text for people with a remedy. Neither contains any part of the keys or indices asked
 * for.
 */
export interface Failure {
  code: ErrorCode;
  message: string;
  /** The HTTP status. */
  status?: number;
  /** The server's own code, such as `STALE_VERSION`. */
  refusal?: string;
  /** Index of the server, if there are two. */
  party?: number;
  /** Address of the server; the first of its addresses if there is one server. */
  url?: string;
}

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
  fields: Array<string>;
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

/** Next step of a conversation. */
export const Next = { Send: 1, Read: 2, Wait: 3, Connected: 4, Values: 5, Failed: 6, Rules: 7 } as const;

/** Options of a connection. Missing options have their defaults. */
export interface Options {
  /** Addresses of each server. */
  addresses: Array<Array<string>>;
  database: string;
  pinnedKey?: string;
  attempts?: number;
  maxPauseMs?: number;
  patienceMs?: number;
  maxHintBytes?: number;
  acceptWeakPrf: boolean;
}

/** Stored data that JavaScript passes in. */
export type Stored =
  | { stored: "hint"; hint: string }
  | { stored: "latest"; slot: string; hint: string }
  | { stored: "seen"; pin: string; sequence: number }
  | { stored: "keys" }
  | { stored: "secret" };

/** The wanted values. The keys or indices are in the body, since code that parses heads does not erase its memory. */
export type Wanted =
  | { wanted: "keys"; lengths: Array<number>; fetch: boolean }
  | { wanted: "indices"; fetch: boolean };

/** A request to the server with this index. */
export interface ToSend {
  server: number;
  method: "GET" | "POST";
  url: string;
  headers: Array<[string, string]>;
}

/** Result of a step, from the server with this index. */
export type Came =
  | { received: "head"; server: number; status: number; etag: string | null; retryAfter: string | null }
  | { received: "piece"; server: number }
  | { received: "failed"; server: number; kind: Kind; words: string };

/** Reason why there is no response, as far as JavaScript can tell. */
export type Kind =
  | "unreachable"
  | "unknown-host"
  | "timed-out"
  | "broken"
  | "untrusted";

/** Values and their costs. The body has the fields, one after another. */
export interface Found {
  values: Array<Outcome>;
  /** Versions that answered, in hexadecimal digits, each with the number of consecutive values that it answered for. */
  versions: Array<[string, number]>;
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

/** Lengths of a value's fields, or the reason for no value. */
export type Outcome =
  | { value: Array<number> }
  | "absent"
  | "dropped";

/** Change of the store, for JavaScript to make. */
export type Change =
  | { change: "piece"; hint: string; index: number }
  | { change: "drop"; hint: string }
  | { change: "latest"; slot: string; hint: string }
  | { change: "seen"; pin: string; sequence: number };

/** Evaluation keys to be stored. */
export interface Kept {
  /** Hash under which both pieces are stored. */
  keys: string;
  /** Length of the record at the start of the body, in bytes. The keys follow. */
  record: number;
}
