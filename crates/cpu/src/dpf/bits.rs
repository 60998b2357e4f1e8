//! Products of share bits and rows over GF(2), for several keys at a time.
//!
//! The share bits of eight keys for eight rows are a matrix of 8 x 8 bits. The bytes at one
//! position of these eight rows are also a matrix of 8 x 8 bits. One instruction multiplies the two
//! matrices, which gives the bytes of eight sums at this position; a vector does so for four or
//! eight bytes of a row. The instruction requires its second matrix with the bits of one column in
//! each byte. Rows stay in memory as they are, and a block of them is *sliced* into this form in
//! the caches, once for all keys.
//!
//! ```text
//! rows        a stripe of 32 bytes of each of 8 rows
//! slice       32 words, one for each byte of the stripe: bit b of the 8 rows in byte 7 - b
//! selections  a word for each 8 rows: the share bits of key k in byte k
//! sums        32 words, one for each byte of the stripe: the sum of key k in byte k
//! ```

use bytemuck::Pod;

use super::fold::{Bits, Block};
use crate::aligned::Aligned;
use crate::isa::{load, store};
use crate::prefetch::Lines;

/// Rows, columns and keys of a matrix of bits.
pub(super) const SIDE: usize = 8;
/// Bytes of a row that are sliced together.
const STRIPE: usize = 32;
/// Bytes of a block's slices, before its rows are rounded up to whole groups: a quarter of a
/// first-level cache of 32 KiB.
const SLICES_BYTES: usize = 8 << 10;
/// Minimum distance in bytes from a block to the lines that are prefetched while the block is
/// multiplied. These lines go to the second-level cache alone, since the first level has room for
/// too few outstanding lines.
const NEXT_BYTES: usize = 24 << 10;

/// Mirror matrix, with only bit 7 - k set in byte k. As the second matrix of a product, it is the
/// identity, because [`BitLanes::multiply`] counts its bytes from the last.
pub(super) const MIRROR: u64 = 0x0102_0408_1020_4080;

/// One word for each byte of a stripe.
type Slice = [u64; STRIPE];

/// Algorithm compiled for every instruction set with products of bit matrices.
pub(crate) trait BitKernel {
    /// Runs the algorithm. Implementations are `#[inline(always)]`, so that they are compiled with
    /// the caller's instructions.
    fn run<L: BitLanes>(self, lanes: L);
}

/// Operations on vectors of bit matrices, implemented by the token of an instruction set.
pub(crate) trait BitLanes: Copy {
    /// Register for products.
    type Vector: Pod;
    /// Register for slicing: the bytes of a stripe.
    type Stripe: Pod;
    /// Number of sets of eight keys whose sums of a stripe fit the registers together.
    const SETS: usize;

    /// Runs an algorithm compiled for this instruction set.
    fn run<K: BitKernel>(self, kernel: K);

    /// Returns a vector with `word` in every 64 bits.
    fn splat(self, word: u64) -> Self::Vector;
    /// Returns the exclusive or.
    fn xor(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Multiplies word by word. Each byte s of `bits` gives a byte whose bit b is the parity of s
    /// AND byte 7 - b of the same word of `matrices`.
    fn multiply(self, bits: Self::Vector, matrices: Self::Vector) -> Self::Vector;

    /// Loads eight stripes, which begin `stride` bytes apart.
    ///
    /// # Panics
    /// Panics if the last stripe reaches beyond the end of `bytes`.
    fn load_stripes(self, bytes: &[u8], stride: usize) -> [Self::Stripe; SIDE];
    /// Returns one word for each byte position of a stripe: byte r of the word is that byte of
    /// stripe r. The words are [`shuffled`].
    fn interleave(self, stripes: [Self::Stripe; SIDE]) -> [Self::Stripe; SIDE];
    /// Returns the slice of a stripe of eight rows: the words of the stripes, [`shuffled`], with
    /// bit b of row r as bit r of byte 7 - b.
    fn slice(self, rows: [Self::Stripe; SIDE]) -> [Self::Stripe; SIDE];
}

/// Returns the place of the word of byte `byte` of a stripe: vectors interleave each half of a
/// stripe by itself.
pub(super) const fn shuffled(byte: usize) -> usize {
    let (half, byte) = (byte / (STRIPE / 2), byte % (STRIPE / 2));
    byte / 2 * 4 + half * 2 + byte % 2
}

/// Buffers of a fold of sliced rows, and the keys' sums over all rows so far.
pub(crate) struct Sliced {
    /// Sets of eight keys; the last set may have fewer.
    sets: usize,
    /// Bytes of a row.
    row_bytes: usize,
    /// Slices of a block: by stripe, then by rows.
    slices: Aligned<Slice>,
    /// Selections of a block: by set, then by rows.
    selections: Aligned<Slice>,
    /// Sums: by part, then by set, then by stripe.
    sums: Aligned<Slice>,
}

impl Sliced {
    /// Returns the number of rows whose slices fill a block.
    pub fn block_rows(row_bytes: usize) -> usize {
        SLICES_BYTES / row_bytes.next_multiple_of(STRIPE)
    }

