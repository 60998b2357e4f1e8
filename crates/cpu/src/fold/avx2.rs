//! AVX2: `vpmaddwd` multiplies pairs of columns by pairs of 16-bit digits; 8 rows a vector.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::tile::{Tile, fold_tile, read};
use super::{Microkernel, PanelSums, Quad, RowLanes};
use crate::isa::Avx2;

impl RowLanes for Avx2 {
    type Vector = __m256i;
    const LANES: usize = 8;
    const PHASES: usize = 2;

    #[inline(always)]
    fn zero(self) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_setzero_si256() }
    }

    #[inline(always)]
    fn load(self, quad: &Quad, first_row: usize, phase: usize) -> __m256i {
        let rows = &quad[4 * first_row..4 * first_row + 32];
        // SAFETY: `self` proves AVX2; the slice has 32 bytes.
        unsafe {
            let bytes = _mm256_loadu_si256(rows.as_ptr().cast());
            if phase == 0 {
                _mm256_and_si256(bytes, _mm256_set1_epi16(0xFF))
            } else {
                _mm256_srli_epi16::<8>(bytes)
            }
        }
    }

    #[inline(always)]
    fn splat(self, word: u32) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_set1_epi32(word as i32) }
    }

    #[inline(always)]
    fn multiply_add(self, sums: __m256i, columns: __m256i, digits: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_add_epi32(sums, _mm256_madd_epi16(columns, digits)) }
    }

    #[inline(always)]
    fn join<const BITS: i32>(self, low: __m256i, high: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_add_epi32(low, _mm256_slli_epi32::<BITS>(high)) }
    }

    #[inline(always)]
    fn add_to(self, vector: __m256i, sums: &mut PanelSums, first_row: usize) {
        let rows = &mut sums[first_row..first_row + 8];
        // SAFETY: `self` proves AVX2; the slice has 8 words.
        unsafe {
            let total = _mm256_add_epi32(_mm256_loadu_si256(rows.as_ptr().cast()), vector);
            _mm256_storeu_si256(rows.as_mut_ptr().cast(), total);
        }
    }
}

impl Microkernel for Avx2 {
    const TILE: usize = 3;

    #[inline]
    fn fold(self, tile: Tile<'_>) {
        // SAFETY: `self` proves AVX2.
        unsafe { fold(self, tile) }
    }

    #[inline]
    fn read(self, quads: &[Quad], ahead: usize) -> u32 {
        // SAFETY: `self` proves AVX2.
        unsafe { read_all(self, quads, ahead) }
    }

    fn multiply_adds(self, rounds: u64) -> u64 {
        // SAFETY: `self` proves AVX2.
        unsafe { multiply_adds(rounds) }
    }
}

/// 12 sums of 16 registers for 3 queries; the panel's full width for a lone one.
#[target_feature(enable = "avx2")]
fn fold(lanes: Avx2, tile: Tile<'_>) {
    match tile.sums.len() {
        1 => fold_tile::<_, 4, 1, 1>(lanes, tile),
        2 => fold_tile::<_, 2, 2, 1>(lanes, tile),
        3 => fold_tile::<_, 2, 3, 1>(lanes, tile),
        _ => unreachable!("a tile has 1 to 3 queries"),
    }
}

#[target_feature(enable = "avx2")]
fn read_all(lanes: Avx2, quads: &[Quad], ahead: usize) -> u32 {
    read(lanes, quads, ahead)
}

/// 12 independent chains of `vpmaddwd` and `vpaddd` a round. In assembly, so that no compiler sees that
/// the sums are of no use.
#[target_feature(enable = "avx2")]
fn multiply_adds(rounds: u64) -> u64 {
    let mut sums = [_mm256_setzero_si256(); 12];
    let (columns, digits) = (_mm256_set1_epi16(3), _mm256_set1_epi16(5));
    for _ in 0..rounds {
        for sum in &mut sums {
            // SAFETY: AVX2 is enabled; the assembly touches only its operands.
            unsafe {
                std::arch::asm!(
                    "vpmaddwd {product}, {columns}, {digits}",
                    "vpaddd {sum}, {sum}, {product}",
                    product = out(ymm_reg) _,
                    columns = in(ymm_reg) columns,
                    digits = in(ymm_reg) digits,
                    sum = inout(ymm_reg) *sum,
                    options(pure, nomem, nostack, preserves_flags),
                );
            }
        }
    }
    std::hint::black_box(sums);
    rounds * sums.len() as u64 * 8
}
