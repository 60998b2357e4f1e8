//! AVX2: 8 rows in each vector.

use std::arch::x86_64::*;

use super::rows::{self, Rows};
use super::{ModuleKernel, PairLanes};
use crate::isa::{Avx2, compiled, operations};

impl PairLanes for Avx2 {
    type Vector = __m256i;
    const LANES: usize = 8;

    operations! { Avx2, __m256i:
        splat(lane: u32) = _mm256_set1_epi32(lane as i32);

        add(a, b) = _mm256_add_epi16(a, b);
        add_saturating(a, b) = _mm256_adds_epi16(a, b);
        sub(a, b) = _mm256_sub_epi16(a, b);
        mul_low(a, b) = _mm256_mullo_epi16(a, b);
        mul_high(a, b) = _mm256_mulhi_epi16(a, b);
        low_bytes(a) = _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(a));
        high_bytes(a) = _mm256_srai_epi16::<8>(a);
        transpose(a, b) -> (__m256i, __m256i) = (
            _mm256_blend_epi16::<0xAA>(a, _mm256_slli_epi32::<16>(b)),
            _mm256_blend_epi16::<0xAA>(_mm256_srli_epi32::<16>(a), b),
        );

        multiply_add(sums, a, b) = _mm256_add_epi32(sums, _mm256_madd_epi16(a, b));
        add_lanes(a, b) = _mm256_add_epi32(a, b);
        sub_lanes(a, b) = _mm256_sub_epi32(a, b);
        shift_left<const BITS: i32>(a) = _mm256_slli_epi32::<BITS>(a);
        shift_right<const BITS: i32>(a) = _mm256_srai_epi32::<BITS>(a);
        xor(a, b) = _mm256_xor_si256(a, b);
    }
}

impl ModuleKernel for Avx2 {
    compiled! { Avx2:
        fn fold_rows(lanes, rows: Rows<'_, __m256i>) {
            rows::fold_rows(lanes, rows);
        }
    }
}
