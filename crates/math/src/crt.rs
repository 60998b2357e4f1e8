//! Recombination of residues modulo two primes, for exact integer convolutions.

use crate::modulus::{Modulus, ShoupWord};

/// Two primes whose residues represent an integer in (-q0 q1 / 2, q0 q1 / 2).
#[derive(Clone, Copy, Debug)]
pub struct PrimePair {
    first: Modulus,
    second: Modulus,
    first_inverse: ShoupWord,
}

impl PrimePair {
    /// The two largest primes below 2^29 that are 1 mod 2^18, which are the first two of the RLWE
    /// sets. Their product is 2^57.99.
    pub const LARGEST: Self = Self::new(Modulus::new(536_608_769), Modulus::new(533_463_041));

    /// Creates the pair of `first` and `second`.
    ///
    /// # Panics
    /// If the primes are equal.
    pub const fn new(first: Modulus, second: Modulus) -> Self {
        assert!(first.value() != second.value(), "the primes of a pair differ");
        let first_inverse = second.shoup(second.inverse(first.value() % second.value()));
        Self { first, second, first_inverse }
    }

    /// Returns q0.
    pub const fn first(&self) -> Modulus {
        self.first
    }

    /// Returns q1.
    pub const fn second(&self) -> Modulus {
        self.second
    }

    /// Returns q0 q1.
    pub const fn product(&self) -> u64 {
        self.first.value() as u64 * self.second.value() as u64
    }

    /// Returns q0^-1 mod q1 with its companion, for vectorised recombination.
    pub const fn first_inverse(&self) -> ShoupWord {
        self.first_inverse
    }

    /// Returns the integer of least magnitude with residues `r0` < q0 and `r1` < q1 (Garner).
    #[inline]
    pub const fn recombine(&self, r0: u32, r1: u32) -> i64 {
        let lifted = self.second.mul_lazy(r1 + 2 * self.second.value() - r0, self.first_inverse);
        let digit = self.second.reduce_lazy(lifted);
        let value = r0 as u64 + self.first.value() as u64 * digit as u64;
        // The sign of the difference is the mask: the value may be secret, so there is no branch.
        let above_half = ((self.product() / 2) as i64 - value as i64) >> 63;
        value as i64 - (self.product() as i64 & above_half)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn recombination_inverts_reduction(value in -(PrimePair::LARGEST.product() as i64 / 2)..=(PrimePair::LARGEST.product() as i64 / 2)) {
            let pair = PrimePair::LARGEST;
            prop_assert_eq!(pair.recombine(pair.first().from_signed(value), pair.second().from_signed(value)), value);
        }
    }

    #[test]
    fn the_ends_of_the_range_recombine() {
        let pair = PrimePair::LARGEST;
        let half = (pair.product() / 2) as i64;
        for value in [-half, -half + 1, -1, 0, 1, half - 1, half] {
            assert_eq!(
                pair.recombine(pair.first().from_signed(value), pair.second().from_signed(value)),
                value
            );
        }
    }
}
