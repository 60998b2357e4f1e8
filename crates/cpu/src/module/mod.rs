//! `module_fold`: the database times a public matrix of ring structure, by number-theoretic
//! transforms.
//!
//! Row r of the database is cut into bytes d_i of 256 columns. Ring column j of the result is H =
//! sum over i of d_i^T M(a_ij). With `d^T M(a) = d(X) a(X^-1)` in Z\[X\]/(X^256 + 1) each term is a
//! product of polynomials. The sum is taken between the transforms. This needs one forward
//! transform for each d_i, one multiplication for each of its 256 values and each j, and one
//! inverse transform for each row and j.
//!
//! # Four small primes
//! The integer result is recovered from residues modulo four primes of 14 bits ([`primes`]), not
//! two of 29 bits, for two reasons:
//!
//! - Residues of 14 bits fit 16-bit lanes, whose products every vector unit computes directly
//!   (`pmullw`, `pmulhw` since SSE2). Lanes of 32 bits have no high product before AVX-512, and a
//!   slow low one.
//! - `pmaddwd` multiplies residues of two blocks and adds both products in one instruction.
//!
//! This makes transforms and products about twice as fast, and equally exact.
//!
//! # Lanes
//! A 32-bit lane is a row, as in the panel layout. Its low half works on block 2p, its high half on
//! block 2p + 1. Both do the same transform with the same constants, and `pmaddwd` adds up the two
//! halves. No step ever moves a value to another lane.
//!
//! # Why the result is exact
//! Bytes are centred to [-128, 127] and coefficients to [-2^31, 2^31), so the integer sum over c
//! columns has a magnitude of at most c 2^38. Four primes recover integers of magnitude below Q/2 =
//! 2^53.2. A chunk has [`CHUNK_BLOCKS`] = 128 blocks, which are 2^15 columns, so its sum is at most
//! 2^53. Longer rows are folded a chunk at a time, and the chunks are added modulo 2^32. Centring
//! subtracts 128 from every byte. To correct the result, 128 times the column sums of the public
//! matrix are added, which are the same for every row.

mod lanes;
mod ntt;
mod prepare;
mod primes;
mod rows;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(any(test, not(target_arch = "x86_64")))]
mod portable;
#[cfg(target_arch = "x86_64")]
mod sse2;

#[cfg(test)]
mod tests;

use rayon::prelude::*;
use spirea_backend::{PANEL_ROWS, PanelLayout, RING_DEGREE, RingMatrix};

use crate::fold::Quad;
use crate::parallel::Each as _;
pub(crate) use lanes::PairLanes;
use prepare::Prepared;
use rows::{Rows, Scratch};

/// Maximum number of blocks of 256 columns whose sum four primes can recover.
pub(crate) const CHUNK_BLOCKS: usize = 128;

// |sum| <= CHUNK_BLOCKS * 256 * 128 * 2^31, and rounding in `Recombination` needs a margin.
const _: () = assert!(
    (CHUNK_BLOCKS as u128 * RING_DEGREE as u128 * (128u128 << 31)) * 20 <= primes::PRODUCT / 2 * 19,
    "a chunk's integers stay within 95% of the range"
);

/// The algorithm, compiled for an instruction set.
pub(crate) trait ModuleKernel: PairLanes + Send + Sync + 'static {
    /// Adds the product of some rows and a chunk of the public matrix to the rows of the result.
    fn fold_rows(self, rows: Rows<'_, Self::Vector>);
}

/// Multiplies the database by the public matrix, row by row, on the current thread pool,
/// `chunk_blocks` blocks of columns at a time.
pub(crate) fn module_fold<K: ModuleKernel>(
    kernel: K,
    quads: &[Quad],
    layout: PanelLayout,
    a: RingMatrix<'_>,
    chunk_blocks: usize,
) -> Vec<u32> {
    assert!((1..=CHUNK_BLOCKS).contains(&chunk_blocks), "more blocks than the primes recover");
    let width = a.rank * RING_DEGREE;
    let prepared = Prepared::new(a, chunk_blocks);
    let mut hint = vec![0; layout.rows() * width];
    let groups = PANEL_ROWS / K::LANES;
    hint.par_chunks_mut(K::LANES * width).enumerate().each_with(&|| Scratch::new(kernel, a.rank), &|scratch,
                                                                                                    (
        group,
        hint,
    )| {
        let panel = &quads[group / groups * layout.quads()..][..layout.quads()];
        let first_row = group % groups * K::LANES;
        for chunk in 0..prepared.chunks() {
            kernel.fold_rows(Rows { prepared: &prepared, chunk, panel, first_row, scratch, hint });
        }
    });
    hint
}
