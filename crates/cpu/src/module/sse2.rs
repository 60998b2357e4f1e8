//! The portable kernel on x86-64, where every processor has SSE2: 4 rows in each vector.

use std::arch::x86_64::*;

use super::rows::{self, Rows};
use super::{ModuleKernel, PairLanes};
use crate::isa::{Sse2, compiled, operations};

impl PairLanes for Sse2 {
    type Vector = __m128i;
    const LANES: usize = 4;

    operations! { Sse2, __m128i:
        splat(lane: u32) = _mm_set1_epi32(lane as i32);

        add(a, b) = _mm_add_epi16(a, b);
        add_saturating(a, b) = _mm_adds_epi16(a, b);
        sub(a, b) = _mm_sub_epi16(a, b);
        mul_low(a, b) = _mm_mullo_epi16(a, b);
        mul_high(a, b) = _mm_mulhi_epi16(a, b);
        low_bytes(a) = _mm_srai_epi16::<8>(_mm_slli_epi16::<8>(a));
        high_bytes(a) = _mm_srai_epi16::<8>(a);
        transpose(a, b) -> (__m128i, __m128i) = {
            let low_half = _mm_set1_epi32(0xFFFF);
            (
                _mm_or_si128(_mm_and_si128(low_half, a), _mm_slli_epi32::<16>(b)),
                _mm_or_si128(_mm_srli_epi32::<16>(a), _mm_andnot_si128(low_half, b)),
            )
        };

        multiply_add(sums, a, b) = _mm_add_epi32(sums, _mm_madd_epi16(a, b));
        add_lanes(a, b) = _mm_add_epi32(a, b);
        sub_lanes(a, b) = _mm_sub_epi32(a, b);
        shift_left<const BITS: i32>(a) = _mm_slli_epi32::<BITS>(a);
        shift_right<const BITS: i32>(a) = _mm_srai_epi32::<BITS>(a);
        xor(a, b) = _mm_xor_si128(a, b);
    }
}

impl ModuleKernel for Sse2 {
    compiled! { Sse2:
        fn fold_rows(lanes, rows: Rows<'_, __m128i>) {
            rows::fold_rows(lanes, rows);
        }
    }
}
