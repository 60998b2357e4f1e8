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
  /**
   * The client's worker or its compiled code cannot start: its files are missing, the page's policy forbids them, or the engine
   * is too old.
   */
  | "no-worker"
  /** The client was closed. */
  | "closed"
  /** The client's code or its worker stopped because of a defect: connect again, and report it. */
  | "internal";

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
 * Error of a failed call. It never means that a key is absent. It never contains a key, so it may be logged. The message says
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

/** Returns the error for a client that was closed. */
export function closed(): SpireaError {
  return new SpireaError("closed", "the client was closed; connect again");
}

/** Returns the error for a client that stopped unexpectedly. */
export function stopped(): SpireaError {
  return new SpireaError("internal", "the client's code stopped; connect again, and report it");
}

/** A {@link SpireaError} in the form of a message from the worker. */
export interface PlainError extends Circumstances {
  code: ErrorCode;
  message: string;
}

export function revived({ code, message, ...circumstances }: PlainError): SpireaError {
  return new SpireaError(code, message, circumstances);
}

export function plain(error: unknown): PlainError {
  // Any other error may contain secrets, so it is replaced.
  const { code, message, status, refusal, party, url } = error instanceof SpireaError ? error : stopped();
  const known = Object.entries({ status, refusal, party, url }).filter(([, value]) => value !== undefined);
  return { code, message, ...Object.fromEntries(known) };
}
