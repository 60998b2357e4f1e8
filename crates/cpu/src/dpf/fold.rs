//! Products of blocks of rows and shares, for any vectors: [`ByteLanes::run`] compiles them for an
//! instruction set.
//!
//! The number of rows of a block is a multiple of [`GROUP_ROWS`]. At least [`SLACK`] bytes after
//! its last row are readable, because vectors reach beyond a row's end. The values read there are
//! discarded. For the same reason sums have one vector of room beyond a row's bytes.

use std::marker::PhantomData;
use std::ops::Range;

use spirea_dpf::Leaf;

use super::lanes::{ByteLanes, RowKernel, Word};
use crate::prefetch::{Lines, prefetch};

/// Number of rows in a word of share bits; a block's number of rows is a multiple of it.
pub(crate) const GROUP_ROWS: usize = 64;
/// Number of readable bytes after a block: the size of the widest vector.
pub(crate) const SLACK: usize = 64;

/// Block of rows in memory.
#[derive(Clone, Copy)]
pub(crate) struct Block<'a> {
    /// Bytes from the first row to [`SLACK`] bytes after the last row.
    pub bytes: &'a [u8],
    /// Bytes of a row.
    pub row_bytes: usize,
    /// Rows.
    pub rows: usize,
    /// Prefetch distance in bytes from the current row, so that rows are requested from memory
    /// before they are used; 0 means no prefetching.
    pub ahead: usize,
}

impl<'a> Block<'a> {
    /// Returns the bytes from a row on.
    #[inline(always)]
    pub fn row(&self, row: usize) -> &'a [u8] {
        &self.bytes[row * self.row_bytes..]
    }
}

/// Returns the bytes of a key's sums for rows of `row_bytes` bytes: whole vectors of any width.
pub(crate) fn sum_bytes(row_bytes: usize) -> usize {
    row_bytes.next_multiple_of(SLACK)
}

/// Share bits of one key: one bit for each row, lowest bit first.
pub(crate) type Bits<'a> = &'a [u64];

/// Kernel `sums ^= XOR of rows whose bit is set`, for one key and `P` blocks with equal numbers of
/// rows: reads one masked row of each block at a time.
pub(crate) struct XorMasked<'a, const P: usize> {
    pub blocks: [Block<'a>; P],
    pub bits: [Bits<'a>; P],
    pub sums: &'a mut [u8],
}

impl<const P: usize> RowKernel for XorMasked<'_, P> {
    type Output = ();

    #[inline(always)]
    fn run<L: ByteLanes>(self, lanes: L) {
        let Self { blocks, bits, sums } = self;
        match blocks[0].row_bytes.div_ceil(L::BYTES) {
            1 => xor_masked_narrow::<L, P, 1>(lanes, blocks, bits, sums),
            2 => xor_masked_narrow::<L, P, 2>(lanes, blocks, bits, sums),
            3 => xor_masked_narrow::<L, P, 3>(lanes, blocks, bits, sums),
            4 => xor_masked_narrow::<L, P, 4>(lanes, blocks, bits, sums),
            _ => blocks
                .into_iter()
                .zip(bits)
                .for_each(|(block, bits)| xor_masked_wide(lanes, block, bits, sums)),
        }
    }
}

/// Returns true if a row has so few vectors that the sums of masked rows stay in registers. With
/// wider rows, reading two blocks at the same time gains nothing. With AVX2 and rows of 256 bytes,
/// two folds took 1.14 and 1.29 times the time of reading alone. With one block after another, the
/// same folds took 1.12 and 1.16 times the time of reading alone.
pub(crate) fn is_narrow<L: ByteLanes>(_: L, row_bytes: usize) -> bool {
    row_bytes <= 4 * L::BYTES
}

/// Prefetches the cache lines of the `bytes` bytes at distance `ahead`; 0 means none.
#[inline(always)]
fn ask_ahead(row: &[u8], ahead: usize, bytes: usize) {
    if ahead == 0 {
        return;
    }
    for line in (0..bytes).step_by(64) {
        prefetch(row.as_ptr().wrapping_add(ahead + line));
    }
}

