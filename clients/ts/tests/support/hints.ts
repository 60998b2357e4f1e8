// Records and hints of the committed vectors, computed from docs/wire.md only.

import { chacha20orig } from "@noble/ciphers/chacha.js";
import { blake3 } from "@noble/hashes/blake3.js";

/** Degree of the structured matrix's ring (wire.md 8.1). */
const RING = 256;

/** The grid of records (wire.md 7). */
interface Grid {
  records: number;
  record_bytes: number;
  unit_rows: number;
  groups: number;
  columns: number;
}

export interface Params {
  protocol: string;
  set?: string;
  seed?: string;
  grid?: Grid;
  /** Bits of each number of the hint (wire.md 8.6). */
  hint_bits?: number;
  /** Members of `simple`, which has no grid. */
  records?: number;
  record_bytes?: number;
  rows?: number;
  columns?: number;
}

/** Returns the first bytes of a stream of a key (wire.md 1.4). */
function stream(key: Uint8Array, number: number, length: number): Uint8Array {
  const nonce = new Uint8Array(8);
  new DataView(nonce.buffer).setBigUint64(0, BigInt(number), true);
  return chacha20orig(key, nonce, new Uint8Array(length));
}

function gridOf(params: Params): Grid {
  if (params.grid) return params.grid;
  const { records, record_bytes, rows, columns } = params;
  return { records: records!, record_bytes: record_bytes!, unit_rows: rows!, groups: 1, columns: columns! };
}

/** Returns the records of a vector: record i is stream i under the key of the seed's 8 bytes and zeros. */
export function recordsOf(content: number, params: Params): Uint8Array[] {
  const key = new Uint8Array(32);
  new DataView(key.buffer).setBigUint64(0, BigInt(content), true);
  const { records, record_bytes } = gridOf(params);
  return Array.from({ length: records }, (_, i) => stream(key, i, record_bytes));
}

/** A matrix of words modulo 2^32, or of bytes, in row-major order. */
interface Matrix<Numbers extends Uint8Array | Int32Array> {
  numbers: Numbers;
  columns: number;
}

/** Multiplies a matrix of bytes by a matrix of words, modulo 2^32. */
function times({ numbers, columns }: Matrix<Uint8Array>, by: Matrix<Int32Array>): Matrix<Int32Array> {
  const rows = numbers.length / columns;
  const product = new Int32Array(rows * by.columns);
  for (let row = 0; row < rows; row++) {
    const sums = product.subarray(row * by.columns, (row + 1) * by.columns);
    for (let k = 0; k < columns; k++) {
      const factor = numbers[row * columns + k]!;
      if (factor === 0) continue;
      const words = by.numbers.subarray(k * by.columns, (k + 1) * by.columns);
      for (let i = 0; i < sums.length; i++) sums[i] = (sums[i]! + Math.imul(factor, words[i]!)) | 0;
    }
  }
  return { numbers: product, columns: by.columns };
}

/** Returns the public matrix of a fold, with a row for each column of the database (wire.md 8.2). */
function publicMatrix({ set, seed }: Params, fold: "first" | "second", rows: number): Matrix<Int32Array> {
  const context = new TextEncoder().encode(`spirea v2: public matrix of the ${fold} fold`);
  const key = blake3(Buffer.from(seed!, "hex"), { context });
  const degree = set === "module-1536" ? 1536 : 1280;
  const words = (number: number) => new Int32Array(stream(key, number, 4 * degree).slice().buffer);
  const numbers = new Int32Array(rows * degree);
  if (set === "paper") {
    for (let row = 0; row < rows; row++) numbers.set(words(row), row * degree);
    return { numbers, columns: degree };
  }
  for (let block = 0; block < rows / RING; block++) {
    const polynomials = words(block);
    for (let k = 0; k < RING; k++) {
      const row = numbers.subarray((block * RING + k) * degree, (block * RING + k + 1) * degree);
      // Row k of the square matrix of polynomial a: a[k - l] for l <= k, and -a[256 + k - l] for l > k.
      for (let i = 0; i < degree; i++) {
        const [start, l] = [i - (i % RING), i % RING];
        row[i] = k >= l ? polynomials[start + k - l]! : -polynomials[start + RING + k - l]!;
      }
    }
  }
  return { numbers, columns: degree };
}

/** Returns the matrix of a table whose records' parts lie across (wire.md 7). */
function databaseOf(grid: Grid, contents: Uint8Array[]): Matrix<Uint8Array> {
  const { record_bytes, unit_rows, groups, columns } = grid;
  const numbers = new Uint8Array(groups * unit_rows * columns);
  const parts = Math.ceil(record_bytes / unit_rows);
  const perUnit = Math.max(Math.floor(unit_rows / record_bytes), 1);
  for (const [index, record] of contents.entries()) {
    const unit = Math.floor(index / perUnit);
    const column = Math.floor(unit / groups) * parts;
    const top = (unit % groups) * unit_rows + (index % perUnit) * record_bytes;
    for (const [at, byte] of record.entries()) {
      const part = Math.floor(at / unit_rows);
      numbers[(top + (at % unit_rows)) * columns + column + part] = byte;
    }
  }
  return { numbers, columns };
}

/** Computes the hint that clients download, for `simple` and `double`; empty for other protocols (wire.md 9, 10). */
export function hintOf(params: Params, contents: Uint8Array[]): Uint8Array {
  const { protocol } = params;
  if (protocol !== "simple" && protocol !== "double") return new Uint8Array();
  const grid = gridOf(params);
  const first = times(databaseOf(grid, contents), publicMatrix(params, "first", grid.columns));
  const bits = params.hint_bits ?? 32;
  if (protocol === "simple") return rounded(first.numbers, bits);
  const fixed = fixedRows(first, grid.groups);
  return rounded(times(fixed, publicMatrix(params, "second", grid.groups)).numbers, bits);
}

/** Returns the upper bits of words, rounded to the nearest and without gaps (wire.md 8.6). */
function rounded(words: Int32Array, bits: number): Uint8Array {
  const bytes = new Uint8Array((words.length / 8) * bits);
  const half = bits === 32 ? 0 : 2 ** (31 - bits);
  for (const [i, word] of words.entries()) {
    const number = ((word + half) | 0) >>> (32 - bits);
    for (let bit = 0; bit < bits; bit++) {
      const place = i * bits + bit;
      bytes[place >>> 3]! |= ((number >>> bit) & 1) << (place & 7);
    }
  }
  return bytes;
}

/**
 * Returns the upper halves of rounded words as bytes. Rows are (byte of a unit, entry, byte of the entry), and columns are groups
 * (wire.md 10.1).
 */
function fixedRows({ numbers }: Matrix<Int32Array>, groups: number): Matrix<Uint8Array> {
  const words = numbers.length / groups;
  const bytes = new Uint8Array(2 * numbers.length);
  for (let group = 0; group < groups; group++) {
    for (let i = 0; i < words; i++) {
      const rounded = (numbers[group * words + i]! + (1 << 15)) >>> 16;
      bytes[2 * i * groups + group] = rounded & 0xff;
      bytes[(2 * i + 1) * groups + group] = rounded >>> 8;
    }
  }
  return { numbers: bytes, columns: groups };
}
