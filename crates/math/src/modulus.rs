//! Arithmetic modulo a prime below 2^30.

/// A prime modulus q < 2^30, so that values up to 4q fit a 32-bit word and lazy butterflies never
/// overflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modulus(u32);

/// A constant factor w with Shoup's companion floor(w 2^32 / q), which turns a modular product by w
/// into two multiplications and no division.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ShoupWord {
    /// The factor, below q.
    pub value: u32,
    /// floor(value * 2^32 / q).
    pub quotient: u32,
}

impl Modulus {
    /// Creates the modulus `q`.
    ///
    /// # Panics
    /// If `q` is not an odd prime below 2^30. Moduli are constants of the code, never input.
    pub const fn new(q: u32) -> Self {
        assert!(q > 2 && q < 1 << 30 && is_prime(q), "a modulus is an odd prime below 2^30");
        Self(q)
    }

    /// Returns the modulus as a number.
    pub const fn value(self) -> u32 {
        self.0
    }

    /// Returns a + b for a, b < q.
    #[inline]
    pub const fn add(self, a: u32, b: u32) -> u32 {
        subtract_if_reached(a + b, self.0)
    }

    /// Returns a - b for a, b < q.
    #[inline]
    pub const fn sub(self, a: u32, b: u32) -> u32 {
        subtract_if_reached(a + self.0 - b, self.0)
    }

    /// Returns -a for a < q.
    #[inline]
    pub const fn neg(self, a: u32) -> u32 {
        self.sub(0, a)
    }

    /// Returns `a` times `b` mod q, for any words. Uses a division, whose time may depend on the
    /// words: for public values only.
    #[inline]
    pub const fn mul(self, a: u32, b: u32) -> u32 {
        (a as u64 * b as u64 % self.0 as u64) as u32
    }

    /// Returns `a` mod q, for a signed number of magnitude below q. A single masked addition:
    /// usable for secrets.
    #[inline]
    pub const fn lift(self, a: i32) -> u32 {
        (a as u32).wrapping_add(self.0 & (a >> 31) as u32)
    }

    /// Returns `a` mod q, in [0, q), for any signed number. Uses a division: for public values
    /// only.
    #[inline]
    pub const fn from_signed(self, a: i64) -> u32 {
        a.rem_euclid(self.0 as i64) as u32
    }

    /// Returns base^exponent mod q.
    pub const fn pow(self, base: u32, mut exponent: u64) -> u32 {
        let (mut result, mut square) = (1, base % self.0);
        while exponent > 0 {
            if exponent & 1 == 1 {
                result = self.mul(result, square);
            }
            square = self.mul(square, square);
            exponent >>= 1;
        }
        result
    }

    /// Returns the inverse of `a` mod q (0 for 0), by Fermat.
    pub const fn inverse(self, a: u32) -> u32 {
        self.pow(a, self.0 as u64 - 2)
    }

    /// Returns `w` with Shoup's companion.
    pub const fn shoup(self, w: u32) -> ShoupWord {
        ShoupWord { value: w, quotient: (((w as u64) << 32) / self.0 as u64) as u32 }
    }

    /// Returns x w mod q for any word x, in [0, 2q): floor(x w' / 2^32) underestimates the quotient
    /// by at most 1.
    #[inline]
    pub const fn mul_lazy(self, x: u32, w: ShoupWord) -> u32 {
        let quotient = ((x as u64 * w.quotient as u64) >> 32) as u32;
        x.wrapping_mul(w.value).wrapping_sub(quotient.wrapping_mul(self.0))
    }

    /// Reduces a value below 4q to [0, q).
    #[inline]
    pub const fn reduce_lazy(self, a: u32) -> u32 {
        subtract_if_reached(subtract_if_reached(a, 2 * self.0), self.0)
    }

    /// Returns a primitive root of unity of the given order, a power of two. It is derived from the
    /// least generator, so it is the same everywhere.
    ///
    /// # Panics
    /// If `order` is not a power of two that divides q - 1.
    pub fn root_of_unity(self, order: usize) -> u32 {
        assert!(
            order.is_power_of_two() && (self.0 as usize - 1).is_multiple_of(order),
            "order must divide q - 1"
        );
        (2..self.0)
            .map(|g| self.pow(g, (self.0 as usize - 1) as u64 / order as u64))
            .find(|&root| order == 1 || self.pow(root, order as u64 / 2) == self.0 - 1)
            .expect("a prime field has a root of every order that divides q - 1")
    }

