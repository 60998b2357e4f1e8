//! Four primes, their constants for signed 16-bit arithmetic, and the recombination of their
//! residues.
//!
//! # Signed Montgomery arithmetic in 16 bits
//! For a constant w with |w| <= q/2 and any signed 16-bit word y, let t be the low half of
//! `y * (w / q mod 2^16)`. Then y w - t q is a multiple of 2^16, and its high half is
//! `r = mulhi(y, w) - mulhi(t, q) = y w 2^-16 mod q` with
//! `|r| <= |y| (q - 1) / 2^17 + q / 2 < 0.61 q`. This takes two high products, one low product and
//! a subtraction, with no condition on y. Twiddles carry a factor of 2^16 in advance.

use spirea_math::Modulus;

use super::PairLanes;

/// Number of primes.
pub(super) const COUNT: usize = 4;

/// The four largest primes below 2^14 - 2^11 that are 1 mod 512. Larger primes would overflow 16
/// bits after three layers of a transform instead of four.
pub(super) const PRIMES: [Modulus; COUNT] =
    [Modulus::new(13313), Modulus::new(12289), Modulus::new(11777), Modulus::new(10753)];

/// Q, the product of the primes: 2^54.2.
pub(super) const PRODUCT: u128 = {
    let mut product = 1;
    let mut i = 0;
    while i < COUNT {
        product *= PRIMES[i].value() as u128;
        i += 1;
    }
    product
};

/// Returns the signed representative of least magnitude.
pub(super) const fn centred(residue: u32, q: Modulus) -> i16 {
    if residue > q.value() / 2 { residue as i16 - q.value() as i16 } else { residue as i16 }
}

/// Returns a lane with `word` in both halves.
pub(super) const fn twice(word: i16) -> u32 {
    word as u16 as u32 * 0x1_0001
}

/// Constant factor for Montgomery products, in both halves of a lane.
#[derive(Clone, Copy, Debug)]
pub(super) struct Factor {
    /// w 2^16 mod q, centred.
    pub value: u32,
    /// `value` divided by q, mod 2^16.
    pub quotient: u32,
}

/// Constants of a prime, each in both halves of a lane unless stated otherwise.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prime {
    pub modulus: Modulus,
    /// q.
    pub q: u32,
    /// 1/q mod 2^16, in the low half alone.
    pub inverse_low: u32,
    /// q, in the low half alone.
    pub q_low: u32,
    /// 2^16 / q, rounded; see [`super::ntt::reduce`].
    pub reciprocal: u32,
    /// Half of a quotient step: 2^15 / `reciprocal`.
    pub half: u32,
}

impl Prime {
    pub(super) const fn new(modulus: Modulus) -> Self {
        let q = modulus.value();
        let reciprocal = (65536 + q / 2) / q;
        Self {
            modulus,
            q: twice(q as i16),
            inverse_low: inverse(q) as u32,
            q_low: q,
            reciprocal: twice(reciprocal as i16),
            half: twice((32768 / reciprocal) as i16),
        }
    }

    /// Returns the factor w, for w < q.
    pub(super) fn factor(&self, w: u32) -> Factor {
        let value = centred(self.modulus.mul(w, 1 << 16), self.modulus);
        let quotient = (value as u16).wrapping_mul(inverse(self.modulus.value()));
        Factor { value: twice(value), quotient: twice(quotient as i16) }
    }
}

/// Returns 1/q mod 2^16, by Newton's iteration.
const fn inverse(q: u32) -> u16 {
    let q = q as u16;
    let mut inverse = q; // q q = 1 mod 8
    let mut i = 0;
    while i < 4 {
        inverse = inverse.wrapping_mul(2u16.wrapping_sub(q.wrapping_mul(inverse)));
        i += 1;
    }
    inverse
}

/// Recombination modulo 2^32. With y_i = x (Q / q_i)^-1 mod q_i, in any representation, x = sum of
/// y_i Q / q_i - v Q, where v is the integer closest to the sum of y_i / q_i, provided that |x|
/// stays clear of Q/2.
///
/// All products are of 16-bit words, for two primes at a time.
pub(super) struct Recombination;

/// Low and high 16-bit digits of constants for two primes: the first prime's in the low half of a
/// lane, the second's in the high half. The digits are balanced, like those of queries.
#[derive(Clone, Copy)]
struct Digits {
    low: u32,
    high: u32,
}

