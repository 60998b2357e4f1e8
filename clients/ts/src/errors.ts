import type { Circumstances, ErrorCode, Failure } from "./worker/heads.js";

export type { Circumstances, ErrorCode } from "./worker/heads.js";

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

export function revived({ code, message, ...circumstances }: Failure): SpireaError {
  return new SpireaError(code, message, circumstances);
}

/** Returns an error as a message for the page. */
export function plain(error: unknown): Failure {
  // Any other error may contain secrets, so it is replaced.
  const { code, message, status, refusal, party, url } = error instanceof SpireaError ? error : stopped();
  const known = Object.entries({ status, refusal, party, url }).filter(([, value]) => value !== undefined);
  return { code, message, ...Object.fromEntries(known) };
}
