//! AVX-512 BW and VNNI: 16 rows a vector.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::prepare::Prepared;
use super::rows::{self, Scratch};
use super::{ModuleKernel, PairLanes};
use crate::fold::Quad;
use crate::isa::Avx512;

impl PairLanes for Avx512 {
    type Vector = __m512i;
    const LANES: usize = 16;

    #[inline(always)]
    fn splat(self, lane: u32) -> __m512i {
        // SAFETY: `self` proves AVX-512 F, BW and VNNI.
        unsafe { _mm512_set1_epi32(lane as i32) }
    }

    #[inline(always)]
    fn load(self, quad: &Quad, first_row: usize) -> __m512i {
        let rows = &quad[4 * first_row..4 * first_row + 64];
        // SAFETY: `self` proves AVX-512 F, BW and VNNI; the slice has 64 bytes.
        unsafe { _mm512_loadu_si512(rows.as_ptr().cast()) }
    }

    #[inline(always)]
    fn store(self, vector: __m512i, lanes: &mut [u32]) {
        let lanes = &mut lanes[..16];
        // SAFETY: `self` proves AVX-512 F, BW and VNNI; the slice has 16 words.
        unsafe { _mm512_storeu_si512(lanes.as_mut_ptr().cast(), vector) }
    }

    #[inline(always)]
    fn add(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: `self` proves AVX-512 F, BW and VNNI.
        unsafe { _mm512_add_epi16(a, b) }
    }

    #[inline(always)]
    fn add_saturating(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: `self` proves AVX-512 F, BW and VNNI.
        unsafe { _mm512_adds_epi16(a, b) }
    }

    #[inline(always)]
    fn sub(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: `self` proves AVX-512 F, BW and VNNI.
        unsafe { _mm512_sub_epi16(a, b) }
    }

    #[inline(always)]
    fn mul_low(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: `self` proves AVX-512 F, BW and VNNI.
        unsafe { _mm512_mullo_epi16(a, b) }
    }

    #[inline(always)]
    fn mul_high(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: `self` proves AVX-512 F, BW and VNNI.
        unsafe { _mm512_mulhi_epi16(a, b) }
    }

    #[inline(always)]
    fn low_bytes(self, a: __m512i) -> __m512i {
        // SAFETY: `self` proves AVX-512 F, BW and VNNI.
        unsafe { _mm512_srai_epi16::<8>(_mm512_slli_epi16::<8>(a)) }
    }

    #[inline(always)]
    fn high_bytes(self, a: __m512i) -> __m512i {
        // SAFETY: `self` proves AVX-512 F, BW and VNNI.
        unsafe { _mm512_srai_epi16::<8>(a) }
    }

    #[inline(always)]
    fn transpose(self, a: __m512i, b: __m512i) -> (__m512i, __m512i) {
        // SAFETY: `self` proves AVX-512 F, BW and VNNI.
        unsafe {
            (
                _mm512_mask_blend_epi16(0xAAAA_AAAA, a, _mm512_slli_epi32::<16>(b)),
                _mm512_mask_blend_epi16(0xAAAA_AAAA, _mm512_srli_epi32::<16>(a), b),
            )
        }
    }

    #[inline(always)]
    fn multiply_add(self, sums: __m512i, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: `self` proves AVX-512 F, BW and VNNI.
        unsafe { _mm512_dpwssd_epi32(sums, a, b) }
    }

    #[inline(always)]
    fn add_lanes(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: `self` proves AVX-512 F, BW and VNNI.
        unsafe { _mm512_add_epi32(a, b) }
    }

    #[inline(always)]
    fn sub_lanes(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: `self` proves AVX-512 F, BW and VNNI.
        unsafe { _mm512_sub_epi32(a, b) }
    }

    #[inline(always)]
    fn shift_left<const BITS: i32>(self, a: __m512i) -> __m512i {
        // SAFETY: `self` proves AVX-512 F, BW and VNNI.
        unsafe { _mm512_sll_epi32(a, _mm_cvtsi32_si128(BITS)) }
    }

    #[inline(always)]
    fn shift_right<const BITS: i32>(self, a: __m512i) -> __m512i {
        // SAFETY: `self` proves AVX-512 F, BW and VNNI.
        unsafe { _mm512_sra_epi32(a, _mm_cvtsi32_si128(BITS)) }
    }

    #[inline(always)]
    fn xor(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: `self` proves AVX-512 F, BW and VNNI.
        unsafe { _mm512_xor_si512(a, b) }
    }
}

impl ModuleKernel for Avx512 {
    fn fold_rows(
        self,
        prepared: &Prepared,
        chunk: usize,
        panel: &[Quad],
        first_row: usize,
        scratch: &mut Scratch<__m512i>,
        hint: &mut [u32],
    ) {
        // SAFETY: `self` proves AVX-512 F, BW and VNNI.
        unsafe { fold_rows(self, prepared, chunk, panel, first_row, scratch, hint) }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn fold_rows(
    lanes: Avx512,
    prepared: &Prepared,
    chunk: usize,
    panel: &[Quad],
    first_row: usize,
    scratch: &mut Scratch<__m512i>,
    hint: &mut [u32],
) {
    rows::fold_rows(lanes, prepared, chunk, panel, first_row, scratch, hint);
}
