//! Lanes in plain Rust, which the compiler keeps in the target's vectors.

use super::lanes::{Kernel, WordLanes};
use crate::isa::Portable;

macro_rules! portable {
    ($lanes:literal) => {
        impl WordLanes<$lanes> for Portable<$lanes> {
            type Vector = [u32; $lanes];
            type Wide = [u64; $lanes / 2];
            const FOLD_ROWS: usize = 2;
            const NARROW: bool = false;

            fn run<K: Kernel>(self, kernel: K) -> K::Output {
                kernel.run(self)
            }

            #[inline(always)]
            fn splat(self, word: u32) -> Self::Vector {
                [word; $lanes]
            }

            #[inline(always)]
            fn stream(self, a: Self::Vector, words: &mut [u32; $lanes]) {
                self.store(a, words);
            }

            #[inline(always)]
            fn fence(self) {}

            #[inline(always)]
            fn add(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
                std::array::from_fn(|i| a[i].wrapping_add(b[i]))
            }

            #[inline(always)]
            fn sub(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
                std::array::from_fn(|i| a[i].wrapping_sub(b[i]))
            }

            #[inline(always)]
            fn min(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
                std::array::from_fn(|i| a[i].min(b[i]))
            }

            #[inline(always)]
            fn mul_low(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
                std::array::from_fn(|i| a[i].wrapping_mul(b[i]))
            }

            #[inline(always)]
            fn mul_high(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
                std::array::from_fn(|i| ((u64::from(a[i]) * u64::from(b[i])) >> 32) as u32)
            }

            #[inline(always)]
            fn shift_right(self, a: Self::Vector, bits: u32) -> Self::Vector {
                a.map(|a| (u64::from(a) >> bits) as u32)
            }

            #[inline(always)]
            fn shift_left(self, a: Self::Vector, bits: u32) -> Self::Vector {
                a.map(|a| (u64::from(a) << bits) as u32)
            }

            #[inline(always)]
            fn and(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
                std::array::from_fn(|i| a[i] & b[i])
            }

            #[inline(always)]
            fn permute(self, a: Self::Vector, places: Self::Vector) -> Self::Vector {
                places.map(|place| a[place as usize])
            }

            #[inline(always)]
            fn transpose(self, rows: [Self::Vector; $lanes]) -> [Self::Vector; $lanes] {
                std::array::from_fn(|i| std::array::from_fn(|j| rows[j][i]))
            }

            #[inline(always)]
            fn zeros(self) -> Self::Wide {
                [0; $lanes / 2]
            }

            #[inline(always)]
            fn splat_wide(self, number: u64) -> Self::Wide {
                [number; $lanes / 2]
            }

            #[inline(always)]
            fn pairs(self, a: Self::Vector) -> Self::Wide {
                std::array::from_fn(|i| u64::from(a[2 * i]) | u64::from(a[2 * i + 1]) << 32)
            }

            #[inline(always)]
            fn even(self, a: Self::Vector) -> Self::Wide {
                std::array::from_fn(|i| u64::from(a[2 * i]))
            }

            #[inline(always)]
            fn odd(self, a: Self::Vector) -> Self::Wide {
                std::array::from_fn(|i| u64::from(a[2 * i + 1]))
            }

            #[inline(always)]
            fn mul_wide(self, a: Self::Wide, b: Self::Wide) -> Self::Wide {
                std::array::from_fn(|i| u64::from(a[i] as u32) * u64::from(b[i] as u32))
            }

            #[inline(always)]
            fn add_wide(self, a: Self::Wide, b: Self::Wide) -> Self::Wide {
                std::array::from_fn(|i| a[i].wrapping_add(b[i]))
            }

            #[inline(always)]
            fn and_wide(self, a: Self::Wide, b: Self::Wide) -> Self::Wide {
                std::array::from_fn(|i| a[i] & b[i])
            }

            #[inline(always)]
            fn or_wide(self, a: Self::Wide, b: Self::Wide) -> Self::Wide {
                std::array::from_fn(|i| a[i] | b[i])
            }

            #[inline(always)]
            fn shift_right_wide<const BITS: u32>(self, a: Self::Wide) -> Self::Wide {
                a.map(|a| a >> BITS)
            }

            #[inline(always)]
            fn rotate_left_wide<const BITS: i32>(self, a: Self::Wide) -> Self::Wide {
                a.map(|a| a.rotate_left(BITS as u32))
            }

            #[inline(always)]
            fn high(self, a: Self::Wide) -> Self::Wide {
                a.map(|a| a >> 32)
            }

            #[inline(always)]
            fn join_low(self, even: Self::Wide, odd: Self::Wide) -> Self::Vector {
                std::array::from_fn(|i| if i % 2 == 0 { even[i / 2] } else { odd[i / 2] } as u32)
            }

            #[inline(always)]
            fn join_high(self, even: Self::Wide, odd: Self::Wide) -> Self::Vector {
                self.join_low(self.high(even), self.high(odd))
            }
        }
    };
}

portable!(8);
// The shape of AVX-512's vectors, in a form that tests can run anywhere.
#[cfg(test)]
portable!(16);
