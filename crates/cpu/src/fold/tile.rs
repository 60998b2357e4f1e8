//! The register tile: the product of a block of one or two panels and a few queries, with all sums
//! in registers.

use std::hint::black_box;

use spirea_backend::{PANEL_ROWS, QUAD_BYTES};

use super::{Operand, PanelSums, Quad, RowLanes};
use crate::prefetch::{Lines, prefetch, reread};

/// Operands of a tile: one block of each of `P` panels, all with the same columns, and some query
/// columns.
pub(crate) struct Tile<'a, const P: usize> {
    /// The blocks.
    pub blocks: [&'a [Quad]; P],
    /// Lines to prefetch while the tile is computed.
    pub ahead: [Lines; P],
    /// Operands by quad, then by query.
    pub operands: &'a [Operand],
    /// Sums of each panel and each query.
    pub sums: &'a mut [PanelSums],
}

/// Computes a tile of `Q` queries, `V` vectors of rows at a time. Prefetches are spread evenly.
///
/// `P * Q * V * DIGITS` sums stay in registers. A loaded vector of the database is multiplied by
/// the digits of all `Q` queries, and a broadcast digit by all `P * V` vectors. `U` quads are
/// processed at a time with separate sums: in a small tile this gives enough independent chains of
/// additions.
#[inline(always)]
pub(super) fn fold_tile<L: RowLanes, const P: usize, const V: usize, const Q: usize, const U: usize>(
    lanes: L,
    Tile { blocks, mut ahead, operands, sums }: Tile<'_, P>,
) {
    const { assert!(PANEL_ROWS.is_multiple_of(V * L::LANES) && U > 0) };
    let length = operands.len() / Q;
    assert!(operands.len() == length * Q && sums.len() == P * Q);
    let (words, last_words) = operands.as_chunks::<Q>().0.as_chunks::<U>();
    let quads = blocks.map(|block| &block[..length].as_chunks::<U>().0[..words.len()]);
    let last_quads = blocks.map(|block| &block[words.len() * U..length]);
    let each = ahead[0].count().div_ceil(length.max(1));
    for first_row in (0..PANEL_ROWS).step_by(V * L::LANES) {
        let mut partial = [[[[[lanes.zero(); 4]; V]; Q]; P]; U];
        for (i, words) in words.iter().enumerate() {
            for u in 0..U {
                for p in 0..P {
                    (0..each).for_each(|_| ahead[p].ask());
                    accumulate::<L, V, Q>(lanes, &quads[p][i][u], &words[u], first_row, &mut partial[u][p]);
                }
            }
        }
        for (i, words) in last_words.iter().enumerate() {
            for p in 0..P {
                (0..each).for_each(|_| ahead[p].ask());
                accumulate::<L, V, Q>(lanes, &last_quads[p][i], words, first_row, &mut partial[0][p]);
            }
        }
        for p in 0..P {
            for q in 0..Q {
                for v in 0..V {
                    let mut total = join_digits(lanes, partial[0][p][q][v]);
                    for more in &partial[1..] {
                        total = lanes.join::<0>(total, join_digits(lanes, more[p][q][v]));
                    }
                    lanes.add_to(total, &mut sums[p * Q + q], first_row + v * L::LANES);
                }
            }
        }
    }
}

/// Computes a tile of 1 to 3 queries; for a single query, processes `V` vectors of rows and `U`
/// quads at a time.
#[inline(always)]
pub(super) fn fold_up_to_3<L: RowLanes, const V: usize, const U: usize>(lanes: L, tile: Tile<'_, 1>) {
    match tile.sums.len() {
        1 => fold_tile::<L, 1, V, 1, U>(lanes, tile),
        2 => fold_tile::<L, 1, 2, 2, 1>(lanes, tile),
        3 => fold_tile::<L, 1, 2, 3, 1>(lanes, tile),
        _ => unreachable!("a tile has 1 to 3 queries"),
    }
}

/// Multiplies one quad of columns by `Q` queries.
#[inline(always)]
fn accumulate<L: RowLanes, const V: usize, const Q: usize>(
    lanes: L,
    quad: &Quad,
    words: &[Operand; Q],
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

/// Adds up the words of `quads` as the loads of phase 0 return them, to measure the cost of reading
/// alone.
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

/// Returns the sum over digits k of `sums[k] * 2^(8 PHASES k)`.
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
    /// Maximum number of queries in a tile, limited by the registers for sums.
    const TILE: usize;

    /// Computes a tile of 1 to `TILE` queries.
    fn fold(self, tile: Tile<'_, 1>);

    /// Computes a tile of one query and two panels.
    fn fold_pair(self, Tile { blocks, ahead, operands, sums }: Tile<'_, 2>) {
        for ((block, ahead), sums) in blocks.into_iter().zip(ahead).zip(sums.chunks_mut(1)) {
            self.fold(Tile { blocks: [block], ahead: [ahead], operands, sums });
        }
    }

    /// Reads all quads with full-width loads, prefetching `ahead` bytes in advance, and returns a
    /// sum over them. Its speed is the ceiling of a scan.
    fn read(self, quads: &[Quad], ahead: usize) -> u32;

    /// Multiplies and adds, as the tile does, for a number of rounds; returns the number of
    /// products of a byte and a word. Kernels that have an instruction for this run nothing else,
    /// so their speed is the ceiling of the arithmetic.
    fn multiply_adds(self, rounds: u64) -> u64 {
        tile_from_cache(self, rounds)
    }
}

/// Runs the tile of `kernel` over operands in the first-level cache; returns the number of
/// products.
fn tile_from_cache<K: Microkernel>(kernel: K, iterations: u64) -> u64 {
    const QUADS: usize = 64;
    let block = vec![[1u8; QUAD_BYTES] as Quad; QUADS];
    let operands = vec![[3; 4]; QUADS * K::TILE];
    let mut sums = vec![[0; PANEL_ROWS]; K::TILE];
    for _ in 0..iterations {
        let (block, operands) = (black_box(&block[..]), black_box(&operands[..]));
        kernel.fold(Tile { blocks: [block], ahead: [Lines::NONE], operands, sums: &mut sums });
    }
    black_box(sums);
    iterations * (QUADS * QUAD_BYTES * K::TILE) as u64
}
