//! Division by a public number without a division instruction.

/// A public divisor with its reciprocal. On many processors, the time of a division depends on its
/// operands, so a secret is multiplied by the reciprocal instead.
#[derive(Clone, Copy, Debug)]
pub struct Divisor {
    divisor: u64,
    /// The reciprocal minus 2^64: floor(2^64 (2^`bits` - d) / d) + 1.
    reciprocal: u64,
    /// Least number of bits with d at most 2^`bits`.
    bits: u32,
}

impl Divisor {
    /// Prepares division by `divisor`. Uses a division itself, so the divisor must be public.
    ///
    /// # Panics
    /// If the divisor is zero.
    pub const fn new(divisor: u64) -> Self {
        assert!(divisor != 0, "nothing is divided by zero");
        let bits = u64::BITS - (divisor - 1).leading_zeros();
        let beyond = (1u128 << bits) - divisor as u128;
        Self { divisor, reciprocal: ((beyond << 64) / divisor as u128 + 1) as u64, bits }
    }

    /// Returns quotient and remainder of any number, exactly (Granlund and Montgomery, "Division by
    /// invariant integers using multiplication", PLDI 1994, figure 4.1).
    #[inline]
    pub const fn divide(self, number: u64) -> (u64, u64) {
        let high = ((number as u128 * self.reciprocal as u128) >> 64) as u64;
        // The sum of `high` and `number` may take 65 bits, so half of their difference is added
        // instead, unless the divisor is 1.
        let (first, then) = if self.bits == 0 { (0, 0) } else { (1, self.bits - 1) };
        let quotient = (high + ((number - high) >> first)) >> then;
        (quotient, number - quotient * self.divisor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Generates numbers of every length, and numbers next to powers of two.
    fn number() -> impl Strategy<Value = u64> {
        let of_length = (any::<u64>(), 0u32..64).prop_map(|(number, shift)| number >> shift);
        let edge = (0u32..64, -2i64..3).prop_map(|(bit, off)| (1u64 << bit).wrapping_add_signed(off));
        prop_oneof![of_length, edge]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]
        #[test]
        fn quotients_and_remainders_are_those_of_the_instruction(
            a in number(), divisor in number().prop_filter("a divisor", |&divisor| divisor > 0), times in number(), off in -1i64..2,
        ) {
            // Numbers next to a multiple reveal small errors of the reciprocal.
            for number in [a, divisor.wrapping_mul(times).wrapping_add_signed(off)] {
                prop_assert_eq!(Divisor::new(divisor).divide(number), (number / divisor, number % divisor));
            }
        }
    }

    #[test]
    fn small_divisors_divide_the_ends_of_the_range() {
        for divisor in 1..2000 {
            let reciprocal = Divisor::new(divisor);
            for number in (0..3000).chain(u64::MAX - 3000..=u64::MAX) {
                assert_eq!(reciprocal.divide(number), (number / divisor, number % divisor));
            }
        }
    }
}
