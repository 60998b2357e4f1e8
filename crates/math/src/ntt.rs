//! The negacyclic number-theoretic transform over Z_q\[X\]/(X^N + 1).

use crate::modulus::{Modulus, ShoupWord, subtract_if_reached};

/// Tables of the transform for one degree and one prime.
///
/// The forward transform maps coefficients in order to values in bit-reversed order (Cooley and
/// Tukey's butterflies, with the twist by powers of the 2N-th root folded into the twiddles). The
/// inverse transform reverses this (Gentleman and Sande's butterflies). The pointwise product of
/// values is the product of the polynomials.
#[derive(Clone, Debug)]
pub struct NttPlan {
    modulus: Modulus,
    forward: Vec<ShoupWord>,
    inverse: Vec<ShoupWord>,
    degree_inverse: ShoupWord,
}

impl NttPlan {
    /// Creates a plan for polynomials of `degree` coefficients.
    ///
    /// # Panics
    /// If `degree` is not a power of two of at least 2, or 2 `degree` does not divide q - 1.
    pub fn new(modulus: Modulus, degree: usize) -> Self {
        Self::with_root(modulus, degree, modulus.root_of_unity(2 * degree))
    }

    /// Creates a plan whose values are those at the odd powers of `root`: place i has the value at
    /// `root`^(2 r + 1), where r is i with its bits reversed. The choice of the root affects only
    /// the order of the values.
    ///
    /// # Panics
    /// If `degree` is not a power of two of at least 2, or `root` is not a primitive 2 `degree`-th
    /// root of unity.
    pub fn with_root(modulus: Modulus, degree: usize, root: u32) -> Self {
        assert!(degree.is_power_of_two() && degree >= 2, "the degree is a power of two");
        assert_eq!(modulus.pow(root, degree as u64), modulus.value() - 1, "the root is primitive");
        let bits = degree.trailing_zeros();
        let table = |root: u32| {
            let mut powers = vec![1; degree];
            for i in 1..degree {
                powers[i] = modulus.mul(powers[i - 1], root);
            }
            (0..degree).map(|i| modulus.shoup(powers[i.reverse_bits() >> (usize::BITS - bits)])).collect()
        };
        Self {
            modulus,
            forward: table(root),
            inverse: table(modulus.inverse(root)),
            degree_inverse: modulus.shoup(modulus.inverse(degree as u32)),
        }
    }

    /// Returns the prime.
    pub fn modulus(&self) -> Modulus {
        self.modulus
    }

    /// Returns the number of coefficients of a polynomial.
    pub fn degree(&self) -> usize {
        self.forward.len()
    }

    /// Returns the twiddles of the forward transform: entry m + i is for group i of the stage with
    /// m groups.
    pub fn forward_twiddles(&self) -> &[ShoupWord] {
        &self.forward
    }

    /// Returns the twiddles of the inverse transform: entry m + i is for group i of the stage with
    /// m groups.
    pub fn inverse_twiddles(&self) -> &[ShoupWord] {
        &self.inverse
    }

    /// Returns 1/N, the final factor of the inverse transform.
    pub fn degree_inverse(&self) -> ShoupWord {
        self.degree_inverse
    }

    /// Transforms coefficients below 4q to values below q, in place.
    ///
    /// # Panics
    /// If the slice is not one polynomial.
    pub fn forward(&self, a: &mut [u32]) {
        assert_eq!(a.len(), self.degree());
        let (modulus, two_q) = (self.modulus, 2 * self.modulus.value());
        let (mut groups, mut half) = (1, self.degree() / 2);
        while half > 0 {
            for (group, &twiddle) in a.chunks_exact_mut(2 * half).zip(&self.forward[groups..]) {
                let (low, high) = group.split_at_mut(half);
                for (x, y) in low.iter_mut().zip(high) {
                    // Both stay below 4q: u < 2q after the subtraction, v < 2q (Harvey's lazy
                    // butterfly).
                    let u = subtract_if_reached(*x, two_q);
                    let v = modulus.mul_lazy(*y, twiddle);
                    (*x, *y) = (u + v, u + two_q - v);
                }
            }
            (groups, half) = (groups * 2, half / 2);
        }
        a.iter_mut().for_each(|x| *x = modulus.reduce_lazy(*x));
    }

