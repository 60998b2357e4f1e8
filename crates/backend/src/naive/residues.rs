//! Operations on ciphertexts with a special prime by definition.

use std::sync::Arc;

use spirea_math::{Expansion, Ring};

use super::products;
use crate::residues::CIPHERTEXT_POLYNOMIALS;
use crate::{BackendError, NaiveBackend, ProductRings, ResidueBackend, SwitchKey};

impl ResidueBackend for NaiveBackend {
    type ProductTables = products::Tables;

    fn product_tables(&self, rings: &ProductRings) -> Result<products::Tables, BackendError> {
        Ok(products::Tables::new(rings))
    }

    fn forward(&self, ring: &Arc<Ring>, words: &mut [u32]) {
        polynomials(ring, words).for_each(|words| ring.forward(words));
    }

    fn inverse(&self, ring: &Arc<Ring>, words: &mut [u32]) {
        polynomials(ring, words).for_each(|words| ring.inverse(words));
    }

    fn double(&self, ring: &Arc<Ring>, words: &mut [u32]) {
        polynomials(ring, words).for_each(|words| ring.scale_assign(words, 2));
    }

    fn divide_by_last(&self, ring: &Arc<Ring>, polynomial: &[u32], to: &mut [u32]) {
        to.copy_from_slice(&divide_by_last(ring, polynomial));
    }

    fn substitute(&self, ring: &Arc<Ring>, level: u32, key: &SwitchKey, from: &[u32], to: &mut [u32]) {
        let element = Expansion::exponent(ring.degree(), level);
        let image = |values: &[u32]| {
            let mut coefficients = values.to_vec();
            prefix(ring).inverse(&mut coefficients);
            prefix(ring).automorphism(&coefficients, element)
        };
        let [c0, c1] = halves(from);
        let [mut u0, u1] = switch(ring, key, &image(c1));
        prefix(ring).add_assign(&mut u0, &image(c0));
        to.copy_from_slice(&[u0, u1].concat());
        self.forward(&Arc::new(prefix(ring)), to);
    }

    fn split(&self, ring: &Arc<Ring>, level: u32, ciphertext: &mut [u32], image: &mut [u32]) {
        let pairs = polynomials(ring, ciphertext).zip(polynomials(ring, image));
        for (node, image) in pairs {
            let mut difference = node.to_vec();
            ring.sub_assign(&mut difference, image);
            ring.add_assign(node, image);
            ring.inverse(&mut difference);
            let odd = ring.mul_monomial(&difference, 2 * ring.degree() - (1 << level));
            image.copy_from_slice(&odd);
            ring.forward(image);
        }
    }

    fn relinearise(&self, ring: &Arc<Ring>, key: &SwitchKey, product: &[u32], to: &mut [u32]) {
        let (sum, c2) = product.split_at(to.len());
        to.copy_from_slice(sum);
        let half = to.len() / CIPHERTEXT_POLYNOMIALS;
        let switched = switch(ring, key, c2);
        to.chunks_exact_mut(half).zip(&switched).for_each(|(c, u)| prefix(ring).add_assign(c, u));
    }

    fn lift(&self, tables: &products::Tables, polynomial: &[u32], to: &mut [u32]) {
        to.copy_from_slice(&tables.lift(polynomial));
    }

    fn inner_product(&self, tables: &products::Tables, scale: u32, left: &[u32], right: &[u32]) -> Vec<u32> {
        tables.inner_product(scale, left, right)
    }
}

/// Iterates over the polynomials in `words`.
fn polynomials<'a>(ring: &Ring, words: &'a mut [u32]) -> impl Iterator<Item = &'a mut [u32]> {
    assert!(words.len().is_multiple_of(ring.words()), "whole polynomials");
    words.chunks_exact_mut(ring.words())
}

fn halves(ciphertext: &[u32]) -> [&[u32]; CIPHERTEXT_POLYNOMIALS] {
    let (c0, c1) = ciphertext.split_at(ciphertext.len() / 2);
    [c0, c1]
}

/// Returns the ring without its last prime.
fn prefix(ring: &Ring) -> Ring {
    let limbs = &ring.limbs()[..ring.limbs().len() - 1];
    Ring::with_plans(limbs.iter().map(|limb| limb.plan.clone()).collect())
}

