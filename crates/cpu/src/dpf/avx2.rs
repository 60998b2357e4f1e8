//! AVX2: vectors of 32 bytes.

use std::arch::x86_64::*;

use super::lanes::{ByteLanes, RowKernel};
use crate::isa::{Avx2, compiled, operations};

impl ByteLanes for Avx2 {
    type Vector = __m256i;
    const BYTES: usize = 32;

    compiled! { Avx2:
        fn run<K: RowKernel>(lanes, kernel: K) -> K::Output {
            kernel.run(lanes)
        }
    }

    operations! { Avx2, __m256i:
        zero() = _mm256_setzero_si256();
        xor(a, b) = _mm256_xor_si256(a, b);
        and(a, b) = _mm256_and_si256(a, b);
        splat32(word: u32) = _mm256_set1_epi32(word as i32);
        splat64(word: u64) = _mm256_set1_epi64x(word as i64);
        add32(a, b) = _mm256_add_epi32(a, b);
        add64(a, b) = _mm256_add_epi64(a, b);
        top_masks(a) = _mm256_srai_epi32::<31>(a);
        mul32(a, b) = _mm256_mullo_epi32(a, b);
        mul_lower(a, b) = _mm256_mul_epu32(a, b);
        raise(a) = _mm256_slli_epi64::<32>(a);
    }
}
