//! AVX-512 BW and VNNI: 16 rows in each vector.

use std::arch::x86_64::*;

use super::rows::{self, Rows};
use super::{ModuleKernel, PairLanes};
use crate::isa::{Avx512, compiled, operations};

impl PairLanes for Avx512 {
    type Vector = __m512i;
    const LANES: usize = 16;

    operations! { Avx512, __m512i:
        splat(lane: u32) = _mm512_set1_epi32(lane as i32);

        add(a, b) = _mm512_add_epi16(a, b);
        add_saturating(a, b) = _mm512_adds_epi16(a, b);
        sub(a, b) = _mm512_sub_epi16(a, b);
        mul_low(a, b) = _mm512_mullo_epi16(a, b);
        mul_high(a, b) = _mm512_mulhi_epi16(a, b);
        low_bytes(a) = _mm512_srai_epi16::<8>(_mm512_slli_epi16::<8>(a));
        high_bytes(a) = _mm512_srai_epi16::<8>(a);
        transpose(a, b) -> (__m512i, __m512i) = (
            _mm512_mask_blend_epi16(0xAAAA_AAAA, a, _mm512_slli_epi32::<16>(b)),
            _mm512_mask_blend_epi16(0xAAAA_AAAA, _mm512_srli_epi32::<16>(a), b),
        );

        multiply_add(sums, a, b) = _mm512_dpwssd_epi32(sums, a, b);
        add_lanes(a, b) = _mm512_add_epi32(a, b);
        sub_lanes(a, b) = _mm512_sub_epi32(a, b);
        shift_left<const BITS: i32>(a) = _mm512_sll_epi32(a, _mm_cvtsi32_si128(BITS));
        shift_right<const BITS: i32>(a) = _mm512_sra_epi32(a, _mm_cvtsi32_si128(BITS));
        xor(a, b) = _mm512_xor_si512(a, b);
    }
}

impl ModuleKernel for Avx512 {
    compiled! { Avx512:
        fn fold_rows(lanes, rows: Rows<'_, __m512i>) {
            rows::fold_rows(lanes, rows);
        }
    }
}
