//! Vectors as arrays, compiled to the vectors of the compilation target.

use super::lanes::{ByteLanes, RowKernel};
use crate::isa::Portable;

type Words = [u32; 8];

#[inline(always)]
fn each(a: Words, b: Words, of: impl Fn(u32, u32) -> u32) -> Words {
    std::array::from_fn(|i| of(a[i], b[i]))
}

/// Applies `of` to 64-bit words, lane by lane.
#[inline(always)]
fn pairs(a: Words, b: Words, of: impl Fn(u64, u64) -> u64) -> Words {
    let word = |a: Words, i: usize| u64::from(a[i & !1]) | u64::from(a[i | 1]) << 32;
    std::array::from_fn(|i| (of(word(a, i), word(b, i)) >> (32 * (i & 1))) as u32)
}

impl ByteLanes for Portable<8> {
    type Vector = Words;
    const BYTES: usize = 32;

    fn run<K: RowKernel>(self, kernel: K) -> K::Output {
        kernel.run(self)
    }

    #[inline(always)]
    fn zero(self) -> Words {
        [0; 8]
    }

    #[inline(always)]
    fn xor(self, a: Words, b: Words) -> Words {
        each(a, b, |a, b| a ^ b)
    }

    #[inline(always)]
    fn and(self, a: Words, b: Words) -> Words {
        each(a, b, |a, b| a & b)
    }

    #[inline(always)]
    fn splat32(self, word: u32) -> Words {
        [word; 8]
    }

    #[inline(always)]
    fn splat64(self, word: u64) -> Words {
        std::array::from_fn(|i| (word >> (32 * (i & 1))) as u32)
    }

    #[inline(always)]
    fn add32(self, a: Words, b: Words) -> Words {
        each(a, b, u32::wrapping_add)
    }

    #[inline(always)]
    fn add64(self, a: Words, b: Words) -> Words {
        pairs(a, b, u64::wrapping_add)
    }

    #[inline(always)]
    fn top_masks(self, a: Words) -> Words {
        each(a, a, |a, _| ((a as i32) >> 31) as u32)
    }

    #[inline(always)]
    fn mul32(self, a: Words, b: Words) -> Words {
        each(a, b, u32::wrapping_mul)
    }

    #[inline(always)]
    fn mul_lower(self, a: Words, b: Words) -> Words {
        pairs(a, b, |a, b| u64::from(a as u32) * u64::from(b as u32))
    }

    #[inline(always)]
    fn raise(self, a: Words) -> Words {
        std::array::from_fn(|i| if i & 1 == 0 { 0 } else { a[i - 1] })
    }
}
