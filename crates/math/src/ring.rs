//! The ring R_q = Z_q\[X\]/(X^N + 1) in residues modulo several primes (RNS).
//!
//! A polynomial is a slice of `primes * degree` words below their primes, prime by prime. The words
//! are either coefficients in order, or values of the transform in the order of [`NttPlan`]; every
//! function states the form. This module is the slow, readable form of every kernel on the ring.

use crate::modulus::{Barrett, Modulus, ShoupWord};
use crate::ntt::NttPlan;
use crate::secret::opaque;

/// A ring with its tables.
#[derive(Clone, Debug)]
pub struct Ring {
    degree: usize,
    limbs: Vec<Limb>,
    modulus: u128,
}

/// One prime of a ring.
#[derive(Clone, Debug)]
pub struct Limb {
    /// Transform modulo the prime.
    pub plan: NttPlan,
    /// Reduction of products.
    pub barrett: Barrett,
    /// q / q_i, the integer that is 0 modulo the other primes.
    pub cofactor: u128,
    /// (q / q_i)^-1 mod q_i.
    pub cofactor_inverse: ShoupWord,
}

impl Limb {
    /// Returns the prime.
    pub fn prime(&self) -> Modulus {
        self.plan.modulus()
    }
}

impl Ring {
    /// Creates the ring of `degree` modulo the product of `primes`.
    ///
    /// # Panics
    /// If the degree is not a power of two for which the primes have transforms, the primes are not
    /// distinct, or their product exceeds 2^120. Rings are constants of the code, never input.
    pub fn new(degree: usize, primes: &[Modulus]) -> Self {
        Self::with_plans(primes.iter().map(|&prime| NttPlan::new(prime, degree)).collect())
    }

    /// Creates the ring with these transforms, one for each prime.
    ///
    /// # Panics
    /// If there is no plan, their degrees differ, their primes are not distinct, or the product of
    /// the primes exceeds 2^120. Rings are constants of the code, never input.
    pub fn with_plans(plans: Vec<NttPlan>) -> Self {
        let degree = plans[0].degree();
        let primes: Vec<Modulus> = plans.iter().map(NttPlan::modulus).collect();
        let modulus = primes.iter().try_fold(1u128, |q, prime| q.checked_mul(prime.value().into()));
        let modulus = modulus.filter(|&q| q < 1 << 120).expect("the modulus is below 2^120");
        let limbs = plans.into_iter().enumerate().map(|(i, plan)| {
            let prime = plan.modulus();
            assert_eq!(plan.degree(), degree, "the plans have one degree");
            assert!(!primes[..i].contains(&prime), "the primes are distinct");
            let cofactor = modulus / u128::from(prime.value());
            let residue = (cofactor % u128::from(prime.value())) as u32;
            Limb {
                plan,
                barrett: Barrett::new(prime),
                cofactor,
                cofactor_inverse: prime.shoup(prime.inverse(residue)),
            }
        });
        Self { degree, limbs: limbs.collect(), modulus }
    }

    /// Returns the number of coefficients of a polynomial.
    pub fn degree(&self) -> usize {
        self.degree
    }

    /// Returns the primes with their tables.
    pub fn limbs(&self) -> &[Limb] {
        &self.limbs
    }

    /// Returns q, the product of the primes.
    pub fn modulus(&self) -> u128 {
        self.modulus
    }

    /// Returns log2 q.
    pub fn log2_modulus(&self) -> f64 {
        self.limbs.iter().map(|limb| f64::from(limb.prime().value()).log2()).sum()
    }

    /// Returns the number of words of a polynomial.
    pub fn words(&self) -> usize {
        self.degree * self.limbs.len()
    }

    /// Returns the polynomial 0.
    pub fn zero(&self) -> Vec<u32> {
        vec![0; self.words()]
    }

    /// Transforms coefficients to values, in place.
    pub fn forward(&self, a: &mut [u32]) {
        self.each_mut(a, |limb, a| limb.plan.forward(a));
    }

    /// Transforms values to coefficients, in place.
    pub fn inverse(&self, a: &mut [u32]) {
        self.each_mut(a, |limb, a| limb.plan.inverse(a));
    }

    /// Computes a += b, in either form.
    pub fn add_assign(&self, a: &mut [u32], b: &[u32]) {
        self.zip_mut(a, b, |limb, a, b| limb.prime().add(a, b));
    }

    /// Computes a -= b, in either form.
    pub fn sub_assign(&self, a: &mut [u32], b: &[u32]) {
        self.zip_mut(a, b, |limb, a, b| limb.prime().sub(a, b));
    }

    /// Computes a *= b, both as values.
    pub fn mul_assign(&self, a: &mut [u32], b: &[u32]) {
        self.zip_mut(a, b, |limb, a, b| limb.barrett.mul(a, b));
    }