    /// Creates buffers for blocks of at most `rows` rows, with sums of zero of every key for
    /// `parts` parts.
    pub fn new(keys: usize, parts: usize, row_bytes: usize, rows: usize) -> Self {
        let (sets, stripes) = (keys.div_ceil(SIDE), row_bytes.div_ceil(STRIPE));
        Self {
            sets,
            row_bytes,
            slices: Aligned::zeros(stripes * rows / SIDE),
            selections: Aligned::zeros(sets * (rows / SIDE).div_ceil(STRIPE)),
            sums: Aligned::zeros(parts * sets * stripes),
        }
    }

    /// Adds the sums of key `key` in part `part` to a row.
    pub fn add_to(&self, key: usize, part: usize, row: &mut [u8]) {
        let stripes = self.row_bytes.div_ceil(STRIPE);
        let sums = self.sums[(part * self.sets + key / SIDE) * stripes..][..stripes].as_flattened();
        for (i, to) in row[..self.row_bytes].iter_mut().enumerate() {
            let word = sums[i / STRIPE * STRIPE + shuffled(i % STRIPE)];
            *to ^= word.to_le_bytes()[key % SIDE];
        }
    }
}

/// Kernel `sums[k] ^= XOR of rows whose bit of key k is set`, for several keys. The bits of key k
/// begin at word `k * stride` of `bits`, which also has bits for the keys that pad the last set.
/// Bits are read 256 at a time; bits after the last row have no effect.
pub(crate) struct XorSliced<'a> {
    pub block: Block<'a>,
    pub bits: Bits<'a>,
    pub stride: usize,
    /// Part of the rows.
    pub part: usize,
    pub sliced: &'a mut Sliced,
}

impl BitKernel for XorSliced<'_> {
    #[inline(always)]
    fn run<L: BitLanes>(self, lanes: L) {
        let Self { block, bits, stride, part, sliced } = self;
        let Sliced { sets, row_bytes, slices, selections, sums } = sliced;
        let (sets, stripes, groups) = (*sets, row_bytes.div_ceil(STRIPE), block.rows / SIDE);
        let chunks = groups.div_ceil(STRIPE);
        for (set, selections) in selections.chunks_exact_mut(chunks).take(sets).enumerate() {
            select(lanes, &bits[set * SIDE * stride..], stride, selections);
        }
        let mut next = Next::new(block, stripes * groups * (Next::SLICE + sets));
        slice(lanes, block, slices, &mut next);
        let sums = &mut sums[part * sets * stripes..][..sets * stripes];
        for (stripe, slices) in slices.chunks_exact(groups).take(stripes).enumerate() {
            let columns = STRIPE.min(*row_bytes - stripe * STRIPE);
            for set in (0..sets).step_by(L::SETS) {
                let selections = &selections[set * chunks..];
                let sums = &mut sums[set * stripes + stripe..];
                let product = Product { slices, selections, chunks, sums, stripes, next: &mut next };
                product.add(lanes, L::SETS.min(sets - set), columns);
            }
        }
    }
}

/// Fills the selections of eight keys with the share bits of 256 rows at a time.
#[inline(always)]
fn select<L: BitLanes>(lanes: L, bits: Bits<'_>, stride: usize, selections: &mut [Slice]) {
    let bits: &[u8] = bytemuck::cast_slice(bits);
    for (chunk, selections) in selections.iter_mut().enumerate() {
        let of_keys = lanes.load_stripes(&bits[chunk * STRIPE..], stride * size_of::<u64>());
        let words: Slice = bytemuck::cast(lanes.interleave(of_keys));
        for (i, selection) in selections.iter_mut().enumerate() {
            *selection = words[shuffled(i)];
        }
    }
}

/// Slices a block's rows, in the order of memory.
#[inline(always)]
fn slice<L: BitLanes>(lanes: L, block: Block<'_>, slices: &mut [Slice], next: &mut Next) {
    let groups = block.rows / SIDE;
    for group in 0..groups {
        let rows = block.row(group * SIDE);
        for (stripe, at) in (0..block.row_bytes).step_by(STRIPE).enumerate() {
            let of_rows = lanes.load_stripes(&rows[at..], block.row_bytes);
            slices[stripe * groups + group] = bytemuck::cast(lanes.slice(of_rows));
            next.ask(Next::SLICE);
        }
    }
}

