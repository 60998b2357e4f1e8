// Messages of docs/wire.md, as far as the tests need them.

import assert from "node:assert/strict";

/** `Error` with code 16, UNKNOWN_KEYS: the server has forgotten the keys that a query names. */
export const UNKNOWN_KEYS = Buffer.from("\x08\x01\x10\x10\x1a\x04gone\x22\x05again", "latin1");

/** Decodes a number. Also returns the position after it. */
function varint(message: Buffer, start: number): [number: number, end: number] {
  let [number, scale, at] = [0, 1, start];
  for (;;) {
    const byte = message.readUInt8(at++);
    number += (byte & 0x7f) * scale;
    if (byte < 0x80) return [number, at];
    scale *= 128;
  }
}

interface Field {
  number: number;
  start: number;
  end: number;
}

/** Yields the fields of a message: the number of each, and the range of its content. */
function* fields(message: Buffer): Generator<Field> {
  let at = 0;
  while (at < message.length) {
    const [tag, afterTag] = varint(message, at);
    let [start, end] = [afterTag, afterTag + 8];
    if ((tag & 7) === 0) end = varint(message, start)[1];
    else if ((tag & 7) !== 1) {
      const [length, afterLength] = varint(message, start);
      [start, end] = [afterLength, afterLength + length];
    }
    yield { number: tag >> 3, start, end };
    at = end;
  }
}

/** Replaces the contents of all fields of a number; the new contents must have the same length. */
function changed(message: Buffer, number: number, change: (content: Buffer) => Buffer): Buffer {
  const copy = Buffer.from(message);
  for (const field of fields(message)) {
    if (field.number !== number) continue;
    const content = change(message.subarray(field.start, field.end));
    assert.equal(content.length, field.end - field.start);
    copy.set(content, field.start);
  }
  return copy;
}

/** Returns the hash of the evaluation keys that a query names, in hexadecimal digits; empty if it names none. */
export function keysNamed(query: Buffer): string {
  for (const { number, start, end } of fields(query)) if (number === 4) return query.toString("hex", start, end);
  return "";
}

/** Changes every byte of every answer in a response, so that no record can be right. */
export function flipped(response: Buffer): Buffer {
  return changed(response, 3, (answer) => Buffer.from(answer.map((byte) => byte ^ 0x80)));
}

export function ofAnotherVersion(response: Buffer): Buffer {
  return changed(response, 2, () => Buffer.alloc(32));
}

/** Changes a response so that it announces this version as the server's newest. */
export function withNewest(response: Buffer, version: Buffer): Buffer {
  return changed(response, 6, () => version);
}

/** Changes a configuration so that it allows only one look-up in a request. */
export function oneAtATime(config: Buffer): Buffer {
  const most = [...fields(config)].find(({ number }) => number === 6);
  assert(most);
  return Buffer.concat([config.subarray(0, most.start), Buffer.from([1]), config.subarray(most.end)]);
}
