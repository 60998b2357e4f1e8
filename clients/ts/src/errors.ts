/** Why something failed, for programs. It stays the same from version to version. */
export type ErrorCode =
  /** An address or a name that cannot be used, or too few or too many addresses. */
  | "bad-address"
  /** An option that cannot be used. */
  | "bad-option"
  /** A key or an index that cannot be asked for. */
  | "bad-request"
  /** The server speaks another format of messages: one of the two is older. */
  | "other-version"
  /** What came is no response of a Spirea server. */
  | "unusable-response"
  /** A status that no Spirea server gives. */
  | "unexpected-status"
  /** The parts of a configuration do not belong together. */
  | "wrong-config"
  /** The hint is longer than `maxHintBytes`. */
  | "hint-too-large"
  /** The hint does not have the hash that the configuration names. */
  | "hint-corrupted"
  /** The database changed again and again while it was fetched. */
  | "changing"
  /** The server refuses queries for the version that it has just named. */
  | "still-stale"
  /** The server does not keep the evaluation keys that it was given. */
  | "keys-forgotten"
  /** The secret of these answers was erased after another one that did not verify. */
  | "keys-ended"
  /** The server received other evaluation keys than were sent. */
  | "keys-changed"
  /** The server refused: `refusal` and `status` say why. */
  | "refused"
  /** There is nothing at the address, this device is offline, or the server does not allow this page's origin. */
  | "unreachable"
  /** The host's name leads nowhere. */
  | "unknown-host"
  /** The connection is not known to lead to the server that was meant. */
  | "untrusted-server"
  /** The server took too long. */
  | "timed-out"
  /** The connection broke. */
  | "broken"
  /** What is kept for the next visit cannot be removed, so that it would be used twice. */
  | "storage"
  /** An answer failed its checksum and was withheld: something is damaged, or the server lies. */
  | "wrong-answer"
  /** A record is whole and not the one that the operator published. */
  | "unproven"
  /** The pinned key does not vouch for this version. */
  | "untrusted-version"
  /** Two servers serve different versions. */
  | "different-snapshots"
  /** The database's pseudorandom function must be accepted first: `acceptWeakPrf`. */
  | "weak-prf"
  /** There is no randomness, without which no query is made. */
  | "no-entropy"
  /** The client's worker or its compiled code cannot start: its files are missing, the page's policy forbids them, or the engine is too old. */
  | "no-worker"
  /** The client was closed. */
  | "closed"
  /** The client's code or its worker stopped: connect again, and report it. */
  | "internal";

/** What is known of a failure beside its code and its text. */
export interface Circumstances {
  /** The HTTP status. */
  status?: number;
  /** The server's own code, such as `STALE_VERSION`. */
  refusal?: string;
  /** Which of two servers. */
  party?: number;
  /** Address of the server, the first of its addresses if there is one server. */
  url?: string;
}

/**
 * Why a look-up failed. None of them means that a key is absent, and none holds the key: it may be logged. The message says
 * what to do.
 */
export class SpireaError extends Error {
  override readonly name = "SpireaError";
  readonly code: ErrorCode;
  declare readonly status?: number;
  declare readonly refusal?: string;
  declare readonly party?: number;
  declare readonly url?: string;

  constructor(code: ErrorCode, message: string, circumstances: Circumstances = {}) {
    super(message);
    this.code = code;
    Object.assign(this, circumstances);
  }
}

/** The client is there no more, as it was asked for. */
export function closed(): SpireaError {
  return new SpireaError("closed", "the client was closed; connect again");
}

/** The client is there no more, and nobody asked for it. */
export function stopped(): SpireaError {
  return new SpireaError("internal", "the client's code stopped; connect again, and report it");
}

/** A {@link SpireaError} as it travels from the worker. */
export interface PlainError extends Circumstances {
  code: ErrorCode;
  message: string;
}

export function revived({ code, message, ...circumstances }: PlainError): SpireaError {
  return new SpireaError(code, message, circumstances);
}

export function plain(error: unknown): PlainError {
  // Whatever else it is may hold anything.
  const { code, message, status, refusal, party, url } = error instanceof SpireaError ? error : stopped();
  const known = Object.entries({ status, refusal, party, url }).filter(([, value]) => value !== undefined);
  return { code, message, ...Object.fromEntries(known) };
}
