//! The portable kernel on x86-64, whose every processor has SSE2: `pmaddwd`, 4 rows a vector.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::tile::{Tile, fold_tile, read, tile_from_cache};
use super::{Microkernel, PanelSums, Quad, RowLanes};
use crate::isa::Sse2;

impl RowLanes for Sse2 {
    type Vector = __m128i;
    const LANES: usize = 4;
    const PHASES: usize = 2;

    #[inline(always)]
    fn zero(self) -> __m128i {
        // SAFETY: every x86-64 has SSE2.
        unsafe { _mm_setzero_si128() }
    }

    #[inline(always)]
    fn load(self, quad: &Quad, first_row: usize, phase: usize) -> __m128i {
        let rows = &quad[4 * first_row..4 * first_row + 16];
        // SAFETY: every x86-64 has SSE2; the slice has 16 bytes.
        unsafe {
            let bytes = _mm_loadu_si128(rows.as_ptr().cast());
            if phase == 0 { _mm_and_si128(bytes, _mm_set1_epi16(0xFF)) } else { _mm_srli_epi16::<8>(bytes) }
        }
    }

    #[inline(always)]
    fn splat(self, word: u32) -> __m128i {
        // SAFETY: every x86-64 has SSE2.
        unsafe { _mm_set1_epi32(word as i32) }
    }

    #[inline(always)]
    fn multiply_add(self, sums: __m128i, columns: __m128i, digits: __m128i) -> __m128i {
        // SAFETY: every x86-64 has SSE2.
        unsafe { _mm_add_epi32(sums, _mm_madd_epi16(columns, digits)) }
    }

    #[inline(always)]
    fn join<const BITS: i32>(self, low: __m128i, high: __m128i) -> __m128i {
        // SAFETY: every x86-64 has SSE2.
        unsafe { _mm_add_epi32(low, _mm_slli_epi32::<BITS>(high)) }
    }

    #[inline(always)]
    fn add_to(self, vector: __m128i, sums: &mut PanelSums, first_row: usize) {
        let rows = &mut sums[first_row..first_row + 4];
        // SAFETY: every x86-64 has SSE2; the slice has 4 words.
        unsafe {
            let total = _mm_add_epi32(_mm_loadu_si128(rows.as_ptr().cast()), vector);
            _mm_storeu_si128(rows.as_mut_ptr().cast(), total);
        }
    }
}

impl Microkernel for Sse2 {
    const TILE: usize = 3;

    fn fold(self, tile: Tile<'_>) {
        match tile.sums.len() {
            1 => fold_tile::<_, 4, 1, 1>(self, tile),
            2 => fold_tile::<_, 2, 2, 1>(self, tile),
            3 => fold_tile::<_, 2, 3, 1>(self, tile),
            _ => unreachable!("a tile has 1 to 3 queries"),
        }
    }

    fn read(self, quads: &[Quad], ahead: usize) -> u32 {
        read(self, quads, ahead)
    }

    fn multiply_adds(self, rounds: u64) -> u64 {
        tile_from_cache(self, rounds)
    }
}