/// Lines to prefetch while a block is sliced and multiplied, at an even pace. Otherwise memory
/// would rest during the products, and the processor's own prefetchers would begin anew with each
/// block.
struct Next {
    lines: Lines,
    /// Number of lines to prefetch, and units of work over which they are spread. A unit is the
    /// product of one stripe of eight rows for eight keys.
    count: usize,
    work: usize,
    /// Lines that are due, multiplied by `work` so that the number is whole.
    due: usize,
}

impl Next {
    /// Units of work for slicing one stripe of eight rows.
    const SLICE: usize = 3;

    /// Creates the prefetch of the lines after `block`, as many as `block` has, spread over `work`
    /// units of work.
    #[inline(always)]
    fn new(block: Block<'_>, work: usize) -> Self {
        let bytes = block.rows * block.row_bytes;
        let lines = Lines::new(block.bytes.as_ptr().wrapping_add(bytes.max(NEXT_BYTES)), bytes);
        Self { count: lines.count(), lines, work, due: 0 }
    }

    /// Prefetches the lines that are due after some more work.
    #[inline(always)]
    fn ask(&mut self, work: usize) {
        self.due += work * self.count;
        while self.due >= self.work {
            self.due -= self.work;
            self.lines.ask_second_level();
        }
    }
}

/// Product of a stripe's slices and the selections of several sets of keys.
struct Product<'a> {
    /// Slices of the stripe, by rows.
    slices: &'a [Slice],
    /// Selections from the first set on. The words for each slice are at every `chunks`-th place.
    selections: &'a [Slice],
    chunks: usize,
    /// Sums from the first set on, at every `stripes`-th place.
    sums: &'a mut [Slice],
    stripes: usize,
    next: &'a mut Next,
}

impl Product<'_> {
    /// Adds the products of `sets` sets, for the first `columns` bytes of the stripe.
    #[inline(always)]
    fn add<L: BitLanes>(self, lanes: L, sets: usize, columns: usize) {
        match sets {
            4 if L::SETS >= 4 => self.add_sets::<L, 4>(lanes, columns),
            3 if L::SETS >= 3 => self.add_sets::<L, 3>(lanes, columns),
            2 if L::SETS >= 2 => self.add_sets::<L, 2>(lanes, columns),
            _ => self.add_sets::<L, 1>(lanes, columns),
        }
    }

    #[inline(always)]
    fn add_sets<L: BitLanes, const K: usize>(mut self, lanes: L, columns: usize) {
        let words = size_of::<L::Vector>() / size_of::<u64>();
        match STRIPE / words {
            4 if columns >= STRIPE / 2 => self.add_vectors::<L, K, 4>(lanes, 0),
            8 if columns >= STRIPE / 2 => self.add_vectors::<L, K, 8>(lanes, 0),
            _ => {
                // Half of a vector's words belong to the first half of a stripe. The body is not a
                // closure, because a closure would be compiled without the caller's instruction
                // set.
                for vector in 0..columns.min(STRIPE / 2).div_ceil(words / 2) {
                    self.add_vectors::<L, K, 1>(lanes, vector * words);
                }
            }
        }
    }

    /// Adds the products of K sets for V vectors of the stripe, from word `at` of a slice on.
    #[inline(always)]
    fn add_vectors<L: BitLanes, const K: usize, const V: usize>(&mut self, lanes: L, at: usize) {
        let words = size_of::<L::Vector>() / size_of::<u64>();
        let pairs = self.slices.as_chunks::<2>().0;
        let mut selections: [&[[u64; 2]]; K] = [&[]; K];
        for (k, of_set) in selections.iter_mut().enumerate() {
            *of_set = &self.selections[k * self.chunks..].as_flattened().as_chunks().0[..pairs.len()];
        }
        let mut totals = [[lanes.splat(0); V]; K];
        for (k, totals) in totals.iter_mut().enumerate() {
            for (v, total) in totals.iter_mut().enumerate() {
                *total = load(&self.sums[k * self.stripes][at + v * words..]);
            }
        }
        for (i, slices) in pairs.iter().enumerate() {
            self.next.ask(2 * K);
            for v in 0..V {
                let rows = [load(&slices[0][at + v * words..]), load(&slices[1][at + v * words..])];
                for (totals, of_set) in totals.iter_mut().zip(selections) {
                    let [first, second] = of_set[i];
                    let first = lanes.multiply(lanes.splat(first), rows[0]);
                    let second = lanes.multiply(lanes.splat(second), rows[1]);
                    totals[v] = lanes.xor(totals[v], lanes.xor(first, second));
                }
            }
        }
        for (k, totals) in totals.iter().enumerate() {
            for (v, &total) in totals.iter().enumerate() {
                store(total, &mut self.sums[k * self.stripes][at + v * words..]);
            }
        }
    }
}