    /// Computes sum += a b, all as values.
    pub fn mul_add(&self, sum: &mut [u32], a: &[u32], b: &[u32]) {
        assert!(sum.len() == self.words() && a.len() == self.words() && b.len() == self.words());
        let pieces = self.limbs.iter().zip(sum.chunks_exact_mut(self.degree));
        for ((limb, sum), (a, b)) in pieces.zip(a.chunks_exact(self.degree).zip(b.chunks_exact(self.degree)))
        {
            for ((sum, &a), &b) in sum.iter_mut().zip(a).zip(b) {
                *sum = limb.prime().add(*sum, limb.barrett.mul(a, b));
            }
        }
    }

    /// Computes a *= an integer, in either form.
    pub fn scale_assign(&self, a: &mut [u32], factor: u128) {
        self.each_mut(a, |limb, a| {
            let factor = limb.prime().shoup((factor % u128::from(limb.prime().value())) as u32);
            a.iter_mut().for_each(|x| *x = limb.prime().reduce_lazy(limb.prime().mul_lazy(*x, factor)));
        });
    }

    /// Returns the polynomial with these coefficients; if there are fewer than N, zeros follow. The
    /// coefficients are signed, of magnitude below every prime, and no branch depends on them.
    pub fn lift(&self, coefficients: &[i32]) -> Vec<u32> {
        let mut a = self.zero();
        self.each_mut(&mut a, |limb, a| {
            a.iter_mut().zip(coefficients).for_each(|(a, &c)| *a = limb.prime().lift(c));
        });
        a
    }

    /// Returns the same polynomial as [`Ring::lift`], for numbers whose magnitude is at most 2^33
    /// times the smallest prime.
    pub fn lift_wide(&self, coefficients: &[i64]) -> Vec<u32> {
        let mut a = self.zero();
        self.each_mut(&mut a, |limb, a| {
            // A multiple of the prime that exceeds all magnitudes and is below 2^63.
            let above = u64::from(limb.prime().value()) << 33;
            let reduce = |c: i64| limb.barrett.reduce(above.wrapping_add_signed(c));
            a.iter_mut().zip(coefficients).for_each(|(a, &c)| *a = reduce(c));
        });
        a
    }

    /// Returns coefficient `i` of `a` as an integer in [0, q).
    pub fn coefficient(&self, a: &[u32], i: usize) -> u128 {
        let sum = self.limbs.iter().enumerate().fold(0, |sum, (j, limb)| {
            let digit = limb.prime().mul_lazy(a[j * self.degree + i], limb.cofactor_inverse);
            sum + limb.cofactor * u128::from(limb.prime().reduce_lazy(digit))
        });
        // The sum is below `primes` times q. Masks make the time independent of a secret phase.
        (0..self.limbs.len()).fold(sum, |sum, _| {
            let difference = sum.wrapping_sub(self.modulus);
            difference.wrapping_add(self.modulus & ((difference as i128) >> 127) as u128)
        })
    }

    /// Returns the representative of least magnitude of a number in [0, q).
    pub fn centred(&self, a: u128) -> i128 {
        let above_half = ((self.modulus / 2) as i128 - a as i128) >> 127;
        a as i128 - (self.modulus as i128 & above_half)
    }

    /// Returns the residues of an integer. Uses divisions: for public values only.
    pub fn residues(&self, a: i128) -> impl Iterator<Item = u32> {
        self.limbs.iter().map(move |limb| a.rem_euclid(i128::from(limb.prime().value())) as u32)
    }

    /// Sets coefficient `i` of `a`. For public values only.
    pub fn set_coefficient(&self, a: &mut [u32], i: usize, value: i128) {
        self.residues(value).enumerate().for_each(|(j, residue)| a[j * self.degree + i] = residue);
    }

    /// Returns a(X^k) for odd k, from coefficients to coefficients.
    pub fn automorphism(&self, a: &[u32], k: usize) -> Vec<u32> {
        assert!(k % 2 == 1, "automorphisms of the ring have odd exponents");
        self.permuted(a, |i| i * k)
    }

    /// Returns a X^e, from coefficients to coefficients, for e below 2N (X^(2N - e) is X^-e).
    pub fn mul_monomial(&self, a: &[u32], e: usize) -> Vec<u32> {
        self.permuted(a, |i| i + e)
    }

    /// Returns the polynomial that has coefficient i of `a` at X^exponent(i).
    fn permuted(&self, a: &[u32], exponent: impl Fn(usize) -> usize) -> Vec<u32> {
        let mut out = self.zero();
        let limbs = self.limbs.iter().zip(out.chunks_exact_mut(self.degree));
        for ((limb, out), a) in limbs.zip(a.chunks_exact(self.degree)) {
            for (i, &a) in a.iter().enumerate() {
                // The degree is a power of two.
                let exponent = exponent(i) & (2 * self.degree - 1);
                let prime = limb.prime().value();
                // The negative of a is the prime minus a, or 0 if a is 0. A mask selects the case,
                // because a may be secret; the exponent is public.
                let negative = prime.wrapping_sub(a) & opaque((a.wrapping_neg() as i32 >> 31) as u32);
                out[exponent & (self.degree - 1)] = if exponent >= self.degree { negative } else { a };
            }
        }
        out
    }

