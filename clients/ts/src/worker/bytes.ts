// Operations on bytes.

/** Concatenates pieces. */
export function joined(pieces: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
  let start = 0;
  for (const piece of pieces) {
    whole.set(piece, start);
    start += piece.length;
  }
  return whole;
}

/** Encodes indices for bindings/wasm: 8 bytes each, little-endian. */
export function indexBytes(indices: readonly number[]): Uint8Array {
  const bytes = new DataView(new ArrayBuffer(8 * indices.length));
  indices.forEach((index, i) => bytes.setBigUint64(8 * i, BigInt(index), true));
  return new Uint8Array(bytes.buffer);
}