/// Folds rows of V vectors, with the sums in registers.
#[inline(always)]
fn xor_masked_narrow<L: ByteLanes, const P: usize, const V: usize>(
    lanes: L,
    blocks: [Block<'_>; P],
    bits: [Bits<'_>; P],
    sums: &mut [u8],
) {
    let Block { row_bytes, ahead, .. } = blocks[0];
    let mut totals = [lanes.zero(); V];
    for (v, total) in totals.iter_mut().enumerate() {
        *total = lanes.load(&sums[v * L::BYTES..]);
    }
    // Several short rows share a cache line, which is prefetched once.
    let per_line = (64 / row_bytes).max(1).next_power_of_two();
    for group in 0..blocks[0].rows / GROUP_ROWS {
        let rows =
            blocks.map(|block| &block.row(group * GROUP_ROWS)[..(GROUP_ROWS - 1) * row_bytes + V * L::BYTES]);
        // Reversed, so that a row's bit is the top bit of every lane when its turn comes.
        let turned = bits.map(|bits| bits[group].reverse_bits());
        for half in 0..2 {
            let mut bits = turned.map(|bits| lanes.splat32((bits >> (32 * (1 - half))) as u32));
            for i in 0..GROUP_ROWS / 2 {
                for p in 0..P {
                    let row = &rows[p][(half * GROUP_ROWS / 2 + i) * row_bytes..][..V * L::BYTES];
                    let mask = lanes.top_masks(bits[p]);
                    bits[p] = lanes.add32(bits[p], bits[p]);
                    for (v, total) in totals.iter_mut().enumerate() {
                        if i % per_line == 0 && v * L::BYTES % 64 == 0 {
                            ask_ahead(&row[v * L::BYTES..], ahead, L::BYTES);
                        }
                        *total = lanes.xor(*total, lanes.and(lanes.load(&row[v * L::BYTES..]), mask));
                    }
                }
            }
        }
    }
    for (v, &total) in totals.iter().enumerate() {
        lanes.store(total, &mut sums[v * L::BYTES..]);
    }
}

/// Folds wide rows one after another, in the order of memory, with the sums in the first-level
/// cache.
#[inline(always)]
fn xor_masked_wide<L: ByteLanes>(lanes: L, block: Block<'_>, bits: Bits<'_>, sums: &mut [u8]) {
    for row in 0..block.rows {
        let bit = bits[row / GROUP_ROWS] >> (row % GROUP_ROWS) & 1;
        let mask = lanes.splat64(bit.wrapping_neg());
        let bytes = &block.row(row)[..block.row_bytes + SLACK];
        for at in (0..block.row_bytes).step_by(L::BYTES) {
            ask_ahead(&bytes[at..], block.ahead, L::BYTES);
            let total = lanes.xor(lanes.load(&sums[at..]), lanes.and(lanes.load(&bytes[at..]), mask));
            lanes.store(total, &mut sums[at..]);
        }
    }
}

/// Number of rows whose subset sums are in one table (the method of the four Russians).
const TABLE_ROWS: usize = 4;
/// Tables for a group of rows.
const TABLES: usize = GROUP_ROWS / TABLE_ROWS;

/// Kernel `sums[k] ^= XOR of rows whose bit of key k is set`, for several keys. The XORs of all
/// subsets of four rows are put into a table once. Each key then looks up one of 16 entries instead
/// of adding four masked rows.
///
/// The bits of key k begin at word `k * stride` of `bits`, its sums at byte
/// `k * sum_bytes(row_bytes)` of `sums`.
pub(crate) struct XorTables<'a> {
    pub block: Block<'a>,
    pub bits: Bits<'a>,
    pub stride: usize,
    pub sums: &'a mut [u8],
}

impl RowKernel for XorTables<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: ByteLanes>(self, lanes: L) {
        let Self { block, bits, stride, sums } = self;
        // The tables of a stripe of two vectors fill half of a first-level cache of 32 KiB.
        let two = 2 * L::BYTES;
        let wide = if L::BYTES <= 32 { block.row_bytes / two * two } else { 0 };
        xor_stripes::<L, 2>(lanes, block, 0..wide, bits, stride, sums);
        xor_stripes::<L, 1>(lanes, block, wide..block.row_bytes, bits, stride, sums);
    }
}

/// Folds the bytes `stripes` of a block's rows, V vectors at a time.
#[inline(always)]
fn xor_stripes<L: ByteLanes, const V: usize>(
    lanes: L,
    block: Block<'_>,
    stripes: Range<usize>,
    bits: Bits<'_>,
    stride: usize,
    sums: &mut [u8],
) {
    if stripes.is_empty() {
        return;
    }
    // The first entry of every table, the sum of no rows, stays zero.
    let mut tables = [[[lanes.zero(); V]; 1 << TABLE_ROWS]; TABLES];
    for at in stripes.step_by(V * L::BYTES) {
        for group in 0..block.rows / GROUP_ROWS {
            let rows = Block { bytes: block.row(group * GROUP_ROWS), ..block };
            xor_stripe(lanes, rows, at, &mut tables, &bits[group..], stride, sums);
        }
    }
}

