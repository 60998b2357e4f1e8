//! Lanes in plain Rust: the portable kernel of machines other than x86-64.

use super::rows::{self, Rows};
use super::{ModuleKernel, PairLanes};
use crate::isa::Portable;

type Lanes<const N: usize> = [u32; N];

/// Applies `f` to the 16-bit words of each lane.
#[inline(always)]
fn words<const N: usize>(a: Lanes<N>, b: Lanes<N>, f: impl Fn(i16, i16) -> i16) -> Lanes<N> {
    std::array::from_fn(|lane| {
        let low = f(a[lane] as i16, b[lane] as i16);
        let high = f((a[lane] >> 16) as i16, (b[lane] >> 16) as i16);
        u32::from(low as u16) | (u32::from(high as u16) << 16)
    })
}

impl<const N: usize> PairLanes for Portable<N> {
    type Vector = Lanes<N>;
    const LANES: usize = N;

    #[inline(always)]
    fn splat(self, lane: u32) -> Lanes<N> {
        [lane; N]
    }

    #[inline(always)]
    fn add(self, a: Lanes<N>, b: Lanes<N>) -> Lanes<N> {
        words(a, b, i16::wrapping_add)
    }

    #[inline(always)]
    fn add_saturating(self, a: Lanes<N>, b: Lanes<N>) -> Lanes<N> {
        words(a, b, i16::saturating_add)
    }

    #[inline(always)]
    fn sub(self, a: Lanes<N>, b: Lanes<N>) -> Lanes<N> {
        words(a, b, i16::wrapping_sub)
    }

    #[inline(always)]
    fn mul_low(self, a: Lanes<N>, b: Lanes<N>) -> Lanes<N> {
        words(a, b, i16::wrapping_mul)
    }

    #[inline(always)]
    fn mul_high(self, a: Lanes<N>, b: Lanes<N>) -> Lanes<N> {
        words(a, b, |a, b| ((i32::from(a) * i32::from(b)) >> 16) as i16)
    }

    #[inline(always)]
    fn low_bytes(self, a: Lanes<N>) -> Lanes<N> {
        words(a, a, |a, _| i16::from(a as i8))
    }

    #[inline(always)]
    fn high_bytes(self, a: Lanes<N>) -> Lanes<N> {
        words(a, a, |a, _| a >> 8)
    }

    #[inline(always)]
    fn transpose(self, a: Lanes<N>, b: Lanes<N>) -> (Lanes<N>, Lanes<N>) {
        (
            std::array::from_fn(|lane| (a[lane] & 0xFFFF) | (b[lane] << 16)),
            std::array::from_fn(|lane| (a[lane] >> 16) | (b[lane] & 0xFFFF_0000)),
        )
    }

    #[inline(always)]
    fn multiply_add(self, sums: Lanes<N>, a: Lanes<N>, b: Lanes<N>) -> Lanes<N> {
        std::array::from_fn(|lane| {
            let low = i32::from(a[lane] as i16) * i32::from(b[lane] as i16);
            let high = i32::from((a[lane] >> 16) as i16) * i32::from((b[lane] >> 16) as i16);
            sums[lane].wrapping_add(low as u32).wrapping_add(high as u32)
        })
    }

    #[inline(always)]
    fn add_lanes(self, a: Lanes<N>, b: Lanes<N>) -> Lanes<N> {
        std::array::from_fn(|lane| a[lane].wrapping_add(b[lane]))
    }

    #[inline(always)]
    fn sub_lanes(self, a: Lanes<N>, b: Lanes<N>) -> Lanes<N> {
        std::array::from_fn(|lane| a[lane].wrapping_sub(b[lane]))
    }

    #[inline(always)]
    fn shift_left<const BITS: i32>(self, a: Lanes<N>) -> Lanes<N> {
        a.map(|lane| lane << BITS)
    }

    #[inline(always)]
    fn shift_right<const BITS: i32>(self, a: Lanes<N>) -> Lanes<N> {
        a.map(|lane| ((lane as i32) >> BITS) as u32)
    }

    #[inline(always)]
    fn xor(self, a: Lanes<N>, b: Lanes<N>) -> Lanes<N> {
        std::array::from_fn(|lane| a[lane] ^ b[lane])
    }
}

impl<const N: usize> ModuleKernel for Portable<N> {
    fn fold_rows(self, rows: Rows<'_, Lanes<N>>) {
        rows::fold_rows(self, rows);
    }
}
