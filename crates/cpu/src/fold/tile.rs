//! The register tile: a block of one panel times a few queries, all sums in registers.

use std::hint::black_box;

use spirea_backend::{PANEL_ROWS, QUAD_BYTES};

use super::{Operand, PanelSums, Quad, RowLanes};
use crate::prefetch::{Lines, prefetch, reread};

/// What a tile computes: a block of a panel times some query columns, as many as there are sums to add to.
pub(crate) struct Tile<'a> {
    /// The block.
    pub block: &'a [Quad],
    /// What is asked for meanwhile.
    pub ahead: Lines,
    /// By quad, then by query.
    pub operands: &'a [Operand],
    /// Of each query.
    pub sums: &'a mut [PanelSums],
}

/// Computes a tile of `Q` queries, `V` vectors of rows at a time. Lines are asked for evenly.
///
/// `Q * V * DIGITS` sums stay in registers. A loaded vector of the database meets the digits of all `Q`
/// queries and a broadcast digit meets all `V` vectors. `U` quads are handled at a time with sums of
/// their own: where a tile is small, that makes the chains of dependent additions many enough.
#[inline(always)]
pub(super) fn fold_tile<L: RowLanes, const V: usize, const Q: usize, const U: usize>(
    lanes: L,
    Tile { block, mut ahead, operands, sums }: Tile<'_>,
) {
    const { assert!(PANEL_ROWS.is_multiple_of(V * L::LANES) && U > 0) };
    assert!(operands.len() == block.len() * Q && sums.len() == Q);
    let each = ahead.count().div_ceil(block.len().max(1));
    for first_row in (0..PANEL_ROWS).step_by(V * L::LANES) {
        let mut partial = [[[[lanes.zero(); 4]; V]; Q]; U];
        let mut quads = block.chunks_exact(U);
        let mut words = operands.chunks_exact(U * Q);
        for (quads, words) in quads.by_ref().zip(words.by_ref()) {
            for u in 0..U {
                (0..each).for_each(|_| ahead.ask());
                let words = &words[u * Q..(u + 1) * Q];
                accumulate::<L, V, Q>(lanes, &quads[u], words, first_row, &mut partial[u]);
            }
        }
        for (quad, words) in quads.remainder().iter().zip(words.remainder().chunks_exact(Q)) {
            (0..each).for_each(|_| ahead.ask());
            accumulate::<L, V, Q>(lanes, quad, words, first_row, &mut partial[0]);
        }
        for q in 0..Q {
            for v in 0..V {
                let mut total = join_digits(lanes, partial[0][q][v]);
                for more in &partial[1..] {
                    total = lanes.join::<0>(total, join_digits(lanes, more[q][v]));
                }
                lanes.add_to(total, &mut sums[q], first_row + v * L::LANES);
            }
        }
    }
}

/// Computes a tile of 1 to 3 queries: a lone one `V` vectors of rows and `U` quads at a time.
#[inline(always)]
pub(super) fn fold_up_to_3<L: RowLanes, const V: usize, const U: usize>(lanes: L, tile: Tile<'_>) {
    match tile.sums.len() {
        1 => fold_tile::<L, V, 1, U>(lanes, tile),
        2 => fold_tile::<L, 2, 2, 1>(lanes, tile),
        3 => fold_tile::<L, 2, 3, 1>(lanes, tile),
        _ => unreachable!("a tile has 1 to 3 queries"),
    }
}

/// One quad of columns times `Q` queries.
#[inline(always)]
fn accumulate<L: RowLanes, const V: usize, const Q: usize>(
    lanes: L,
    quad: &Quad,
    words: &[Operand],
    first_row: usize,
    partial: &mut [[[L::Vector; 4]; V]; Q],
) {
    for phase in 0..L::PHASES {
        let quad = if phase > 0 { reread(quad) } else { quad };
        let mut columns = [lanes.zero(); V];
        for (v, columns) in columns.iter_mut().enumerate() {
            *columns = lanes.load(quad, first_row + v * L::LANES, phase);
        }
        for q in 0..Q {
            for k in 0..L::DIGITS {
                let digits = lanes.splat(words[q][phase * L::DIGITS + k]);
                for v in 0..V {
                    partial[q][v][k] = lanes.multiply_add(partial[q][v][k], columns[v], digits);
                }
            }
        }
    }
}

/// Adds up all words of `quads` that a phase's load can see: what it costs to read them and no more.
#[inline(always)]
pub(super) fn read<L: RowLanes>(lanes: L, quads: &[Quad], ahead: usize) -> u32 {
    let mut sums = [lanes.zero(); 8];
    for quad in quads {
        for line in (0..QUAD_BYTES).step_by(64) {
            prefetch(quad.as_ptr().wrapping_add(ahead + line));
        }
        for (v, row) in (0..PANEL_ROWS).step_by(L::LANES).enumerate() {
            sums[v % 8] = lanes.join::<0>(sums[v % 8], lanes.load(quad, row, 0));
        }
    }
    let mut rows = [0; PANEL_ROWS];
    for sum in sums {
        lanes.add_to(sum, &mut rows, 0);
    }
    rows.iter().fold(0, |sum, &row| sum.wrapping_add(row))
}

/// The sum over digits k of `sums[k] * 2^(8 PHASES k)`.
#[inline(always)]
fn join_digits<L: RowLanes>(lanes: L, sums: [L::Vector; 4]) -> L::Vector {
    match L::DIGITS {
        1 => sums[0],
        2 => lanes.join::<16>(sums[0], sums[1]),
        _ => lanes.join::<16>(lanes.join::<8>(sums[0], sums[1]), lanes.join::<8>(sums[2], sums[3])),
    }
}

/// A register tile compiled for an instruction set.
pub(crate) trait Microkernel: RowLanes + Send + Sync + 'static {
    /// Most queries in a tile: as many as the registers hold sums for.
    const TILE: usize;

    /// Computes a tile of 1 to `TILE` queries.
    fn fold(self, tile: Tile<'_>);

    /// Reads all quads with full-width loads, asking `ahead` bytes in advance, and returns some sum of them:
    /// the ceiling of a scan.
    fn read(self, quads: &[Quad], ahead: usize) -> u32;

    /// Multiplies and adds, as the tile does, for a number of rounds; returns the number of products of a
    /// byte and a word. For the kernels with an instruction of their own it does nothing else: the ceiling
    /// of the arithmetic.
    fn multiply_adds(self, rounds: u64) -> u64 {
        tile_from_cache(self, rounds)
    }
}

/// The tile of `kernel` over operands in the first-level cache; returns the number of products.
fn tile_from_cache<K: Microkernel>(kernel: K, iterations: u64) -> u64 {
    const QUADS: usize = 64;
    let block = vec![[1u8; QUAD_BYTES] as Quad; QUADS];
    let operands = vec![[3; 4]; QUADS * K::TILE];
    let mut sums = vec![[0; PANEL_ROWS]; K::TILE];
    for _ in 0..iterations {
        let (block, operands) = (black_box(&block[..]), black_box(&operands[..]));
        kernel.fold(Tile { block, ahead: Lines::NONE, operands, sums: &mut sums });
    }
    black_box(sums);
    iterations * (QUADS * QUAD_BYTES * K::TILE) as u64
}