    fn each_mut(&self, a: &mut [u32], operation: impl Fn(&Limb, &mut [u32])) {
        assert_eq!(a.len(), self.words(), "a polynomial of another ring");
        self.limbs.iter().zip(a.chunks_exact_mut(self.degree)).for_each(|(limb, a)| operation(limb, a));
    }

    fn zip_mut(&self, a: &mut [u32], b: &[u32], operation: impl Fn(&Limb, u32, u32) -> u32) {
        assert!(a.len() == self.words() && b.len() == self.words(), "a polynomial of another ring");
        let pieces = a.chunks_exact_mut(self.degree).zip(b.chunks_exact(self.degree));
        for (limb, (a, b)) in self.limbs.iter().zip(pieces) {
            a.iter_mut().zip(b).for_each(|(a, &b)| *a = operation(limb, *a, b));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Seed, public_residues};
    use crate::schoolbook;
    use proptest::prelude::*;

    const PRIMES: [Modulus; 3] =
        [Modulus::new(536_608_769), Modulus::new(533_463_041), Modulus::new(531_628_033)];

    fn random(ring: &Ring, seed: u8) -> Vec<u32> {
        let mut a = ring.zero();
        for (i, (limb, a)) in ring.limbs.iter().zip(a.chunks_exact_mut(ring.degree)).enumerate() {
            public_residues(&Seed::new([seed; 32]), i as u64, limb.prime(), a);
        }
        a
    }

    #[test]
    fn products_agree_with_schoolbook_in_every_limb() {
        let ring = Ring::new(64, &PRIMES);
        let (a, b) = (random(&ring, 1), random(&ring, 2));
        let (mut x, mut y) = (a.clone(), b.clone());
        ring.forward(&mut x);
        ring.forward(&mut y);
        let mut sum = x.clone();
        ring.mul_add(&mut sum, &x, &y);
        ring.sub_assign(&mut sum, &x);
        ring.mul_assign(&mut x, &y);
        assert_eq!(x, sum);
        ring.inverse(&mut x);
        for (i, limb) in ring.limbs.iter().enumerate() {
            let range = i * 64..(i + 1) * 64;
            let expected = schoolbook::negacyclic_product(limb.prime(), &a[range.clone()], &b[range.clone()]);
            assert_eq!(x[range], expected);
        }
    }

    proptest! {
        #[test]
        fn coefficients_are_what_was_set(value in any::<i128>(), place in 0usize..64) {
            let ring = Ring::new(64, &PRIMES);
            let value = value % (ring.modulus() / 2) as i128;
            let mut a = ring.zero();
            ring.set_coefficient(&mut a, place, value);
            prop_assert_eq!(ring.centred(ring.coefficient(&a, place)), value);
        }

        #[test]
        fn automorphisms_are_homomorphisms(k in 0usize..64, seed: u8) {
            let (ring, k) = (Ring::new(64, &PRIMES), 2 * k + 1);
            let (a, b) = (random(&ring, seed), random(&ring, seed.wrapping_add(1)));
            let times = |a: &[u32], b: &[u32]| {
                let (mut a, mut b) = (a.to_vec(), b.to_vec());
                ring.forward(&mut a);
                ring.forward(&mut b);
                ring.mul_assign(&mut a, &b);
                ring.inverse(&mut a);
                a
            };
            let image = ring.automorphism(&times(&a, &b), k);
            prop_assert_eq!(image, times(&ring.automorphism(&a, k), &ring.automorphism(&b, k)));
        }

        #[test]
        fn monomials_cycle_negacyclically(e in 0usize..128) {
            let ring = Ring::new(64, &PRIMES);
            let a = random(&ring, 3);
            prop_assert_eq!(ring.mul_monomial(&ring.mul_monomial(&a, e), 128 - e), a);
        }
    }

    #[test]
    fn the_ends_of_the_range_are_centred() {
        let ring = Ring::new(64, &PRIMES);
        let half = ring.modulus() / 2;
        for (value, expected) in
            [(0, 0), (half, half as i128), (half + 1, -(half as i128)), (ring.modulus() - 1, -1)]
        {
            assert_eq!(ring.centred(value), expected);
        }
    }

    proptest! {
        #[test]
        fn wide_numbers_lift_to_their_residues(ends in 0i64..4, c in any::<i64>(), shift in 2u32..60) {
            let ring = Ring::new(64, &PRIMES);
            let most = i64::from(PRIMES[2].value()) << 33;
            for c in [c >> shift, most - ends, ends - most].map(|c| c.clamp(-most, most)) {
                let mut expected = ring.zero();
                ring.set_coefficient(&mut expected, 0, c.into());
                prop_assert_eq!(ring.lift_wide(&[c]), expected);
            }
        }
    }

    #[test]
    fn small_numbers_lift_and_scale() {
        let ring = Ring::new(64, &PRIMES);
        let mut a = ring.lift(&[1, -1, 0, 7]);
        ring.scale_assign(&mut a, 1 << 70);
        let found: Vec<i128> = (0..5).map(|i| ring.centred(ring.coefficient(&a, i))).collect();
        assert_eq!(found, [1 << 70, -1 << 70, 0, 7 << 70, 0]);
    }
}
