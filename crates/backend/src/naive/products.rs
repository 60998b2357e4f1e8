//! Products of ciphertexts, by the method of Bajard, Eynard, Hasan and Zucca ("A full RNS variant
//! of FV like somewhat homomorphic encryption schemes", SAC 2016).
//!
//! Polynomials modulo q are lifted to the primes of an extension, multiplied there and modulo q,
//! and the products are scaled and rounded. Every rounding is that of Apple's server.

use std::sync::Arc;

use spirea_math::{Modulus, Ring};

use crate::residues::{CIPHERTEXT_POLYNOMIALS, EXTENSION_PRIMES, PRODUCT_PRIMES, ProductRings};

/// Bits of the power of two that corrects a lift (m~ in the paper).
const LIFT_BITS: u32 = 16;

/// Rings of products.
#[derive(Debug)]
pub struct Tables {
    rings: ProductRings,
    /// Ring modulo the extension primes except the last.
    base: Arc<Ring>,
}

/// A polynomial modulo q and modulo the extension.
struct Lifted {
    own: Vec<u32>,
    extension: Vec<u32>,
}

impl Tables {
    pub(super) fn new(rings: &ProductRings) -> Self {
        let primes = [&rings.ciphertext, &rings.extension].map(|ring| ring.limbs().len());
        assert_eq!(primes, [PRODUCT_PRIMES, EXTENSION_PRIMES], "numbers of primes");
        let base = rings.extension.limbs()[..EXTENSION_PRIMES - 1].iter();
        let base = Arc::new(Ring::with_plans(base.map(|limb| limb.plan.clone()).collect()));
        Self { rings: rings.clone(), base }
    }

    /// Returns a polynomial (values modulo q) as values modulo q and modulo the extension.
    pub(super) fn lift(&self, values: &[u32]) -> Vec<u32> {
        let mut coefficients = values.to_vec();
        self.rings.ciphertext.inverse(&mut coefficients);
        let mut extension = self.lift_coefficients(&coefficients);
        self.rings.extension.forward(&mut extension);
        [values, &extension].concat()
    }

    /// Returns the three polynomials of the sum of the products of `left` and `right`, times
    /// `scale` / q and rounded, as coefficients modulo q.
    pub(super) fn inner_product(&self, scale: u32, left: &[u32], right: &[u32]) -> Vec<u32> {
        let (ring, extension) = (&self.rings.ciphertext, &self.rings.extension);
        let words = self.rings.lifted_words();
        assert!(left.len() == right.len() && left.len().is_multiple_of(CIPHERTEXT_POLYNOMIALS * words));
        let mut sums = [(); 3].map(|()| Lifted { own: ring.zero(), extension: extension.zero() });
        let ciphertexts = |words_of: usize| CIPHERTEXT_POLYNOMIALS * words_of;
        for (left, right) in left.chunks_exact(ciphertexts(words)).zip(right.chunks_exact(ciphertexts(words)))
        {
            for (i, left) in left.chunks_exact(words).enumerate() {
                for (j, right) in right.chunks_exact(words).enumerate() {
                    let (left, right) = (left.split_at(ring.words()), right.split_at(ring.words()));
                    ring.mul_add(&mut sums[i + j].own, left.0, right.0);
                    extension.mul_add(&mut sums[i + j].extension, left.1, right.1);
                }
            }
        }
        let scaled = sums.iter_mut().flat_map(|sum| {
            ring.inverse(&mut sum.own);
            extension.inverse(&mut sum.extension);
            ring.scale_assign(&mut sum.own, scale.into());
            extension.scale_assign(&mut sum.extension, scale.into());
            self.divide_by_q(sum)
        });
        scaled.collect()
    }

