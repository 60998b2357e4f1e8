//! Vectors of words modulo a prime q < 2^30.
//!
//! There are two ways to multiply:
//!
//! - By a constant w with Shoup's companion floor(w 2^32 / q). The quotient is underestimated by at
//!   most 1, so the product of *any* word lies in [0, 2q).
//! - By Montgomery's reduction of a sum of 64-bit products, which divides the sum by 2^32. One of
//!   the factors must be multiplied by 2^32 in advance.

use std::hint::black_box;

use spirea_math::{Modulus, ShoupWord};

use super::lanes::{Kernel, WordLanes};

/// Maximum multiple of q in the high half of a sum, which [`Prime::montgomery`] reduces.
const SUM_MULTIPLES: u64 = 8;

/// Returns the number of products of a word below `bound` and a residue whose sum
/// [`Prime::montgomery`] can reduce: the sum stays below 2^64 and below 2^32 times 8q.
pub(super) const fn lazy_terms(q: Modulus, bound: u64) -> usize {
    let product = (bound - 1) as u128 * (q.value() as u128 - 1);
    let (by_word, by_multiples) = ((1u128 << 64) - 1, (SUM_MULTIPLES as u128 * q.value() as u128) << 32);
    let most = if by_word < by_multiples { by_word } else { by_multiples - 1 };
    (most / product) as usize
}

// A sum of four products of any words and residues fits for every prime, so gadgets of four digits
// need no reduction in between.
const _: () = assert!(lazy_terms(Modulus::new((1 << 30) - 35), 1 << 32) >= 4);

/// Returns 2^32 modulo q, the divisor of Montgomery's reduction.
pub(super) fn montgomery_one(q: Modulus) -> u32 {
    ((1u64 << 32) % u64::from(q.value())) as u32
}

/// A prime's constants in registers.
#[derive(Clone, Copy)]
pub(super) struct Prime<V> {
    q: V,
    two_q: V,
    four_q: V,
    /// 8q and 16q are stored modulo 2^32.
    eight_q: V,
    sixteen_q: V,
    /// 1/q modulo 2^32.
    inverse: V,
}

/// A constant factor in registers.
#[derive(Clone, Copy)]
pub(super) struct Factor<V> {
    value: V,
    quotient: V,
}

impl<V: Copy> Factor<V> {
    #[inline(always)]
    pub(super) fn splat<L: WordLanes<W, Vector = V>, const W: usize>(lanes: L, word: ShoupWord) -> Self {
        Self { value: lanes.splat(word.value), quotient: lanes.splat(word.quotient) }
    }

    /// Loads `W` values, then their companions.
    #[inline(always)]
    pub(super) fn load<L: WordLanes<W, Vector = V>, const W: usize>(lanes: L, words: [&[u32; W]; 2]) -> Self {
        Self { value: lanes.load(words[0]), quotient: lanes.load(words[1]) }
    }
}

impl<V: Copy> Prime<V> {
    #[inline(always)]
    pub(super) fn new<L: WordLanes<W, Vector = V>, const W: usize>(lanes: L, q: Modulus) -> Self {
        // 4q fits a word, since moduli are below 2^30.
        Self {
            q: lanes.splat(q.value()),
            two_q: lanes.splat(2 * q.value()),
            four_q: lanes.splat(4 * q.value()),
            eight_q: lanes.splat(q.value().wrapping_mul(8)),
            sixteen_q: lanes.splat(q.value().wrapping_mul(16)),
            inverse: lanes.splat(inverse(q.value())),
        }
    }

    /// Reduces `a` from below 2q to below q: returns the smaller of `a` and `a - q`, which is `a`
    /// if the subtraction wraps.
    #[inline(always)]
    pub(super) fn below_q<L: WordLanes<W, Vector = V>, const W: usize>(self, lanes: L, a: V) -> V {
        lanes.min(a, lanes.sub(a, self.q))
    }

    /// Reduces from below `from` q to below `to` q or less, powers of two from 2 to 32: each step
    /// halves the bound. The steps are not a loop, since the compiler knows both bounds.
    #[inline(always)]
    pub(super) fn reduce<L: WordLanes<W, Vector = V>, const W: usize>(
        self,
        lanes: L,
        mut a: V,
        from: u32,
        to: u32,
    ) -> V {
        a = self.halve(lanes, a, 16, from, to);
        a = self.halve(lanes, a, 8, from, to);
        a = self.halve(lanes, a, 4, from, to);
        self.halve(lanes, a, 2, from, to)
    }

    /// Performs the step of [`Self::reduce`] to below `half` q, if the reduction includes it.
    #[inline(always)]
    fn halve<L: WordLanes<W, Vector = V>, const W: usize>(
        self,
        lanes: L,
        a: V,
        half: u32,
        from: u32,
        to: u32,
    ) -> V {
        if from > half && to <= half { lanes.min(a, lanes.sub(a, self.multiple(half))) } else { a }
    }