    /// Transforms values below 2q to coefficients below q, in place.
    ///
    /// # Panics
    /// If the slice is not one polynomial.
    pub fn inverse(&self, a: &mut [u32]) {
        assert_eq!(a.len(), self.degree());
        let (modulus, two_q) = (self.modulus, 2 * self.modulus.value());
        let (mut groups, mut half) = (self.degree() / 2, 1);
        while groups > 0 {
            for (group, &twiddle) in a.chunks_exact_mut(2 * half).zip(&self.inverse[groups..]) {
                let (low, high) = group.split_at_mut(half);
                for (x, y) in low.iter_mut().zip(high) {
                    // Both results stay below 2q.
                    let (u, v) = (*x, *y);
                    *x = subtract_if_reached(u + v, two_q);
                    *y = modulus.mul_lazy(u + two_q - v, twiddle);
                }
            }
            (groups, half) = (groups / 2, half * 2);
        }
        a.iter_mut().for_each(|x| *x = modulus.reduce_lazy(modulus.mul_lazy(*x, self.degree_inverse)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crt::PrimePair;
    use crate::schoolbook;
    use proptest::prelude::*;

    fn polynomial(q: u32, degree: usize) -> impl Strategy<Value = Vec<u32>> {
        proptest::collection::vec(prop_oneof![4 => 0..q, 1 => Just(0), 1 => Just(q - 1)], degree)
    }

    fn product_agrees(modulus: Modulus, a: &[u32], b: &[u32]) {
        let plan = NttPlan::new(modulus, a.len());
        let (mut x, mut y) = (a.to_vec(), b.to_vec());
        plan.forward(&mut x);
        plan.forward(&mut y);
        let mut product: Vec<u32> = x.iter().zip(&y).map(|(&x, &y)| modulus.mul(x, y)).collect();
        plan.inverse(&mut product);
        assert_eq!(product, schoolbook::negacyclic_product(modulus, a, b));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn products_agree_with_schoolbook(
            a in polynomial(PrimePair::LARGEST.first().value(), 256),
            b in polynomial(PrimePair::LARGEST.first().value(), 256),
        ) {
            product_agrees(PrimePair::LARGEST.first(), &a, &b);
        }

        #[test]
        fn inverse_undoes_forward(a in polynomial(PrimePair::LARGEST.second().value(), 4096)) {
            let plan = NttPlan::new(PrimePair::LARGEST.second(), 4096);
            let mut x = a.clone();
            plan.forward(&mut x);
            plan.inverse(&mut x);
            prop_assert_eq!(x, a);
        }
    }

    #[test]
    fn extreme_and_tiny_polynomials_agree() {
        for modulus in [PrimePair::LARGEST.first(), PrimePair::LARGEST.second()] {
            for degree in [2, 4, 256] {
                product_agrees(
                    modulus,
                    &vec![modulus.value() - 1; degree],
                    &vec![modulus.value() - 1; degree],
                );
            }
        }
    }

    #[test]
    fn values_are_those_at_the_odd_powers_of_the_root() {
        let modulus = Modulus::new(134_176_769);
        let root = modulus.least_root_of_unity(32);
        let plan = NttPlan::with_root(modulus, 16, root);
        let a: Vec<u32> = (0..16).map(|i| i * i * 1000 + 7).collect();
        let mut values = a.clone();
        plan.forward(&mut values);
        for (i, &value) in values.iter().enumerate() {
            let reversed = (i as u32).reverse_bits() >> 28;
            let point = modulus.pow(root, u64::from(2 * reversed + 1));
            let expected = a.iter().rev().fold(0, |sum, &a| modulus.add(modulus.mul(sum, point), a));
            assert_eq!(value, expected, "place {i}");
        }
    }

    #[test]
    #[should_panic(expected = "the root is primitive")]
    fn a_root_of_another_order_is_refused() {
        let modulus = Modulus::new(134_176_769);
        NttPlan::with_root(modulus, 16, modulus.least_root_of_unity(16));
    }

    #[test]
    fn the_forward_transform_takes_unreduced_input() {
        let modulus = PrimePair::LARGEST.first();
        let plan = NttPlan::new(modulus, 256);
        let mut reduced = vec![modulus.value() - 1; 256];
        let mut lazy = vec![4 * modulus.value() - 1; 256];
        plan.forward(&mut reduced);
        plan.forward(&mut lazy);
        assert_eq!(reduced, lazy);
    }
}
