//! AVX2: `vpmaddwd` multiplies pairs of columns by pairs of 16-bit digits; 8 rows in each vector.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::tile::{self, Tile, fold_up_to_3};
use super::{Microkernel, Quad, RowLanes};
use crate::isa::{Avx2, compiled, operations};

impl RowLanes for Avx2 {
    type Vector = __m256i;
    const LANES: usize = 8;
    const PHASES: usize = 2;

    operations! { Avx2, __m256i:
        zero() = _mm256_setzero_si256();
        splat(word: u32) = _mm256_set1_epi32(word as i32);
        columns(quad, phase: usize) = match phase {
            0 => _mm256_and_si256(quad, _mm256_set1_epi16(0xFF)),
            _ => _mm256_srli_epi16::<8>(quad),
        };
        multiply_add(sums, columns, digits) = _mm256_add_epi32(sums, _mm256_madd_epi16(columns, digits));
        join<const BITS: i32>(low, high) = _mm256_add_epi32(low, _mm256_slli_epi32::<BITS>(high));
    }
}

impl Microkernel for Avx2 {
    const TILE: usize = 3;

    compiled! { Avx2:
        /// Keeps 12 sums in 16 registers for 3 queries; for a single query, a tile covers the
        /// panel's full width.
        #[inline]
        fn fold(lanes, tile: Tile<'_, 1>) {
            fold_up_to_3::<_, 4, 1>(lanes, tile);
        }

        #[inline]
        fn read(lanes, quads: &[Quad], ahead: usize) -> u32 {
            tile::read(lanes, quads, ahead)
        }

        /// Runs 12 independent chains of `vpmaddwd` and `vpaddd` in each round. The loop is in
        /// assembly, so that the compiler cannot see that the sums are unused.
        fn multiply_adds(_lanes, rounds: u64) -> u64 {
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
    }
}
