//! AVX-512 VNNI: `vpdpbusd` multiplies the four columns of a quad by four byte digits; 16 rows in
//! each vector.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::tile::{self, Tile, fold_tile, fold_up_to_3};
use super::{Microkernel, Quad, RowLanes};
use crate::isa::{Avx512, compiled, operations};

impl RowLanes for Avx512 {
    type Vector = __m512i;
    const LANES: usize = 16;
    const PHASES: usize = 1;

    operations! { Avx512, __m512i:
        zero() = _mm512_setzero_si512();
        splat(word: u32) = _mm512_set1_epi32(word as i32);
        columns(quad, _phase: usize) = quad;
        // Columns are the unsigned operand, digits the signed one.
        multiply_add(sums, columns, digits) = _mm512_dpbusd_epi32(sums, columns, digits);
        join<const BITS: i32>(low, high) = _mm512_add_epi32(low, _mm512_sll_epi32(high, _mm_cvtsi32_si128(BITS)));
    }
}

impl Microkernel for Avx512 {
    const TILE: usize = 3;

    compiled! { Avx512:
        /// Keeps 24 sums in 32 registers for 3 queries, and 16 sums for 2 queries. A single query
        /// also has 16 sums, because its tile processes two quads at a time. `vpdpbusd` has a
        /// latency of 4 or 5 cycles at two instructions a cycle.
        #[inline]
        fn fold(lanes, tile: Tile<'_, 1>) {
            fold_up_to_3::<_, 2, 2>(lanes, tile);
        }

        /// Keeps 16 sums, 8 for each panel.
        #[inline]
        fn fold_pair(lanes, tile: Tile<'_, 2>) {
            fold_tile::<_, 2, 2, 1, 1>(lanes, tile);
        }

        #[inline]
        fn read(lanes, quads: &[Quad], ahead: usize) -> u32 {
            tile::read(lanes, quads, ahead)
        }

        /// Runs 24 independent chains of `vpdpbusd` in each round. The loop is in assembly, so that
        /// the compiler cannot see that the sums are unused.
        fn multiply_adds(_lanes, rounds: u64) -> u64 {
            let mut sums = [_mm512_setzero_si512(); 24];
            let (columns, digits) = (_mm512_set1_epi8(3), _mm512_set1_epi8(5));
            for _ in 0..rounds {
                for sum in &mut sums {
                    // SAFETY: AVX-512 VNNI is enabled; the assembly touches only its operands.
                    unsafe {
                        std::arch::asm!(
                            "vpdpbusd {sum}, {columns}, {digits}",
                            columns = in(zmm_reg) columns,
                            digits = in(zmm_reg) digits,
                            sum = inout(zmm_reg) *sum,
                            options(pure, nomem, nostack, preserves_flags),
                        );
                    }
                }
            }
            std::hint::black_box(sums);
            rounds * sums.len() as u64 * 16
        }
    }
}