/// Returns round(a / q_l) modulo the primes before the last one, q_l.
fn divide_by_last(ring: &Ring, a: &[u32]) -> Vec<u32> {
    let (limbs, [last]) = ring.limbs().split_at(ring.limbs().len() - 1) else {
        unreachable!("a ring has primes")
    };
    let (a, remainders) = a.split_at(limbs.len() * ring.degree());
    let (last, half) = (last.prime(), last.prime().value() / 2);
    // round(x / q_l) = (x + half - r) / q_l, where r = (x + half) mod q_l.
    let mut out = Vec::with_capacity(a.len());
    for (limb, a) in limbs.iter().zip(a.chunks_exact(ring.degree())) {
        let prime = limb.prime();
        let reduce = |x| limb.barrett.reduce(u64::from(x));
        let (half_here, inverse) = (reduce(half), prime.inverse(reduce(last.value())));
        out.extend(a.iter().zip(remainders).map(|(&x, &remainder)| {
            let remainder = reduce(last.add(remainder, half));
            prime.mul(prime.sub(prime.add(x, half_here), remainder), inverse)
        }));
    }
    out
}

/// Returns a ciphertext with the phase c s', where s' is the key's secret. `c` and the result are
/// coefficients modulo q.
///
/// The sum of digits times keys has the phase P c s' modulo q P, and the division by P reduces its
/// noise.
fn switch(ring: &Ring, key: &SwitchKey, c: &[u32]) -> [Vec<u32>; CIPHERTEXT_POLYNOMIALS] {
    let mut sums = [ring.zero(), ring.zero()];
    for (digit, ciphertext) in c.chunks_exact(ring.degree()).zip(key.ciphertexts(ring)) {
        let residues = ring.limbs().iter().map(|limb| digit.iter().map(|&x| limb.barrett.reduce(x.into())));
        let mut digit: Vec<u32> = residues.flatten().collect();
        ring.forward(&mut digit);
        sums.iter_mut().zip(&ciphertext).for_each(|(sum, key)| ring.mul_add(sum, &digit, key));
    }
    sums.map(|mut sum| {
        ring.inverse(&mut sum);
        divide_by_last(ring, &sum)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::naive::products::tests::uniform;
    use spirea_math::Modulus;

    #[test]
    fn division_rounds_to_the_nearest_integer() {
        for count in [2, 3] {
            let primes = [134_176_769, 268_369_921, 268_361_729].map(Modulus::new);
            let ring = Ring::new(64, &primes[..count]);
            let last = u128::from(ring.limbs().last().unwrap().prime().value());
            let mut a = uniform(&ring, 1);
            for (i, x) in [0, 1, last / 2, last / 2 + 1, last, ring.modulus() - 1].into_iter().enumerate() {
                ring.set_coefficient(&mut a, i, x as i128);
            }
            let quotient = divide_by_last(&ring, &a);
            for i in 0..ring.degree() {
                let expected = (2 * ring.coefficient(&a, i) + last) / (2 * last);
                for (limb, quotient) in ring.limbs().iter().zip(quotient.chunks_exact(ring.degree())) {
                    assert_eq!(u128::from(quotient[i]), expected % u128::from(limb.prime().value()), "{i}");
                }
            }
        }
    }

    /// With a key of P s' and no noise, the switched ciphertext is c s' up to the rounding of the
    /// division, 1/2 in c_0 and none in c_1.
    #[test]
    fn switched_ciphertexts_have_the_phase_of_the_product() {
        let ring = Ring::new(64, &[134_176_769, 268_369_921, 268_361_729].map(Modulus::new));
        let small = prefix(&ring);
        let secret: Vec<i32> = (0..64).map(|i| i % 3 - 1).collect();
        let special = u128::from(ring.limbs()[2].prime().value());
        let mut scaled = ring.lift(&secret);
        ring.scale_assign(&mut scaled, special);
        ring.forward(&mut scaled);
        let ciphertexts: Vec<_> = (0..2)
            .map(|digit| {
                let mut c0 = ring.zero();
                let place = digit * 64..(digit + 1) * 64;
                c0[place.clone()].copy_from_slice(&scaled[place]);
                [c0, ring.zero()]
            })
            .collect();
        let c = uniform(&small, 3);
        let [u0, u1] = switch(&ring, &SwitchKey::new(&ring, &ciphertexts), &c);
        let (mut expected, mut values) = (c.clone(), small.lift(&secret));
        small.forward(&mut expected);
        small.forward(&mut values);
        small.mul_assign(&mut expected, &values);
        small.inverse(&mut expected);
        assert!(u0 == expected && u1 == small.zero());
    }
}
