//! AVX2: 8 rows a vector.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::prepare::Prepared;
use super::rows::{self, Scratch};
use super::{ModuleKernel, PairLanes};
use crate::fold::Quad;
use crate::isa::Avx2;

impl PairLanes for Avx2 {
    type Vector = __m256i;
    const LANES: usize = 8;

    #[inline(always)]
    fn splat(self, lane: u32) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_set1_epi32(lane as i32) }
    }

    #[inline(always)]
    fn load(self, quad: &Quad, first_row: usize) -> __m256i {
        let rows = &quad[4 * first_row..4 * first_row + 32];
        // SAFETY: `self` proves AVX2; the slice has 32 bytes.
        unsafe { _mm256_loadu_si256(rows.as_ptr().cast()) }
    }

    #[inline(always)]
    fn store(self, vector: __m256i, lanes: &mut [u32]) {
        let lanes = &mut lanes[..8];
        // SAFETY: `self` proves AVX2; the slice has 8 words.
        unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), vector) }
    }

    #[inline(always)]
    fn add(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_add_epi16(a, b) }
    }

    #[inline(always)]
    fn add_saturating(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_adds_epi16(a, b) }
    }

    #[inline(always)]
    fn sub(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_sub_epi16(a, b) }
    }

    #[inline(always)]
    fn mul_low(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_mullo_epi16(a, b) }
    }

    #[inline(always)]
    fn mul_high(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_mulhi_epi16(a, b) }
    }

    #[inline(always)]
    fn low_bytes(self, a: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(a)) }
    }

    #[inline(always)]
    fn high_bytes(self, a: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_srai_epi16::<8>(a) }
    }

    #[inline(always)]
    fn transpose(self, a: __m256i, b: __m256i) -> (__m256i, __m256i) {
        // SAFETY: `self` proves AVX2.
        unsafe {
            (
                _mm256_blend_epi16::<0xAA>(a, _mm256_slli_epi32::<16>(b)),
                _mm256_blend_epi16::<0xAA>(_mm256_srli_epi32::<16>(a), b),
            )
        }
    }

    #[inline(always)]
    fn multiply_add(self, sums: __m256i, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_add_epi32(sums, _mm256_madd_epi16(a, b)) }
    }

    #[inline(always)]
    fn add_lanes(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_add_epi32(a, b) }
    }

    #[inline(always)]
    fn sub_lanes(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_sub_epi32(a, b) }
    }

    #[inline(always)]
    fn shift_left<const BITS: i32>(self, a: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_slli_epi32::<BITS>(a) }
    }

    #[inline(always)]
    fn shift_right<const BITS: i32>(self, a: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_srai_epi32::<BITS>(a) }
    }

    #[inline(always)]
    fn xor(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_xor_si256(a, b) }
    }
}

impl ModuleKernel for Avx2 {
    fn fold_rows(
        self,
        prepared: &Prepared,
        chunk: usize,
        panel: &[Quad],
        first_row: usize,
        scratch: &mut Scratch<__m256i>,
        hint: &mut [u32],
    ) {
        // SAFETY: `self` proves AVX2.
        unsafe { fold_rows(self, prepared, chunk, panel, first_row, scratch, hint) }
    }
}

#[target_feature(enable = "avx2")]
fn fold_rows(
    lanes: Avx2,
    prepared: &Prepared,
    chunk: usize,
    panel: &[Quad],
    first_row: usize,
    scratch: &mut Scratch<__m256i>,
    hint: &mut [u32],
) {
    rows::fold_rows(lanes, prepared, chunk, panel, first_row, scratch, hint);
}
