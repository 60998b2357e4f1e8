//! Fold of the rows of one vector, from the database's bytes to the result.

use spirea_backend::{QUAD, QUAD_BYTES, RING_DEGREE};

use super::PairLanes;
use super::ntt;
use super::prepare::{Prepared, RUN_PAIRS, Run, tiles};
use super::primes::{COUNT, Prime, Recombination};
use crate::fold::Quad;
use crate::prefetch::prefetch;

/// Vectors from one transform to the next: two more than a transform has, so that the same word of
/// all transforms does not fall into one set of the first-level cache.
const STRIDE: usize = RING_DEGREE + 2;

/// Working memory of one thread.
pub(crate) struct Scratch<V> {
    /// Words of one pair of blocks.
    words: Vec<V>,
    /// For each prime: the transforms of the run's pairs.
    values: [Vec<V>; COUNT],
    /// For each prime: sum k of ring column j is at `k * rank + j`.
    sums: [Vec<V>; COUNT],
    /// For one prime at a time: the result of two ring columns.
    results: Vec<V>,
}

impl<V: Copy> Scratch<V> {
    pub(super) fn new<L: PairLanes<Vector = V>>(lanes: L, rank: usize) -> Self {
        let zero = lanes.splat(0);
        Self {
            words: vec![zero; RING_DEGREE],
            values: std::array::from_fn(|_| vec![zero; RUN_PAIRS * STRIDE]),
            sums: std::array::from_fn(|_| vec![zero; RING_DEGREE * rank]),
            results: vec![zero; COUNT * RING_DEGREE],
        }
    }
}

/// Operands: the rows of one vector, and a chunk of the public matrix.
pub(crate) struct Rows<'a, V> {
    /// The public matrix.
    pub prepared: &'a Prepared,
    /// Number of the chunk of the public matrix.
    pub chunk: usize,
    /// The panel that contains the rows.
    pub panel: &'a [Quad],
    /// Number of the first row within the panel.
    pub first_row: usize,
    /// Working memory of the thread.
    pub scratch: &'a mut Scratch<V>,
    /// The result's rows for these rows.
    pub hint: &'a mut [u32],
}

/// Implements [`super::ModuleKernel::fold_rows`].
#[inline(always)]
pub(super) fn fold_rows<L: PairLanes>(
    lanes: L,
    Rows { prepared, chunk, panel, first_row, scratch, hint }: Rows<'_, L::Vector>,
) {
    let rank = prepared.rank;
    for sums in &mut scratch.sums {
        sums.fill(lanes.splat(0));
    }
    for run in &prepared.chunks[chunk].runs {
        for pair in 0..run.pairs() {
            unpack(lanes, run, pair, panel, first_row, &mut scratch.words);
            for (values, tables) in scratch.values.iter_mut().zip(&prepared.tables) {
                ntt::forward(lanes, tables, &scratch.words, &mut values[pair * STRIDE..][..RING_DEGREE]);
            }
        }
        for (i, tables) in prepared.tables.iter().enumerate() {
            let (values, sums) = (&scratch.values[i], &mut scratch.sums[i]);
            multiply_run(lanes, &tables.prime, run.pairs(), &run.values[i], rank, values, sums);
        }
    }
    for j in (0..rank).step_by(2) {
        for (i, tables) in prepared.tables.iter().enumerate() {
            let results = &mut scratch.results[i * RING_DEGREE..][..RING_DEGREE];
            take_pair(lanes, &tables.prime, &scratch.sums[i], rank, j, results);
            ntt::inverse(lanes, tables, results);
        }
        recombine(lanes, prepared, chunk == 0, j, &scratch.results, hint);
    }
}

/// Unpacks the centred bytes of two blocks: word c has column c of the first block in its low
/// halves and of the second block in its high halves.
#[inline(always)]
fn unpack<L: PairLanes>(
    lanes: L,
    run: &Run,
    pair: usize,
    panel: &[Quad],
    first_row: usize,
    words: &mut [L::Vector],
) {
    const QUADS: usize = RING_DEGREE / QUAD;
    let centre = lanes.splat(0x8080_8080);
    let block = run.block + 2 * pair;
    let first = &panel[block * QUADS..(block + 1) * QUADS];
    // A missing second block is multiplied by zeros of the public matrix, so any bytes may stand
    // here.
    let second =
        if 2 * pair + 1 < run.blocks { &panel[(block + 1) * QUADS..(block + 2) * QUADS] } else { first };
    for (words, (first, second)) in words.chunks_exact_mut(QUAD).zip(first.iter().zip(second)) {
        // The next pair's bytes follow those of this pair; the transforms leave time to fetch them.
        for quad in [first, second] {
            prefetch(quad.as_ptr().wrapping_add(2 * QUADS * QUAD_BYTES + QUAD * first_row));
        }
        let a = lanes.xor(lanes.load(first, first_row), centre);
        let b = lanes.xor(lanes.load(second, first_row), centre);
        (words[0], words[2]) = lanes.transpose(lanes.low_bytes(a), lanes.low_bytes(b));
        (words[1], words[3]) = lanes.transpose(lanes.high_bytes(a), lanes.high_bytes(b));
    }
}