    /// Lifts coefficients modulo q to the extension. The results represent the centred integers, or
    /// integers that differ from these by q.
    fn lift_coefficients(&self, a: &[u32]) -> Vec<u32> {
        let (ring, extension) = (&*self.rings.ciphertext, &self.rings.extension);
        let digits = digits(ring, a, 1 << LIFT_BITS);
        // The digits represent x = 2^16 a + k q for a small k. Dividing x by -q modulo 2^16 gives r
        // = -k. So (x + r q) / 2^16 is a, or differs from a by q.
        let power = 1u64 << LIFT_BITS;
        let negative_inverse = power - inverse_of_odd((ring.modulus() % u128::from(power)) as u64, power);
        let corrections: Vec<i16> = (0..ring.degree())
            .map(|i| {
                let terms = digits.chunks_exact(ring.degree()).zip(ring.limbs());
                let sum = terms.fold(0u64, |sum, (digits, limb)| {
                    sum.wrapping_add(u64::from(digits[i]).wrapping_mul(limb.cofactor as u64))
                });
                sum.wrapping_mul(negative_inverse) as i16
            })
            .collect();
        let mut lifted = Vec::with_capacity(extension.words());
        for limb in extension.limbs() {
            let prime = limb.prime();
            let inverse = prime.inverse(power as u32);
            let factor = prime.shoup(prime.mul(residue(ring.modulus(), prime), inverse));
            lifted.extend(convert(ring, &digits, prime, inverse).zip(&corrections).map(|(x, &r)| {
                // Both terms together are below 3 times the prime.
                prime.reduce_lazy(x + prime.mul_lazy(prime.lift(r.into()), factor))
            }));
        }
        lifted
    }

    /// Returns the quotients of coefficients by q, modulo q. Quotients are rounded down, with a
    /// small error.
    fn divide_by_q(&self, product: &Lifted) -> Vec<u32> {
        let (ring, base, extension) = (&*self.rings.ciphertext, &*self.base, &self.rings.extension);
        // The quotient modulo the extension: (x - [x]_q) / q.
        let remainders = digits(ring, &product.own, 1);
        let mut quotients = Vec::with_capacity(extension.words());
        for (limb, a) in extension.limbs().iter().zip(product.extension.chunks_exact(ring.degree())) {
            let prime = limb.prime();
            let inverse = prime.inverse(residue(ring.modulus(), prime));
            let factor = prime.shoup(inverse);
            let remainders = convert(ring, &remainders, prime, inverse);
            quotients.extend(remainders.zip(a).map(|(remainder, &a)| {
                // The difference is positive, and below 4 times the prime.
                prime.reduce_lazy(prime.mul_lazy(a, factor) + prime.value() - remainder)
            }));
        }
        // The conversion back to q is exact: the last prime gives the multiple of the base's
        // product B by which the digits are off (Shenoy and Kumaresan).
        let (quotients, last_residues) = quotients.split_at(base.words());
        let digits = digits(base, quotients, 1);
        let last = extension.limbs()[base.limbs().len()].prime();
        let inverse = last.inverse(residue(base.modulus(), last));
        let factor = last.shoup(inverse);
        let excess: Vec<u32> = convert(base, &digits, last, inverse)
            .zip(last_residues)
            .map(|(x, &residue)| last.sub(x, last.reduce_lazy(last.mul_lazy(residue, factor))))
            .collect();
        let mut out = Vec::with_capacity(ring.words());
        for limb in ring.limbs() {
            let prime = limb.prime();
            let product = residue(base.modulus(), prime);
            let (negative, positive) = (prime.shoup(prime.neg(product)), prime.shoup(product));
            out.extend(convert(base, &digits, prime, 1).zip(&excess).map(|(x, &excess)| {
                // The excess is signed. Both terms together are below 3 times the prime.
                let (magnitude, factor) = if excess > last.value() / 2 {
                    (last.value() - excess, positive)
                } else {
                    (excess, negative)
                };
                prime.reduce_lazy(x + prime.mul_lazy(magnitude, factor))
            }));
        }
        out
    }
}

/// Returns the digits [a (q / q_i)^-1 `factor`] modulo each prime q_i of the ring. The sum of
/// digits times q / q_i is `factor` a, plus a multiple of q.
fn digits(ring: &Ring, a: &[u32], factor: u32) -> Vec<u32> {
    let mut digits = Vec::with_capacity(ring.words());
    for (limb, a) in ring.limbs().iter().zip(a.chunks_exact(ring.degree())) {
        let prime = limb.prime();
        let factor = prime.shoup(prime.mul(limb.cofactor_inverse.value, factor));
        digits.extend(a.iter().map(|&a| prime.reduce_lazy(prime.mul_lazy(a, factor))));
    }
    digits
}

/// Returns the sum of digits times q / q_i, times `factor`, modulo a prime of another ring. `ring`,
/// to which the digits belong, has two primes.
fn convert<'a>(
    ring: &'a Ring,
    digits: &'a [u32],
    prime: Modulus,
    factor: u32,
) -> impl Iterator<Item = u32> + 'a {
    let factors = [0, 1].map(|i| prime.shoup(prime.mul(residue(ring.limbs()[i].cofactor, prime), factor)));
    assert_eq!(ring.limbs().len(), factors.len(), "primes of the source");
    let (first, second) = digits.split_at(ring.degree());
    // Each term is below twice the prime.
    let terms = first.iter().zip(second);
    terms
        .map(move |(&a, &b)| prime.reduce_lazy(prime.mul_lazy(a, factors[0]) + prime.mul_lazy(b, factors[1])))
}

