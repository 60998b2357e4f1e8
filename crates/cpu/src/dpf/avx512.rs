//! AVX-512 F: vectors of 64 bytes.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::lanes::{ByteLanes, RowKernel};
use crate::isa::Avx512;

impl ByteLanes for Avx512 {
    type Vector = __m512i;
    const BYTES: usize = 64;

    fn run<K: RowKernel>(self, kernel: K) -> K::Output {
        // SAFETY: `self` proves AVX-512 F and BW.
        unsafe { run(self, kernel) }
    }

    #[inline(always)]
    fn zero(self) -> __m512i {
        // SAFETY: `self` proves AVX-512 F.
        unsafe { _mm512_setzero_si512() }
    }

    #[inline(always)]
    fn load(self, bytes: &[u8]) -> __m512i {
        let bytes = &bytes[..64];
        // SAFETY: `self` proves AVX-512 F; the slice has 64 bytes.
        unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
    }

    #[inline(always)]
    fn store(self, vector: __m512i, bytes: &mut [u8]) {
        let bytes = &mut bytes[..64];
        // SAFETY: `self` proves AVX-512 F; the slice has 64 bytes.
        unsafe { _mm512_storeu_si512(bytes.as_mut_ptr().cast(), vector) }
    }

    #[inline(always)]
    fn xor(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: `self` proves AVX-512 F.
        unsafe { _mm512_xor_si512(a, b) }
    }

    #[inline(always)]
    fn and(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: `self` proves AVX-512 F.
        unsafe { _mm512_and_si512(a, b) }
    }

    #[inline(always)]
    fn splat32(self, word: u32) -> __m512i {
        // SAFETY: `self` proves AVX-512 F.
        unsafe { _mm512_set1_epi32(word as i32) }
    }

    #[inline(always)]
    fn splat64(self, word: u64) -> __m512i {
        // SAFETY: `self` proves AVX-512 F.
        unsafe { _mm512_set1_epi64(word as i64) }
    }

    #[inline(always)]
    fn add32(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: `self` proves AVX-512 F.
        unsafe { _mm512_add_epi32(a, b) }
    }

    #[inline(always)]
    fn add64(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: `self` proves AVX-512 F.
        unsafe { _mm512_add_epi64(a, b) }
    }

    #[inline(always)]
    fn top_masks(self, a: __m512i) -> __m512i {
        // SAFETY: `self` proves AVX-512 F.
        unsafe { _mm512_srai_epi32::<31>(a) }
    }

    #[inline(always)]
    fn mul32(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: `self` proves AVX-512 F.
        unsafe { _mm512_mullo_epi32(a, b) }
    }

    #[inline(always)]
    fn mul_lower(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: `self` proves AVX-512 F.
        unsafe { _mm512_mul_epu32(a, b) }
    }

    #[inline(always)]
    fn raise(self, a: __m512i) -> __m512i {
        // SAFETY: `self` proves AVX-512 F.
        unsafe { _mm512_slli_epi64::<32>(a) }
    }
}

#[target_feature(enable = "avx512f,avx512bw")]
fn run<K: RowKernel>(lanes: Avx512, kernel: K) -> K::Output {
    kernel.run(lanes)
}
