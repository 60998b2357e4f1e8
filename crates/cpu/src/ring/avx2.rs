//! AVX2: 8 lanes.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::lanes::{Kernel, WordLanes};
use crate::isa::Avx2;

impl WordLanes<8> for Avx2 {
    type Vector = __m256i;
    type Wide = __m256i;
    const FOLD_ROWS: usize = 2;

    fn run<K: Kernel>(self, kernel: K) -> K::Output {
        // SAFETY: `self` proves AVX2.
        unsafe { run(self, kernel) }
    }

    #[inline(always)]
    fn splat(self, word: u32) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_set1_epi32(word as i32) }
    }

    #[inline(always)]
    fn load(self, words: &[u32; 8]) -> __m256i {
        // SAFETY: `self` proves AVX2; the array has 32 bytes.
        unsafe { _mm256_loadu_si256(words.as_ptr().cast()) }
    }

    #[inline(always)]
    fn store(self, a: __m256i, words: &mut [u32; 8]) {
        // SAFETY: `self` proves AVX2; the array has 32 bytes.
        unsafe { _mm256_storeu_si256(words.as_mut_ptr().cast(), a) }
    }

    #[inline(always)]
    fn stream(self, a: __m256i, words: &mut [u32; 8]) {
        let to: *mut __m256i = words.as_mut_ptr().cast();
        if to.is_aligned() {
            // SAFETY: `self` proves AVX2; the array has the vector's bytes, and its alignment.
            unsafe { _mm256_stream_si256(to, a) }
        } else {
            self.store(a, words);
        }
    }

    #[inline(always)]
    fn fence(self) {
        // SAFETY: part of SSE, which every x86-64 has.
        unsafe { _mm_sfence() }
    }

    #[inline(always)]
    fn add(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_add_epi32(a, b) }
    }

    #[inline(always)]
    fn sub(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_sub_epi32(a, b) }
    }

    #[inline(always)]
    fn min(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_min_epu32(a, b) }
    }

    #[inline(always)]
    fn mul_low(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_mullo_epi32(a, b) }
    }

    #[inline(always)]
    fn mul_high(self, a: __m256i, b: __m256i) -> __m256i {
        self.join_high(self.mul_wide(a, b), self.mul_wide(self.odd(a), self.odd(b)))
    }

    #[inline(always)]
    fn shift_right(self, a: __m256i, bits: u32) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_srl_epi32(a, _mm_cvtsi32_si128(bits as i32)) }
    }

    #[inline(always)]
    fn shift_left(self, a: __m256i, bits: u32) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_sll_epi32(a, _mm_cvtsi32_si128(bits as i32)) }
    }

    #[inline(always)]
    fn and(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_and_si256(a, b) }
    }

    #[inline(always)]
    fn permute(self, a: __m256i, places: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_permutevar8x32_epi32(a, places) }
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

    #[inline(always)]
    fn zeros(self) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_setzero_si256() }
    }

    #[inline(always)]
    fn even(self, a: __m256i) -> __m256i {
        a
    }

    #[inline(always)]
    fn odd(self, a: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2. A shuffle, not a shift: the compiler knows that it leaves a splat as it is.
        unsafe { _mm256_shuffle_epi32::<0xF5>(a) }
    }

    #[inline(always)]
    fn mul_wide(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_mul_epu32(a, b) }
    }

    #[inline(always)]
    fn add_wide(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_add_epi64(a, b) }
    }

    #[inline(always)]
    fn high(self, a: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_srli_epi64::<32>(a) }
    }

    #[inline(always)]
    fn join_low(self, even: __m256i, odd: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_blend_epi32::<0xAA>(even, _mm256_slli_epi64::<32>(odd)) }
    }

    #[inline(always)]
    fn join_high(self, even: __m256i, odd: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_blend_epi32::<0xAA>(_mm256_srli_epi64::<32>(even), odd) }
    }
}

#[target_feature(enable = "avx2")]
fn run<K: Kernel>(lanes: Avx2, kernel: K) -> K::Output {
    kernel.run(lanes)
}
