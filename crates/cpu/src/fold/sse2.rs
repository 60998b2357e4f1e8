//! The portable kernel on x86-64, where every processor has SSE2. It uses `pmaddwd`, with 4 rows in
//! each vector.

use std::arch::x86_64::*;

use super::tile::{Tile, fold_up_to_3, read};
use super::{Microkernel, Quad, RowLanes};
use crate::isa::{Sse2, operations};

impl RowLanes for Sse2 {
    type Vector = __m128i;
    const LANES: usize = 4;
    const PHASES: usize = 2;

    operations! { Sse2, __m128i:
        zero() = _mm_setzero_si128();
        splat(word: u32) = _mm_set1_epi32(word as i32);
        columns(quad, phase: usize) = match phase {
            0 => _mm_and_si128(quad, _mm_set1_epi16(0xFF)),
            _ => _mm_srli_epi16::<8>(quad),
        };
        multiply_add(sums, columns, digits) = _mm_add_epi32(sums, _mm_madd_epi16(columns, digits));
        join<const BITS: i32>(low, high) = _mm_add_epi32(low, _mm_slli_epi32::<BITS>(high));
    }
}

impl Microkernel for Sse2 {
    const TILE: usize = 3;

    fn fold(self, tile: Tile<'_, 1>) {
        fold_up_to_3::<_, 4, 1>(self, tile);
    }

    fn read(self, quads: &[Quad], ahead: usize) -> u32 {
        read(self, quads, ahead)
    }
}