/// Folds V vectors from byte `at` on of the first [`GROUP_ROWS`] rows.
#[inline(always)]
fn xor_stripe<L: ByteLanes, const V: usize>(
    lanes: L,
    rows: Block<'_>,
    at: usize,
    tables: &mut [[[L::Vector; V]; 1 << TABLE_ROWS]; TABLES],
    bits: Bits<'_>,
    stride: usize,
    sums: &mut [u8],
) {
    for (i, table) in tables.iter_mut().enumerate() {
        for j in 0..TABLE_ROWS {
            let row = &rows.row(i * TABLE_ROWS + j)[at..][..V * L::BYTES];
            ask_ahead(row, rows.ahead, V * L::BYTES);
            for v in 0..V {
                let row = lanes.load(&row[v * L::BYTES..]);
                // Each subset with row j is a subset without it, plus row j.
                for without in 0..1 << j {
                    table[without + (1 << j)][v] = lanes.xor(table[without][v], row);
                }
            }
        }
    }
    let bits = bits.iter().step_by(stride);
    for (word, sums) in bits.zip(sums.chunks_exact_mut(sum_bytes(rows.row_bytes))) {
        let sums = &mut sums[at..][..V * L::BYTES];
        let mut totals = [lanes.zero(); V];
        for (v, total) in totals.iter_mut().enumerate() {
            *total = lanes.load(&sums[v * L::BYTES..]);
        }
        for (i, table) in tables.iter().enumerate() {
            let subset = &table[(word >> (i * TABLE_ROWS)) as usize & ((1 << TABLE_ROWS) - 1)];
            for (total, &rows) in totals.iter_mut().zip(subset) {
                *total = lanes.xor(*total, rows);
            }
        }
        for (v, &total) in totals.iter().enumerate() {
            lanes.store(total, &mut sums[v * L::BYTES..]);
        }
    }
}

/// Kernel `sums[k] += sum of share * row` over words of W, for several keys.
///
/// The shares of key k begin at byte `k * stride` of `shares`, one for each row; its sums begin at
/// byte `k * sum_bytes(row_bytes)` of `sums`.
pub(crate) struct Sum<'a, W> {
    pub block: Block<'a>,
    pub shares: &'a [u8],
    pub stride: usize,
    pub sums: &'a mut [u8],
    pub words: PhantomData<W>,
}

impl<W: Word> RowKernel for Sum<'_, W> {
    type Output = ();

    #[inline(always)]
    fn run<L: ByteLanes>(self, lanes: L) {
        let Self { block, shares, stride, sums, .. } = self;
        let width = sum_bytes(block.row_bytes);
        let groups = sums.len().div_ceil(W::KEYS * width);
        let block_bytes = block.rows * block.row_bytes;
        for (group, sums) in sums.chunks_mut(W::KEYS * width).enumerate() {
            // If there are several groups of keys, each prefetches its part of the next block, so
            // that memory works during the computation.
            let share = block_bytes.div_ceil(groups).next_multiple_of(64);
            let next = block.bytes.as_ptr().wrapping_add(block_bytes + group * share);
            let ahead = if groups > 1 { Lines::new(next, share) } else { Lines::NONE };
            let shares = &shares[group * W::KEYS * stride..];
            // Each shape (keys times vectors) keeps all sums and the row's vectors in registers.
            match (W::KEYS, sums.len() / width) {
                (1, _) => sum_key::<L, W, 4>(lanes, block, ahead, shares, sums),
                (_, 1) => sum_key::<L, W, 8>(lanes, block, ahead, shares, sums),
                _ => sum_keys::<L, W, 2, 4>(lanes, block, &mut { ahead }, shares, stride, sums),
            }
        }
    }
}

/// Number of rows that are folded stripe by stripe if there is a single key and a row has several
/// stripes. It is so small that memory is still read in order.
const LONE_ROWS: usize = 16;

/// Folds one key over stripes of at most V vectors.
#[inline(always)]
fn sum_key<L: ByteLanes, W: Word, const V: usize>(
    lanes: L,
    block: Block<'_>,
    mut ahead: Lines,
    shares: &[u8],
    sums: &mut [u8],
) {
    let vectors = block.row_bytes.div_ceil(L::BYTES);
    let whole = vectors == 1 || block.row_bytes.is_multiple_of(L::BYTES) && [2, 4, V].contains(&vectors);
    let at_once = if whole { block.rows } else { LONE_ROWS };
    for first in (0..block.rows).step_by(at_once) {
        let rows = at_once.min(block.rows - first);
        let block = Block { bytes: block.row(first), rows, ..block };
        sum_keys::<L, W, 1, V>(lanes, block, &mut ahead, &shares[first * size_of::<W>()..], 0, sums);
    }
}