    /// Returns the least primitive root of unity of the given order, a power of two.
    ///
    /// # Panics
    /// If `order` is not a power of two that divides q - 1.
    pub fn least_root_of_unity(self, order: usize) -> u32 {
        let root = self.root_of_unity(order);
        let square = self.mul(root, root);
        // The primitive roots are the odd powers of any primitive root.
        let odd_powers = std::iter::successors(Some(root), |&power| Some(self.mul(power, square)));
        odd_powers.take(order.div_ceil(2)).min().unwrap_or(root)
    }
}

/// Reduction of 64-bit numbers modulo a prime by Barrett's method, without a division: usable for
/// secrets.
#[derive(Clone, Copy, Debug)]
pub struct Barrett {
    modulus: Modulus,
    reciprocal: u64,
}

impl Barrett {
    /// Prepares reduction modulo `modulus`.
    pub const fn new(modulus: Modulus) -> Self {
        // q is odd, so floor((2^64 - 1) / q) = floor(2^64 / q).
        Self { modulus, reciprocal: u64::MAX / modulus.0 as u64 }
    }

    /// Returns x mod q: the quotient is underestimated by at most 1.
    #[inline]
    pub const fn reduce(self, x: u64) -> u32 {
        let quotient = ((x as u128 * self.reciprocal as u128) >> 64) as u64;
        subtract_if_reached((x - quotient * self.modulus.0 as u64) as u32, self.modulus.0)
    }

    /// Returns `a` times `b` mod q, for any words.
    #[inline]
    pub const fn mul(self, a: u32, b: u32) -> u32 {
        self.reduce(a as u64 * b as u64)
    }
}

/// Returns a - m if a >= m, else a, for a < 2m <= 2^32. The sign of the difference is the mask, so
/// that no branch depends on a secret.
#[inline]
pub(crate) const fn subtract_if_reached(a: u32, m: u32) -> u32 {
    let difference = a.wrapping_sub(m);
    difference.wrapping_add(m & ((difference as i32) >> 31) as u32)
}

const fn is_prime(q: u32) -> bool {
    if q.is_multiple_of(2) {
        return q == 2;
    }
    let mut divisor = 3;
    while divisor * divisor <= q {
        if q.is_multiple_of(divisor) {
            return false;
        }
        divisor += 2;
    }
    q > 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const Q: Modulus = Modulus::new(536_608_769);

    proptest! {
        #[test]
        fn lazy_product_agrees_with_division(x: u32, w in 0..Q.value()) {
            let lazy = Q.mul_lazy(x, Q.shoup(w));
            prop_assert!(lazy < 2 * Q.value());
            prop_assert_eq!(Q.reduce_lazy(lazy), Q.mul(x, w));
        }

        #[test]
        fn barrett_agrees_with_division(x in prop_oneof![any::<u64>(), Just(u64::MAX), Just(0)]) {
            for modulus in [Q, Modulus::new(3), Modulus::new(1_073_741_789)] {
                prop_assert_eq!(u64::from(Barrett::new(modulus).reduce(x)), x % u64::from(modulus.value()));
            }
        }

        #[test]
        fn inverse_undoes_product(a in 1..Q.value()) {
            prop_assert_eq!(Q.mul(a, Q.inverse(a)), 1);
        }

        #[test]
        fn signed_numbers_lift(a in -(Q.value() as i32) + 1..Q.value() as i32) {
            prop_assert_eq!(Q.lift(a), Q.from_signed(a.into()));
        }

        #[test]
        fn sum_and_difference_agree(a in 0..Q.value(), b in 0..Q.value()) {
            prop_assert_eq!(Q.sub(Q.add(a, b), b), a);
            prop_assert_eq!(Q.add(a, Q.neg(a)), 0);
        }
    }

    #[test]
    #[should_panic(expected = "odd prime")]
    fn a_composite_is_refused() {
        let _ = Modulus::new(536_608_767);
    }

    #[test]
    fn roots_have_their_exact_order() {
        for order in [2usize, 8, 512, 8192] {
            let root = Q.root_of_unity(order);
            assert_eq!(Q.pow(root, order as u64), 1);
            assert_eq!(Q.pow(root, order as u64 / 2), Q.value() - 1);
        }
    }

    #[test]
    fn the_least_root_is_the_first_number_of_its_order() {
        let modulus = Modulus::new(65_537);
        for order in [1usize, 2, 8, 512, 65_536] {
            let is_primitive =
                |&x: &u32| order == 1 && x == 1 || modulus.pow(x, order as u64 / 2) == modulus.value() - 1;
            assert_eq!(Some(modulus.least_root_of_unity(order)), (1..modulus.value()).find(is_primitive));
        }
    }
}