/// Returns a number modulo a prime.
fn residue(number: u128, prime: Modulus) -> u32 {
    (number % u128::from(prime.value())) as u32
}

/// Returns the inverse of an odd number modulo a power of two.
fn inverse_of_odd(odd: u64, power: u64) -> u64 {
    // Each step of Newton's method doubles the number of right bits, 3 at first.
    (0..5).fold(odd, |inverse, _| inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse)))) % power
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns a polynomial of arbitrary residues.
    pub fn uniform(ring: &Ring, seed: u64) -> Vec<u32> {
        let mut state = seed;
        let residues = ring.limbs().iter().flat_map(|limb| vec![limb.prime().value(); ring.degree()]);
        residues
            .map(|prime| {
                state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
                ((state >> 32) % u64::from(prime)) as u32
            })
            .collect()
    }

    fn tables() -> Tables {
        let ring = |primes: &[u32]| {
            let primes: Vec<Modulus> = primes.iter().map(|&q| Modulus::new(q)).collect();
            Arc::new(Ring::new(256, &primes))
        };
        Tables::new(&ProductRings {
            ciphertext: ring(&[134_176_769, 268_369_921]),
            extension: ring(&[268_460_033, 268_582_913, 268_640_257]),
        })
    }

    /// Signed integer of least magnitude with the residues of two rings, by an exact Garner step.
    fn lifted_integer(tables: &Tables, own: &[u32], extension: &[u32], i: usize) -> (i128, i128) {
        let (ring, wide) = (&tables.rings.ciphertext, &tables.rings.extension);
        (ring.centred(ring.coefficient(own, i)), wide.centred(wide.coefficient(extension, i)))
    }

    #[test]
    fn lifts_are_the_centred_integers_or_next_to_them() {
        let tables = tables();
        let ring = &tables.rings.ciphertext;
        let mut a = uniform(ring, 8);
        let q = ring.modulus() as i128;
        for (i, x) in [0, 1, -1, q / 2, -(q / 2), q / 3].into_iter().enumerate() {
            ring.set_coefficient(&mut a, i, x);
        }
        let lifted = tables.lift_coefficients(&a);
        let mut centred = 0;
        for i in 0..ring.degree() {
            let (own, wide) = lifted_integer(&tables, &a, &lifted, i);
            assert!([0, -q, q].contains(&(wide - own)), "coefficient {i}: {own} became {wide}");
            centred += usize::from(wide == own);
        }
        assert!(centred >= ring.degree() - 2, "only values next to q / 2 may differ: {centred}");
    }

    #[test]
    fn quotients_by_q_are_off_by_at_most_two() {
        let tables = tables();
        let (ring, extension) = (&tables.rings.ciphertext, &tables.rings.extension);
        let q = ring.modulus() as i128;
        // The products reach 2^111, which exceeds t / 2^30 times any inner product of small
        // ciphertexts.
        let numbers = uniform(ring, 2);
        let (mut own, mut wide) = (ring.zero(), extension.zero());
        let numbers: Vec<(i128, i128)> = (0..ring.degree())
            .map(|i| {
                let quotient = ring.centred(ring.coefficient(&numbers, i));
                (quotient, ring.centred(ring.coefficient(&numbers, (i + 1) % ring.degree())))
            })
            .collect();
        for (i, &(quotient, remainder)) in numbers.iter().enumerate() {
            ring.set_coefficient(&mut own, i, quotient * q + remainder);
            extension.set_coefficient(&mut wide, i, quotient * q + remainder);
        }
        let divided = tables.divide_by_q(&Lifted { own, extension: wide });
        for (i, (quotient, _)) in numbers.into_iter().enumerate() {
            let error = ring.coefficient(&divided, i) as i128 - quotient;
            let error = ring.centred(error.rem_euclid(q) as u128);
            assert!(error.abs() <= 2, "coefficient {i} is off by {error}");
        }
    }

    #[test]
    fn inverses_of_odd_numbers_multiply_to_one() {
        for odd in (1..1 << 16).step_by(2) {
            assert_eq!(odd * inverse_of_odd(odd, 1 << 16) % (1 << 16), 1);
        }
    }
}
