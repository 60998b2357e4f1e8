//! AVX-512 F: 16 lanes.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::lanes::{Kernel, WordLanes};
use crate::isa::{Avx512, compiled, operations};

impl WordLanes<16> for Avx512 {
    type Vector = __m512i;
    type Wide = __m512i;
    const FOLD_ROWS: usize = 4;
    const NARROW: bool = true;

    compiled! { Avx512:
        fn run<K: Kernel>(lanes, kernel: K) -> K::Output {
            kernel.run(lanes)
        }
    }

    #[inline(always)]
    fn stream(self, a: __m512i, words: &mut [u32; 16]) {
        let to: *mut __m512i = words.as_mut_ptr().cast();
        if to.is_aligned() {
            // SAFETY: `self` proves AVX-512 F, BW and VNNI; the array has the size and the
            // alignment of the vector.
            unsafe { _mm512_stream_si512(to, a) }
        } else {
            self.store(a, words);
        }
    }

    operations! { Avx512, __m512i:
        fence() -> () = _mm_sfence();
        splat(word: u32) = _mm512_set1_epi32(word as i32);
        add(a, b) = _mm512_add_epi32(a, b);
        sub(a, b) = _mm512_sub_epi32(a, b);
        min(a, b) = _mm512_min_epu32(a, b);
        mul_low(a, b) = _mm512_mullo_epi32(a, b);
        shift_right(a, bits: u32) = _mm512_srl_epi32(a, _mm_cvtsi32_si128(bits as i32));
        shift_left(a, bits: u32) = _mm512_sll_epi32(a, _mm_cvtsi32_si128(bits as i32));
        and(a, b) = _mm512_and_si512(a, b);
        permute(a, places) = _mm512_permutexvar_epi32(places, a);

        zeros() = _mm512_setzero_si512();
        splat_wide(number: u64) = _mm512_set1_epi64(number as i64);
        pairs(a) = a;
        even(a) = a;
        // A shuffle instead of a shift, because the compiler knows that this shuffle leaves a splat
        // unchanged.
        odd(a) = _mm512_shuffle_epi32::<0xF5>(a);
        mul_wide(a, b) = _mm512_mul_epu32(a, b);
        add_wide(a, b) = _mm512_add_epi64(a, b);
        and_wide(a, b) = _mm512_and_si512(a, b);
        or_wide(a, b) = _mm512_or_si512(a, b);
        shift_right_wide<const BITS: u32>(a) = _mm512_srli_epi64::<BITS>(a);
        rotate_left_wide<const BITS: i32>(a) = _mm512_rol_epi64::<BITS>(a);
        high(a) = _mm512_srli_epi64::<32>(a);
        join_low(even, odd) = _mm512_mask_shuffle_epi32::<0xA0>(even, 0xAAAA, odd);
        join_high(even, odd) = _mm512_mask_shuffle_epi32::<0xF5>(odd, 0x5555, even);
    }

    #[inline(always)]
    fn transpose(self, x: [__m512i; 16]) -> [__m512i; 16] {
        // SAFETY: `self` proves AVX-512 F, BW and VNNI.
        unsafe {
            let (mut y, mut z) = (x, x);
            for i in 0..8 {
                y[2 * i] = _mm512_unpacklo_epi32(x[2 * i], x[2 * i + 1]);
                y[2 * i + 1] = _mm512_unpackhi_epi32(x[2 * i], x[2 * i + 1]);
            }
            // Column 4 c + i of rows 4 k to 4 k + 3 is now in part c of z[4 k + i].
            for k in [0, 4, 8, 12] {
                z[k] = _mm512_unpacklo_epi64(y[k], y[k + 2]);
                z[k + 1] = _mm512_unpackhi_epi64(y[k], y[k + 2]);
                z[k + 2] = _mm512_unpacklo_epi64(y[k + 1], y[k + 3]);
                z[k + 3] = _mm512_unpackhi_epi64(y[k + 1], y[k + 3]);
            }
            // For each i, the rest is a transposition of 4 x 4 parts.
            for i in 0..4 {
                let low = _mm512_shuffle_i32x4::<0x88>(z[i], z[i + 4]);
                let high = _mm512_shuffle_i32x4::<0xDD>(z[i], z[i + 4]);
                let low_of_rest = _mm512_shuffle_i32x4::<0x88>(z[i + 8], z[i + 12]);
                let high_of_rest = _mm512_shuffle_i32x4::<0xDD>(z[i + 8], z[i + 12]);
                y[i] = _mm512_shuffle_i32x4::<0x88>(low, low_of_rest);
                y[i + 4] = _mm512_shuffle_i32x4::<0x88>(high, high_of_rest);
                y[i + 8] = _mm512_shuffle_i32x4::<0xDD>(low, low_of_rest);
                y[i + 12] = _mm512_shuffle_i32x4::<0xDD>(high, high_of_rest);
            }
            y
        }
    }
}
