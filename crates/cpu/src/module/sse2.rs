//! The portable kernel on x86-64, whose every processor has SSE2: 4 rows a vector.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::prepare::Prepared;
use super::rows::{self, Scratch};
use super::{ModuleKernel, PairLanes};
use crate::fold::Quad;
use crate::isa::Sse2;

impl PairLanes for Sse2 {
    type Vector = __m128i;
    const LANES: usize = 4;

    #[inline(always)]
    fn splat(self, lane: u32) -> __m128i {
        // SAFETY: every x86-64 has SSE2.
        unsafe { _mm_set1_epi32(lane as i32) }
    }

    #[inline(always)]
    fn load(self, quad: &Quad, first_row: usize) -> __m128i {
        let rows = &quad[4 * first_row..4 * first_row + 16];
        // SAFETY: every x86-64 has SSE2; the slice has 16 bytes.
        unsafe { _mm_loadu_si128(rows.as_ptr().cast()) }
    }

    #[inline(always)]
    fn store(self, vector: __m128i, lanes: &mut [u32]) {
        let lanes = &mut lanes[..4];
        // SAFETY: every x86-64 has SSE2; the slice has 4 words.
        unsafe { _mm_storeu_si128(lanes.as_mut_ptr().cast(), vector) }
    }

    #[inline(always)]
    fn add(self, a: __m128i, b: __m128i) -> __m128i {
        // SAFETY: every x86-64 has SSE2.
        unsafe { _mm_add_epi16(a, b) }
    }

    #[inline(always)]
    fn add_saturating(self, a: __m128i, b: __m128i) -> __m128i {
        // SAFETY: every x86-64 has SSE2.
        unsafe { _mm_adds_epi16(a, b) }
    }

    #[inline(always)]
    fn sub(self, a: __m128i, b: __m128i) -> __m128i {
        // SAFETY: every x86-64 has SSE2.
        unsafe { _mm_sub_epi16(a, b) }
    }

    #[inline(always)]
    fn mul_low(self, a: __m128i, b: __m128i) -> __m128i {
        // SAFETY: every x86-64 has SSE2.
        unsafe { _mm_mullo_epi16(a, b) }
    }

    #[inline(always)]
    fn mul_high(self, a: __m128i, b: __m128i) -> __m128i {
        // SAFETY: every x86-64 has SSE2.
        unsafe { _mm_mulhi_epi16(a, b) }
    }

    #[inline(always)]
    fn low_bytes(self, a: __m128i) -> __m128i {
        // SAFETY: every x86-64 has SSE2.
        unsafe { _mm_srai_epi16::<8>(_mm_slli_epi16::<8>(a)) }
    }

    #[inline(always)]
    fn high_bytes(self, a: __m128i) -> __m128i {
        // SAFETY: every x86-64 has SSE2.
        unsafe { _mm_srai_epi16::<8>(a) }
    }

    #[inline(always)]
    fn transpose(self, a: __m128i, b: __m128i) -> (__m128i, __m128i) {
        // SAFETY: every x86-64 has SSE2.
        unsafe {
            let low_half = _mm_set1_epi32(0xFFFF);
            (
                _mm_or_si128(_mm_and_si128(low_half, a), _mm_slli_epi32::<16>(b)),
                _mm_or_si128(_mm_srli_epi32::<16>(a), _mm_andnot_si128(low_half, b)),
            )
        }
    }

    #[inline(always)]
    fn multiply_add(self, sums: __m128i, a: __m128i, b: __m128i) -> __m128i {
        // SAFETY: every x86-64 has SSE2.
        unsafe { _mm_add_epi32(sums, _mm_madd_epi16(a, b)) }
    }

    #[inline(always)]
    fn add_lanes(self, a: __m128i, b: __m128i) -> __m128i {
        // SAFETY: every x86-64 has SSE2.
        unsafe { _mm_add_epi32(a, b) }
    }

    #[inline(always)]
    fn sub_lanes(self, a: __m128i, b: __m128i) -> __m128i {
        // SAFETY: every x86-64 has SSE2.
        unsafe { _mm_sub_epi32(a, b) }
    }

    #[inline(always)]
    fn shift_left<const BITS: i32>(self, a: __m128i) -> __m128i {
        // SAFETY: every x86-64 has SSE2.
        unsafe { _mm_slli_epi32::<BITS>(a) }
    }

    #[inline(always)]
    fn shift_right<const BITS: i32>(self, a: __m128i) -> __m128i {
        // SAFETY: every x86-64 has SSE2.
        unsafe { _mm_srai_epi32::<BITS>(a) }
    }

    #[inline(always)]
    fn xor(self, a: __m128i, b: __m128i) -> __m128i {
        // SAFETY: every x86-64 has SSE2.
        unsafe { _mm_xor_si128(a, b) }
    }
}

impl ModuleKernel for Sse2 {
    fn fold_rows(
        self,
        prepared: &Prepared,
        chunk: usize,
        panel: &[Quad],
        first_row: usize,
        scratch: &mut Scratch<__m128i>,
        hint: &mut [u32],
    ) {
        rows::fold_rows(self, prepared, chunk, panel, first_row, scratch, hint);
    }
}
