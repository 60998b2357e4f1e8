//! The public matrix, transformed once for all rows.

use std::ops::Range;

use rayon::prelude::*;
use spirea_backend::{RING_DEGREE, RingMatrix};
use spirea_math::NttPlan;

use super::ntt::{OUTPUT_BOUND, Tables};
use super::primes::{COUNT, PRIMES, Recombination, centred};

/// Maximum number of pairs of blocks whose products are added up in 32 bits before a reduction.
pub(super) const RUN_PAIRS: usize = 8;

// Each pair adds two products of a transformed word and a centred residue.
const _: () = assert!(
    RUN_PAIRS as i64 * 2 * OUTPUT_BOUND * (PRIMES[0].value() as i64 / 2) < 1 << 31,
    "a run overflows"
);

/// Maximum number of ring columns whose sums stay in registers together.
const MAX_TILE: usize = 5;

/// Iterates over the ring columns of each tile.
pub(super) fn tiles(rank: usize) -> impl Iterator<Item = Range<usize>> {
    (0..rank).step_by(MAX_TILE).map(move |first| first..rank.min(first + MAX_TILE))
}

/// Values that all rows share.
pub(crate) struct Prepared {
    pub(super) rank: usize,
    pub(super) tables: Vec<Tables>,
    pub(super) chunks: Vec<Chunk>,
    /// 128 times the column sums of the public matrix.
    pub(super) offset: Vec<u32>,
}

/// Blocks folded with one inverse transform at the end.
pub(super) struct Chunk {
    pub runs: Vec<Run>,
}

/// Run of at most [`RUN_PAIRS`] pairs of blocks.
pub(super) struct Run {
    /// Number of the first block.
    pub block: usize,
    /// Number of blocks; the last pair's second block may be missing.
    pub blocks: usize,
    /// For each prime, tile by tile ([`tiles`]): value k of pair p for the tile's ring column j is
    /// the lane at `(k * pairs + p) * R + j`, with block 2p in the low half and block 2p + 1 in the
    /// high half.
    pub values: [Vec<u32>; COUNT],
}

impl Run {
    pub(super) fn pairs(&self) -> usize {
        self.blocks.div_ceil(2)
    }
}

impl Prepared {
    /// Transforms `a`, in chunks of `chunk_blocks` blocks.
    pub(super) fn new(a: RingMatrix<'_>, chunk_blocks: usize) -> Self {
        let plans: Vec<NttPlan> = PRIMES.iter().map(|&q| NttPlan::new(q, RING_DEGREE)).collect();
        let chunks = (0..a.block_rows)
            .step_by(chunk_blocks)
            .map(|first| {
                let end = (first + chunk_blocks).min(a.block_rows);
                let starts: Vec<usize> = (first..end).step_by(2 * RUN_PAIRS).collect();
                let run = |&block: &usize| Run::new(&plans, a, block, (end - block).min(2 * RUN_PAIRS));
                Chunk { runs: starts.par_iter().map(run).collect() }
            })
            .collect();
        Self { rank: a.rank, tables: plans.iter().map(Tables::new).collect(), chunks, offset: offset(a) }
    }

    pub(super) fn chunks(&self) -> usize {
        self.chunks.len()
    }
}

impl Run {
    fn new(plans: &[NttPlan], a: RingMatrix<'_>, block: usize, blocks: usize) -> Self {
        let pairs = blocks.div_ceil(2);
        let mut values = [const { Vec::new() }; COUNT];
        for (i, (values, plan)) in values.iter_mut().zip(plans).enumerate() {
            let q = plan.modulus();
            // Sums are divided by 2^16 twice (`rows::reduce_sum`), the inverse transform multiplies
            // by 256, and recombination needs its own factor: the public matrix is scaled by all of
            // these in advance.
            let scale = q.mul(q.pow(1 << 16, 2), plan.degree_inverse().value);
            let scale = q.shoup(q.mul(scale, Recombination::scale(i)));
            *values = vec![0; RING_DEGREE * pairs * a.rank];
            let mut residues = [0; RING_DEGREE];
            for (offset, tile) in (0..blocks).flat_map(|offset| tiles(a.rank).map(move |tile| (offset, tile)))
            {
                let of_tile = &mut values[tile.start * RING_DEGREE * pairs..];
                for j in tile.clone() {
                    let polynomial =
                        &a.coefficients[((block + offset) * a.rank + j) * RING_DEGREE..][..RING_DEGREE];
                    reversed(polynomial, |c| q.from_signed(c), &mut residues);
                    plan.forward(&mut residues);
                    for (k, &residue) in residues.iter().enumerate() {
                        let value = centred(q.reduce_lazy(q.mul_lazy(residue, scale)), q);
                        let lane = &mut of_tile[(k * pairs + offset / 2) * tile.len() + j - tile.start];
                        *lane |= u32::from(value as u16) << (16 * (offset % 2));
                    }
                }
            }
        }
        Self { block, blocks, values }
    }
}

/// Writes a(X^-1) = a_0 - a_255 X - a_254 X^2 - ..., with each centred coefficient mapped by `map`.
fn reversed(a: &[u32], map: impl Fn(i64) -> u32, to: &mut [u32; RING_DEGREE]) {
    to[0] = map(i64::from(a[0] as i32));
    for (to, &from) in to[1..].iter_mut().zip(a[1..].iter().rev()) {
        *to = map(-i64::from(from as i32));
    }
}

/// Returns 128 times the column sums: column l of M(a) sums to a_0 + ... + a_(255 - l) - a_(256 -
/// l) - ... - a_255.
fn offset(a: RingMatrix<'_>) -> Vec<u32> {
    let mut offset = vec![0u32; a.rank * RING_DEGREE];
    for (i, polynomial) in a.coefficients.chunks_exact(RING_DEGREE).enumerate() {
        let columns = &mut offset[i % a.rank * RING_DEGREE..][..RING_DEGREE];
        let mut sum = polynomial.iter().fold(0u32, |sum, &c| sum.wrapping_add(c));
        for (column, &leaving) in columns.iter_mut().zip(polynomial.iter().rev()) {
            *column = column.wrapping_add(sum.wrapping_mul(128));
            sum = sum.wrapping_sub(leaving.wrapping_mul(2));
        }
    }
    offset
}
