//! AVX-512 F: vectors of 64 bytes.

use std::arch::x86_64::*;

use super::lanes::{ByteLanes, RowKernel};
use crate::isa::{Avx512, compiled, operations};

impl ByteLanes for Avx512 {
    type Vector = __m512i;
    const BYTES: usize = 64;

    compiled! { Avx512:
        fn run<K: RowKernel>(lanes, kernel: K) -> K::Output {
            kernel.run(lanes)
        }
    }

    operations! { Avx512, __m512i:
        zero() = _mm512_setzero_si512();
        xor(a, b) = _mm512_xor_si512(a, b);
        and(a, b) = _mm512_and_si512(a, b);
        splat32(word: u32) = _mm512_set1_epi32(word as i32);
        splat64(word: u64) = _mm512_set1_epi64(word as i64);
        add32(a, b) = _mm512_add_epi32(a, b);
        add64(a, b) = _mm512_add_epi64(a, b);
        top_masks(a) = _mm512_srai_epi32::<31>(a);
        mul32(a, b) = _mm512_mullo_epi32(a, b);
        mul_lower(a, b) = _mm512_mul_epu32(a, b);
        raise(a) = _mm512_slli_epi64::<32>(a);
    }
}
