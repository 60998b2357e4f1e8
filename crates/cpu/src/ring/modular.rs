//! Vectors of words modulo a prime q < 2^30.
//!
//! Two ways to multiply. By a constant w with Shoup's companion floor(w 2^32 / q): the quotient is
//! underestimated by at most 1, so the product of *any* word lies in [0, 2q). And by Montgomery's reduction of
//! a sum of 64-bit products, which divides it by 2^32: whoever prepares one of the factors multiplies it by
//! 2^32 in advance.

use std::hint::black_box;

use spirea_math::{Modulus, ShoupWord};

use super::lanes::{Kernel, WordLanes};

/// Most multiples of q that the high half of a sum may have: [`Prime::montgomery`] takes them off.
const SUM_MULTIPLES: u64 = 8;

/// How many products of a word below `bound` and a residue a 64-bit sum holds, such that [`Prime::montgomery`]
/// can reduce it: the sum stays below 2^64 and below 2^32 times 8q.
pub(super) const fn lazy_terms(q: Modulus, bound: u64) -> usize {
    let product = (bound - 1) as u128 * (q.value() as u128 - 1);
    let (by_word, by_multiples) = ((1u128 << 64) - 1, (SUM_MULTIPLES as u128 * q.value() as u128) << 32);
    let most = if by_word < by_multiples { by_word } else { by_multiples - 1 };
    (most / product) as usize
}

// A sum of four products of any words and residues fits whatever the prime: gadgets of four digits need no
// reduction in between.
const _: () = assert!(lazy_terms(Modulus::new((1 << 30) - 35), 1 << 32) >= 4);

/// 2^32 modulo q: what Montgomery's reduction divides by.
pub(super) fn montgomery_one(q: Modulus) -> u32 {
    ((1u64 << 32) % u64::from(q.value())) as u32
}

/// A prime's constants in registers.
#[derive(Clone, Copy)]
pub(super) struct Prime<V> {
    q: V,
    two_q: V,
    four_q: V,
    /// Modulo 2^32, as the next.
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

    /// `W` values, then their companions.
    #[inline(always)]
    pub(super) fn load<L: WordLanes<W, Vector = V>, const W: usize>(lanes: L, words: [&[u32; W]; 2]) -> Self {
        Self { value: lanes.load(words[0]), quotient: lanes.load(words[1]) }
    }
}

impl<V: Copy> Prime<V> {
    #[inline(always)]
    pub(super) fn new<L: WordLanes<W, Vector = V>, const W: usize>(lanes: L, q: Modulus) -> Self {
        // 4q fits the word: moduli are below 2^30.
        Self {
            q: lanes.splat(q.value()),
            two_q: lanes.splat(2 * q.value()),
            four_q: lanes.splat(4 * q.value()),
            eight_q: lanes.splat(q.value().wrapping_mul(8)),
            sixteen_q: lanes.splat(q.value().wrapping_mul(16)),
            inverse: lanes.splat(inverse(q.value())),
        }
    }

    /// Below 2q to below q. Where the subtraction wraps, the other operand is the lesser.
    #[inline(always)]
    pub(super) fn below_q<L: WordLanes<W, Vector = V>, const W: usize>(self, lanes: L, a: V) -> V {
        lanes.min(a, lanes.sub(a, self.q))
    }

    /// Below `from` q to below `to` q or less, powers of two from 2 to 32: a step halves the bound. Steps are no loop,
    /// because the compiler knows both bounds.
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

    /// The step of [`Self::reduce`] to below `half` q, where it is on the way.
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

    /// a - b plus a multiple of q, which b does not exceed.
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

    /// a + b below q, for a and b below q.
    #[inline(always)]
    pub(super) fn add<L: WordLanes<W, Vector = V>, const W: usize>(self, lanes: L, a: V, b: V) -> V {
        self.below_q(lanes, lanes.add(a, b))
    }

    /// a - b below q, for a and b below q: where the difference wraps, adding q makes it the lesser.
    #[inline(always)]
    pub(super) fn sub<L: WordLanes<W, Vector = V>, const W: usize>(self, lanes: L, a: V, b: V) -> V {
        let difference = lanes.sub(a, b);
        lanes.min(difference, lanes.add(difference, self.q))
    }

    /// a - b + 2q.
    #[inline(always)]
    pub(super) fn sub_lazy<L: WordLanes<W, Vector = V>, const W: usize>(self, lanes: L, a: V, b: V) -> V {
        self.difference(lanes, a, b, 2)
    }

    /// Any word times a factor, below 2q.
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

    /// Any word times a factor, below q.
    #[inline(always)]
    pub(super) fn mul<L: WordLanes<W, Vector = V>, const W: usize>(
        self,
        lanes: L,
        a: V,
        factor: Factor<V>,
    ) -> V {
        self.below_q(lanes, self.mul_lazy(lanes, a, factor))
    }

    /// Sums over 2^32 modulo q, below q; the sums of even and of odd lanes are below 2^35 q.
    #[inline(always)]
    pub(super) fn montgomery<L: WordLanes<W, Vector = V>, const W: usize>(
        self,
        lanes: L,
        even: L::Wide,
        odd: L::Wide,
    ) -> V {
        let (q, inverse) = (lanes.even(self.q), lanes.even(self.inverse));
        // The multiple of q with the same low half: the low halves cancel, the high halves remain.
        let multiple_even = lanes.mul_wide(lanes.mul_wide(even, inverse), q);
        let multiple_odd = lanes.mul_wide(lanes.mul_wide(odd, inverse), q);
        let below = lanes.join_high(multiple_even, multiple_odd);
        let high = self.below_q(lanes, self.reduce(lanes, lanes.join_high(even, odd), 8, 2));
        self.sub(lanes, high, below)
    }
}

/// Chains of a product and a sum, and nothing else: the ceiling of the arithmetic. Returns the number of
/// products.
pub(super) struct MultiplyAdds {
    pub rounds: u64,
}

impl Kernel for MultiplyAdds {
    type Output = u64;

    #[inline(always)]
    fn run<L: WordLanes<W>, const W: usize>(self, lanes: L) -> u64 {
        // As many chains as hide the latencies.
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

/// 1/q modulo 2^32, by Newton's iteration: every step doubles the number of right bits.
const fn inverse(q: u32) -> u32 {
    let (mut inverse, mut step) = (q, 0);
    while step < 4 {
        inverse = inverse.wrapping_mul(2u32.wrapping_sub(q.wrapping_mul(inverse)));
        step += 1;
    }
    inverse
}