/// Adds the products of a run, over all ring columns, to `sums`.
#[inline(always)]
fn multiply_run<L: PairLanes>(
    lanes: L,
    prime: &Prime,
    pairs: usize,
    public: &[u32],
    rank: usize,
    values: &[L::Vector],
    sums: &mut [L::Vector],
) {
    let values = &values[..pairs * STRIDE];
    let mut rest = public;
    for tile in tiles(rank) {
        let (public, others) = rest.split_at(tile.len() * RING_DEGREE * pairs);
        rest = others;
        match tile.len() {
            1 => multiply_tile::<L, 1>(lanes, prime, public, rank, tile.start, values, sums),
            2 => multiply_tile::<L, 2>(lanes, prime, public, rank, tile.start, values, sums),
            3 => multiply_tile::<L, 3>(lanes, prime, public, rank, tile.start, values, sums),
            4 => multiply_tile::<L, 4>(lanes, prime, public, rank, tile.start, values, sums),
            _ => multiply_tile::<L, 5>(lanes, prime, public, rank, tile.start, values, sums),
        }
    }
}

/// Adds the products of all pairs of the run, for the ring columns from `first` to `first + R`, in
/// registers.
#[inline(always)]
fn multiply_tile<L: PairLanes, const R: usize>(
    lanes: L,
    prime: &Prime,
    public: &[u32],
    rank: usize,
    first: usize,
    values: &[L::Vector],
    sums: &mut [L::Vector],
) {
    let pairs = values.len() / STRIDE;
    let public = public.as_chunks::<R>().0.chunks_exact(pairs);
    for (k, (public, sums)) in public.zip(sums.chunks_exact_mut(rank)).enumerate().take(RING_DEGREE) {
        let mut totals = [lanes.splat(0); R];
        for (values, public) in values.chunks_exact(STRIDE).zip(public) {
            for (total, &word) in totals.iter_mut().zip(public) {
                *total = lanes.multiply_add(*total, values[k], lanes.splat(word));
            }
        }
        for (sum, total) in sums[first..first + R].iter_mut().zip(totals) {
            *sum = lanes.add_lanes(*sum, reduce_sum(lanes, prime, total));
        }
    }
}

/// Returns a 32-bit sum times 2^-16, mod q: up to |sum| / 2^16 + q / 2 in magnitude.
#[inline(always)]
fn reduce_sum<L: PairLanes>(lanes: L, prime: &Prime, sum: L::Vector) -> L::Vector {
    // The low half of `t` is that of sum / q, and its high half is 0. So t q is congruent to the
    // sum modulo 2^16.
    let t = lanes.mul_low(sum, lanes.splat(prime.inverse_low));
    let multiple = lanes.multiply_add(lanes.splat(0), t, lanes.splat(prime.q_low));
    lanes.shift_right::<16>(lanes.sub_lanes(sum, multiple))
}

/// Combines ring columns j and j + 1 in the two halves of a lane; column j + 1 may be missing.
#[inline(always)]
fn take_pair<L: PairLanes>(
    lanes: L,
    prime: &Prime,
    sums: &[L::Vector],
    rank: usize,
    j: usize,
    results: &mut [L::Vector],
) {
    for (result, sums) in results.iter_mut().zip(sums.chunks_exact(rank)) {
        // Each of at most 8 runs added up to 2^15 + q/2, so this second reduction leaves little
        // more than q / 2.
        let low = reduce_sum(lanes, prime, sums[j]);
        let high = reduce_sum(lanes, prime, sums[(j + 1).min(rank - 1)]);
        *result = lanes.transpose(low, high).0;
    }
}

/// Adds ring columns j and j + 1 to the rows of the result.
#[inline(always)]
fn recombine<L: PairLanes>(
    lanes: L,
    prepared: &Prepared,
    first_chunk: bool,
    j: usize,
    results: &[L::Vector],
    hint: &mut [u32],
) {
    const MOST_LANES: usize = 16;
    let width = prepared.rank * RING_DEGREE;
    let second = j + 1 < prepared.rank;
    let mut words = [[0u32; RING_DEGREE * MOST_LANES]; 2];
    for k in 0..RING_DEGREE {
        let of = |i: usize| results[i * RING_DEGREE + k];
        let (y01, z01) = lanes.transpose(of(0), of(1));
        let (y23, z23) = lanes.transpose(of(2), of(3));
        let here = k * L::LANES;
        lanes.store(Recombination::join(lanes, [y01, y23]), &mut words[0][here..]);
        lanes.store(Recombination::join(lanes, [z01, z23]), &mut words[1][here..]);
    }
    for (half, words) in words.iter().enumerate().take(1 + usize::from(second)) {
        let first = (j + half) * RING_DEGREE;
        let offset = &prepared.offset[first..first + RING_DEGREE];
        for lane in 0..L::LANES {
            let row = &mut hint[lane * width + first..][..RING_DEGREE];
            add_lane(row, &words[lane..], L::LANES, first_chunk.then_some(offset));
        }
    }
}

/// Adds every `lanes`-th word to `row`, and the offset if there is one.
///
/// The function is compiled separately, for the target's baseline. For words a vector apart, gather
/// instructions are no faster than plain loads, and some emulators compute them wrongly.
#[inline(never)]
fn add_lane(row: &mut [u32], words: &[u32], lanes: usize, offset: Option<&[u32]>) {
    for (to, &word) in row.iter_mut().zip(words.iter().step_by(lanes)) {
        *to = to.wrapping_add(word);
    }
    for (to, &offset) in row.iter_mut().zip(offset.unwrap_or_default()) {
        *to = to.wrapping_add(offset);
    }
}
