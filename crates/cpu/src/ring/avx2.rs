//! AVX2: 8 lanes.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::lanes::{Kernel, WordLanes};
use crate::isa::{Avx2, compiled, operations};

impl WordLanes<8> for Avx2 {
    type Vector = __m256i;
    type Wide = __m256i;
    const FOLD_ROWS: usize = 2;
    const NARROW: bool = false;

    compiled! { Avx2:
        fn run<K: Kernel>(lanes, kernel: K) -> K::Output {
            kernel.run(lanes)
        }
    }

    #[inline(always)]
    fn stream(self, a: __m256i, words: &mut [u32; 8]) {
        let to: *mut __m256i = words.as_mut_ptr().cast();
        if to.is_aligned() {
            // SAFETY: `self` proves AVX2; the array has the size and the alignment of the vector.
            unsafe { _mm256_stream_si256(to, a) }
        } else {
            self.store(a, words);
        }
    }

    operations! { Avx2, __m256i:
        fence() -> () = _mm_sfence();
        splat(word: u32) = _mm256_set1_epi32(word as i32);
        add(a, b) = _mm256_add_epi32(a, b);
        sub(a, b) = _mm256_sub_epi32(a, b);
        min(a, b) = _mm256_min_epu32(a, b);
        mul_low(a, b) = _mm256_mullo_epi32(a, b);
        shift_right(a, bits: u32) = _mm256_srl_epi32(a, _mm_cvtsi32_si128(bits as i32));
        shift_left(a, bits: u32) = _mm256_sll_epi32(a, _mm_cvtsi32_si128(bits as i32));
        and(a, b) = _mm256_and_si256(a, b);
        permute(a, places) = _mm256_permutevar8x32_epi32(a, places);

        zeros() = _mm256_setzero_si256();
        splat_wide(number: u64) = _mm256_set1_epi64x(number as i64);
        pairs(a) = a;
        even(a) = a;
        // A shuffle instead of a shift, because the compiler knows that this shuffle leaves a splat
        // unchanged.
        odd(a) = _mm256_shuffle_epi32::<0xF5>(a);
        mul_wide(a, b) = _mm256_mul_epu32(a, b);
        add_wide(a, b) = _mm256_add_epi64(a, b);
        and_wide(a, b) = _mm256_and_si256(a, b);
        or_wide(a, b) = _mm256_or_si256(a, b);
        shift_right_wide<const BITS: u32>(a) = _mm256_srlv_epi64(a, _mm256_set1_epi64x(BITS.into()));
        rotate_left_wide<const BITS: i32>(a) = _mm256_or_si256(
            _mm256_sllv_epi64(a, _mm256_set1_epi64x(BITS.into())),
            _mm256_srlv_epi64(a, _mm256_set1_epi64x(64 - i64::from(BITS))));
        high(a) = _mm256_srli_epi64::<32>(a);
        join_low(even, odd) = _mm256_blend_epi32::<0xAA>(even, _mm256_slli_epi64::<32>(odd));
        join_high(even, odd) = _mm256_blend_epi32::<0xAA>(_mm256_srli_epi64::<32>(even), odd);
    }

    #[inline(always)]
    fn transpose(self, x: [__m256i; 8]) -> [__m256i; 8] {
        // SAFETY: `self` proves AVX2.
        unsafe {
            let mut y = x;
            for i in 0..4 {
                y[2 * i] = _mm256_unpacklo_epi32(x[2 * i], x[2 * i + 1]);
                y[2 * i + 1] = _mm256_unpackhi_epi32(x[2 * i], x[2 * i + 1]);
            }
            let mut z = y;
            for i in [0, 4] {
                z[i] = _mm256_unpacklo_epi64(y[i], y[i + 2]);
                z[i + 1] = _mm256_unpackhi_epi64(y[i], y[i + 2]);
                z[i + 2] = _mm256_unpacklo_epi64(y[i + 1], y[i + 3]);
                z[i + 3] = _mm256_unpackhi_epi64(y[i + 1], y[i + 3]);
            }
            for i in 0..4 {
                y[i] = _mm256_permute2x128_si256::<0x20>(z[i], z[i + 4]);
                y[i + 4] = _mm256_permute2x128_si256::<0x31>(z[i], z[i + 4]);
            }
            y
        }
    }
}