impl Digits {
    const fn new(first: u32, second: u32) -> Self {
        const fn high(word: u32) -> u32 {
            word.wrapping_sub(word as i16 as u32) >> 16
        }
        Self { low: (first & 0xFFFF) | (second << 16), high: high(first) | (high(second) << 16) }
    }
}

impl Recombination {
    /// Bits of the fractions y_i / q_i. The largest constant, 2^28 / 10753, is just below 2^15. The
    /// sum of four fractions is below 2^31 for |y_i| < q_i, with an error of at most COUNT 2^14 /
    /// 2^28 = 2^-12.
    const FRACTION_BITS: i32 = 28;
    const FRACTIONS: [u32; COUNT / 2] = [Self::fractions(0), Self::fractions(2)];
    const COFACTORS: [Digits; COUNT / 2] = [Self::cofactors(0), Self::cofactors(2)];
    const PRODUCT_DIGITS: Digits = Digits::new(PRODUCT as u32, 0);

    const fn fractions(i: usize) -> u32 {
        let first = (1 << Self::FRACTION_BITS) / PRIMES[i].value();
        let second = (1 << Self::FRACTION_BITS) / PRIMES[i + 1].value();
        assert!(first < 1 << 15 && second < 1 << 15, "fractions are signed words");
        first | (second << 16)
    }

    const fn cofactors(i: usize) -> Digits {
        Digits::new(
            (PRODUCT / PRIMES[i].value() as u128) as u32,
            (PRODUCT / PRIMES[i + 1].value() as u128) as u32,
        )
    }

    /// Returns (Q / q_i)^-1 mod q_i; the caller multiplies residues by it.
    pub(super) fn scale(i: usize) -> u32 {
        let q = PRIMES[i];
        q.inverse((PRODUCT / q.value() as u128 % q.value() as u128) as u32)
    }

    /// Returns x mod 2^32 in each lane, from y_0 and y_1, and y_2 and y_3, in the halves of lanes;
    /// |y_i| < q_i.
    #[inline(always)]
    pub(super) fn join<L: PairLanes>(lanes: L, y: [L::Vector; COUNT / 2]) -> L::Vector {
        let (mut low, mut high) = (lanes.splat(0), lanes.splat(0));
        let mut fraction = lanes.splat(1 << (Self::FRACTION_BITS - 1));
        for ((y, cofactors), fractions) in y.into_iter().zip(Self::COFACTORS).zip(Self::FRACTIONS) {
            low = lanes.multiply_add(low, y, lanes.splat(cofactors.low));
            high = lanes.multiply_add(high, y, lanes.splat(cofactors.high));
            fraction = lanes.multiply_add(fraction, y, lanes.splat(fractions));
        }
        // v is small, so the low half of its lane is v itself. The high half is multiplied by zero.
        let v = lanes.shift_right::<{ Self::FRACTION_BITS }>(fraction);
        let zero = lanes.splat(0);
        low = lanes.sub_lanes(low, lanes.multiply_add(zero, v, lanes.splat(Self::PRODUCT_DIGITS.low)));
        high = lanes.sub_lanes(high, lanes.multiply_add(zero, v, lanes.splat(Self::PRODUCT_DIGITS.high)));
        lanes.add_lanes(low, lanes.shift_left::<16>(high))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::Portable;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn recombination_inverts_reduction(
            x in -(1i64 << 53)..=1i64 << 53,
            lazy in prop::array::uniform4(any::<bool>()),
        ) {
            let y: [i32; COUNT] = std::array::from_fn(|i| {
                let q = PRIMES[i];
                let y = q.mul(q.from_signed(x), Recombination::scale(i)) as i32;
                if lazy[i] { y - q.value() as i32 } else { y }
            });
            let pairs = [0, 2].map(|i: usize| [(y[i] as u16 as u32) | ((y[i + 1] as u32) << 16); 4]);
            prop_assert_eq!(Recombination::join(Portable::<4>, pairs), [x as u32; 4]);
        }
    }

    #[test]
    fn inverses_invert() {
        for prime in PRIMES {
            assert_eq!(inverse(prime.value()).wrapping_mul(prime.value() as u16), 1);
        }
    }
}
