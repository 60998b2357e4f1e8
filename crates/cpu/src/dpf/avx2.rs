//! AVX2: vectors of 32 bytes.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::lanes::{ByteLanes, RowKernel};
use crate::isa::Avx2;

impl ByteLanes for Avx2 {
    type Vector = __m256i;
    const BYTES: usize = 32;

    fn run<K: RowKernel>(self, kernel: K) -> K::Output {
        // SAFETY: `self` proves AVX2.
        unsafe { run(self, kernel) }
    }

    #[inline(always)]
    fn zero(self) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_setzero_si256() }
    }

    #[inline(always)]
    fn load(self, bytes: &[u8]) -> __m256i {
        let bytes = &bytes[..32];
        // SAFETY: `self` proves AVX2; the slice has 32 bytes.
        unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
    }

    #[inline(always)]
    fn store(self, vector: __m256i, bytes: &mut [u8]) {
        let bytes = &mut bytes[..32];
        // SAFETY: `self` proves AVX2; the slice has 32 bytes.
        unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), vector) }
    }

    #[inline(always)]
    fn xor(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_xor_si256(a, b) }
    }

    #[inline(always)]
    fn and(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_and_si256(a, b) }
    }

    #[inline(always)]
    fn splat32(self, word: u32) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_set1_epi32(word as i32) }
    }

    #[inline(always)]
    fn splat64(self, word: u64) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_set1_epi64x(word as i64) }
    }

    #[inline(always)]
    fn add32(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_add_epi32(a, b) }
    }

    #[inline(always)]
    fn add64(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_add_epi64(a, b) }
    }

    #[inline(always)]
    fn top_masks(self, a: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_srai_epi32::<31>(a) }
    }

    #[inline(always)]
    fn mul32(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_mullo_epi32(a, b) }
    }

    #[inline(always)]
    fn mul_lower(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_mul_epu32(a, b) }
    }

    #[inline(always)]
    fn raise(self, a: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_slli_epi64::<32>(a) }
    }
}

#[target_feature(enable = "avx2")]
fn run<K: RowKernel>(lanes: Avx2, kernel: K) -> K::Output {
    kernel.run(lanes)
}