/// Folds K keys over stripes of V vectors, and the rest of the rows in narrower stripes.
#[inline(always)]
fn sum_keys<L: ByteLanes, W: Word, const K: usize, const V: usize>(
    lanes: L,
    block: Block<'_>,
    ahead: &mut Lines,
    shares: &[u8],
    stride: usize,
    sums: &mut [u8],
) {
    let wide = sum_stripes::<L, W, K, V>(lanes, block, ahead, 0, shares, stride, sums);
    let wide = sum_stripes::<L, W, K, 4>(lanes, block, ahead, wide, shares, stride, sums);
    let wide = sum_stripes::<L, W, K, 2>(lanes, block, ahead, wide, shares, stride, sums);
    for at in (wide..block.row_bytes).step_by(L::BYTES) {
        sum_stripe::<L, W, K, 1>(lanes, block, ahead, at, shares, stride, sums);
    }
}

/// Folds the stripes of V vectors that fit a row from byte `first` on; returns the end of the last
/// stripe.
#[inline(always)]
fn sum_stripes<L: ByteLanes, W: Word, const K: usize, const V: usize>(
    lanes: L,
    block: Block<'_>,
    ahead: &mut Lines,
    first: usize,
    shares: &[u8],
    stride: usize,
    sums: &mut [u8],
) -> usize {
    let end = first + (block.row_bytes - first) / (V * L::BYTES) * (V * L::BYTES);
    for at in (first..end).step_by(V * L::BYTES) {
        sum_stripe::<L, W, K, V>(lanes, block, ahead, at, shares, stride, sums);
    }
    end
}

#[inline(always)]
fn sum_stripe<L: ByteLanes, W: Word, const K: usize, const V: usize>(
    lanes: L,
    block: Block<'_>,
    ahead: &mut Lines,
    at: usize,
    shares: &[u8],
    stride: usize,
    sums: &mut [u8],
) {
    // Calls and divisions are avoided, because a stripe of few rows takes little time.
    let mut of_keys: [&[W]; K] = [&[]; K];
    for (k, of_key) in of_keys.iter_mut().enumerate() {
        *of_key = &bytemuck::cast_slice(&shares[k * stride..][..block.rows * size_of::<W>()])[..block.rows];
    }
    let mut totals = [[W::zero(lanes); V]; K];
    for row in 0..block.rows {
        let bytes = &block.row(row)[at..][..V * L::BYTES];
        for (totals, shares) in totals.iter_mut().zip(of_keys) {
            let share = W::splat(lanes, shares[row]);
            for (v, total) in totals.iter_mut().enumerate() {
                if K == 1 && v * L::BYTES % 64 == 0 {
                    ask_ahead(&bytes[v * L::BYTES..], block.ahead, L::BYTES);
                }
                ahead.ask();
                *total = W::multiply_add(lanes, *total, lanes.load(&bytes[v * L::BYTES..]), share);
            }
        }
    }
    let width = sum_bytes(block.row_bytes);
    for (k, totals) in totals.iter().enumerate() {
        let sums = &mut sums[k * width + at..][..V * L::BYTES];
        for (v, &total) in totals.iter().enumerate() {
            let sums = &mut sums[v * L::BYTES..];
            lanes.store(W::finish(lanes, total, lanes.load(sums)), sums);
        }
    }
}

/// Kernel that adds leaves to a sum by exclusive or.
pub(crate) struct XorLeaves<'a> {
    pub leaves: &'a [Leaf],
    pub sum: &'a mut Leaf,
}

impl RowKernel for XorLeaves<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: ByteLanes>(self, _: L) {
        let Self { leaves, sum } = self;
        // The sum is copied, so that it stays in registers. It is an array of words, because the
        // compiler vectorises operations on words.
        let mut total: [u64; 8] = bytemuck::cast(*sum);
        for leaf in leaves {
            let words: [u64; 8] = bytemuck::cast(*leaf);
            for (total, word) in total.iter_mut().zip(words) {
                *total ^= word;
            }
        }
        *sum = bytemuck::cast(total);
    }
}

/// Kernel that multiplies and adds words of 32 bits in registers only; returns the number of
/// products.
pub(crate) struct MultiplyAdds32 {
    pub rounds: u64,
}

impl RowKernel for MultiplyAdds32 {
    type Output = u64;

    #[inline(always)]
    fn run<L: ByteLanes>(self, lanes: L) -> u64 {
        let Self { rounds } = self;
        const SUMS: usize = 12;
        let mut sums = [lanes.splat32(3); SUMS];
        let factor = lanes.splat32(std::hint::black_box(0x9E37_79B9));
        for _ in 0..rounds {
            for sum in &mut sums {
                *sum = lanes.add32(factor, lanes.mul32(*sum, factor));
            }
        }
        let total = sums.into_iter().fold(lanes.zero(), |a, b| lanes.xor(a, b));
        let mut bytes = [0; SLACK];
        lanes.store(total, &mut bytes);
        std::hint::black_box(bytes);
        rounds * (SUMS * L::BYTES / 4) as u64
    }
}
