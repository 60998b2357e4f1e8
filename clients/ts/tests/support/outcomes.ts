// Outcomes of calls of page/harness.mjs.

import { expect } from "vitest";

export interface Failure {
  typed: boolean;
  name: string;
  code: string;
  message: string;
  status?: number;
  refusal?: string;
  party?: number;
  url?: string;
  text: string;
}

type Any = any;

/** Returns the result of a call, which must not have failed. */
export function done(outcome: Any): Any {
  expect(outcome, "the call fails").toHaveProperty("done");
  return outcome.done;
}

/** Returns the error of a failed call, which must be one of the package with one of these codes. */
export function failed(outcome: Any, ...codes: string[]): Failure {
  expect(outcome, "the call does not fail").toHaveProperty("failed");
  const error: Failure = outcome.failed;
  expect(error).toMatchObject({ typed: true, name: "SpireaError" });
  expect(codes, error.message).toContain(error.code);
  expect(error.message.length).toBeGreaterThan(10);
  return error;
}

/** Checks that a call ended with the signal's own reason. */
export function aborted(outcome: Any): void {
  expect(outcome).toHaveProperty("failed");
  expect(outcome.failed).toMatchObject({ text: "enough", typed: false });
}