    /// Returns a - b plus a multiple of q that is at least b.
    #[inline(always)]
    pub(super) fn difference<L: WordLanes<W, Vector = V>, const W: usize>(
        self,
        lanes: L,
        a: V,
        b: V,
        multiple: u32,
    ) -> V {
        lanes.sub(lanes.add(a, self.multiple(multiple)), b)
    }

    #[inline(always)]
    fn multiple(self, of: u32) -> V {
        match of {
            2 => self.two_q,
            4 => self.four_q,
            8 => self.eight_q,
            16 => self.sixteen_q,
            _ => unreachable!("multiples are powers of two from 2 to 16"),
        }
    }

    /// Returns a + b below q, for a and b below q.
    #[inline(always)]
    pub(super) fn add<L: WordLanes<W, Vector = V>, const W: usize>(self, lanes: L, a: V, b: V) -> V {
        self.below_q(lanes, lanes.add(a, b))
    }

    /// Returns a - b below q, for a and b below q: if the difference wraps, the sum with q is
    /// smaller.
    #[inline(always)]
    pub(super) fn sub<L: WordLanes<W, Vector = V>, const W: usize>(self, lanes: L, a: V, b: V) -> V {
        let difference = lanes.sub(a, b);
        lanes.min(difference, lanes.add(difference, self.q))
    }

    /// Returns a - b + 2q.
    #[inline(always)]
    pub(super) fn sub_lazy<L: WordLanes<W, Vector = V>, const W: usize>(self, lanes: L, a: V, b: V) -> V {
        self.difference(lanes, a, b, 2)
    }

    /// Returns any word times a factor, below 2q.
    #[inline(always)]
    pub(super) fn mul_lazy<L: WordLanes<W, Vector = V>, const W: usize>(
        self,
        lanes: L,
        a: V,
        factor: Factor<V>,
    ) -> V {
        let quotient = lanes.mul_high(a, factor.quotient);
        lanes.sub(lanes.mul_low(a, factor.value), lanes.mul_low(quotient, self.q))
    }

    /// Returns any word times a factor, below q.
    #[inline(always)]
    pub(super) fn mul<L: WordLanes<W, Vector = V>, const W: usize>(
        self,
        lanes: L,
        a: V,
        factor: Factor<V>,
    ) -> V {
        self.below_q(lanes, self.mul_lazy(lanes, a, factor))
    }

    /// Returns sums over 2^32 modulo q, below q; the sums of even and of odd lanes must be below
    /// 2^35 q.
    #[inline(always)]
    pub(super) fn montgomery<L: WordLanes<W, Vector = V>, const W: usize>(
        self,
        lanes: L,
        even: L::Wide,
        odd: L::Wide,
    ) -> V {
        let (q, inverse) = (lanes.even(self.q), lanes.even(self.inverse));
        // The multiple of q with the same low half: the low halves cancel, and the high halves
        // remain.
        let multiple_even = lanes.mul_wide(lanes.mul_wide(even, inverse), q);
        let multiple_odd = lanes.mul_wide(lanes.mul_wide(odd, inverse), q);
        let below = lanes.join_high(multiple_even, multiple_odd);
        let high = self.below_q(lanes, self.reduce(lanes, lanes.join_high(even, odd), 8, 2));
        self.sub(lanes, high, below)
    }
}

/// Kernel of chains of one product and one sum, without other work: the ceiling of the arithmetic.
/// Returns the number of products.
pub(super) struct MultiplyAdds {
    pub rounds: u64,
}

impl Kernel for MultiplyAdds {
    type Output = u64;

    #[inline(always)]
    fn run<L: WordLanes<W>, const W: usize>(self, lanes: L) -> u64 {
        // Enough chains to hide the latencies.
        let mut sums = [lanes.even(lanes.splat(3)); 12];
        let (factor, term) = (lanes.even(lanes.splat(black_box(5))), lanes.even(lanes.splat(black_box(7))));
        for _ in 0..self.rounds {
            for sum in &mut sums {
                *sum = lanes.add_wide(lanes.mul_wide(*sum, factor), term);
            }
        }
        black_box(sums);
        self.rounds * (sums.len() * W / 2) as u64
    }
}

/// Returns 1/q modulo 2^32, by Newton's iteration: every step doubles the number of correct bits.
const fn inverse(q: u32) -> u32 {
    let (mut inverse, mut step) = (q, 0);
    while step < 4 {
        inverse = inverse.wrapping_mul(2u32.wrapping_sub(q.wrapping_mul(inverse)));
        step += 1;
    }
    inverse
}
