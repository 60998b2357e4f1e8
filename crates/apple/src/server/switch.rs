//! Key switching with a special prime.

use std::array;

use spirea_backend::ResidueBackend;
use spirea_math::Ring;

use super::arithmetic::{Arithmetic, Over};
use crate::evaluation_key::SwitchKey;
use crate::set::{Polynomials, RINGS};

/// Returns round(a / q_l) modulo the primes before the last one, q_l, for coefficients `a` of the
/// ring.
pub fn divide_by_last(ring: &Ring, a: &[u32]) -> Vec<u32> {
    let (limbs, [last]) = ring.limbs().split_at(ring.limbs().len() - 1) else {
        unreachable!("a ring has primes")
    };
    let (a, remainders) = a.split_at(limbs.len() * ring.degree());
    let (last, half) = (last.prime(), last.prime().value() / 2);
    // round(x / q_l) = (x + half - [x + half]) / q_l for the remainder in brackets.
    let mut out = Vec::with_capacity(a.len());
    for (limb, a) in limbs.iter().zip(a.chunks_exact(ring.degree())) {
        let prime = limb.prime();
        // The last prime is below 4 times every other prime.
        let reduce = |x| prime.reduce_lazy(x);
        let (half_here, inverse) = (reduce(half), prime.shoup(prime.inverse(reduce(last.value()))));
        out.extend(a.iter().zip(remainders).map(|(&x, &remainder)| {
            let remainder = reduce(last.add(remainder, half));
            let difference = prime.sub(prime.add(x, half_here), remainder);
            prime.reduce_lazy(prime.mul_lazy(difference, inverse))
        }));
    }
    out
}

/// Returns a ciphertext whose phase is c s' for the key's secret s'; `c` and the result are
/// coefficients modulo q.
///
/// The digits are the residues of c, as integers. The sum of digits times keys has the phase
/// P c s' modulo q P, and the division by P reduces its noise.
pub fn switch<B: ResidueBackend>(arithmetic: &Arithmetic<B>, c: &[u32], key: &SwitchKey) -> Polynomials {
    let ring = &RINGS.keys;
    // A residue is below 4 times every prime: the transform accepts it unreduced.
    let mut digits = Vec::with_capacity(c.len() * ring.limbs().len());
    for digit in c.chunks_exact(ring.degree()) {
        (0..ring.limbs().len()).for_each(|_| digits.extend_from_slice(digit));
    }
    arithmetic.forward(Over::Keys, &mut digits);
    array::from_fn(|i| {
        let pairs =
            digits.chunks_exact(ring.words()).zip(&key.digits).map(|(digit, key)| (digit, &key[i][..]));
        divide_by_last(ring, &arithmetic.sum_of_products(Over::Keys, &pairs.collect::<Vec<_>>()))
    })
}

/// Returns the ciphertext of the image of the message under X -> X^`element`, as coefficients
/// modulo q.
pub fn substitute<B: ResidueBackend>(
    arithmetic: &Arithmetic<B>,
    [c0, c1]: &Polynomials,
    element: u32,
    key: &SwitchKey,
) -> Polynomials {
    let ring = &RINGS.ciphertext;
    let [mut u0, u1] = switch(arithmetic, &ring.automorphism(c1, element as usize), key);
    ring.add_assign(&mut u0, &ring.automorphism(c0, element as usize));
    [u0, u1]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::uniform;

    #[test]
    fn division_rounds_to_the_nearest_integer() {
        for ring in [&RINGS.ciphertext, &RINGS.keys] {
            let last = u128::from(ring.limbs().last().unwrap().prime().value());
            let mut a = uniform(ring, &[1; 32]);
            for (i, x) in [0, 1, last / 2, last / 2 + 1, last, ring.modulus() - 1].into_iter().enumerate() {
                ring.set_coefficient(&mut a, i, x as i128);
            }
            let quotient = divide_by_last(ring, &a);
            for i in 0..ring.degree() {
                let expected = (2 * ring.coefficient(&a, i) + last) / (2 * last);
                for (limb, quotient) in ring.limbs().iter().zip(quotient.chunks_exact(ring.degree())) {
                    assert_eq!(u128::from(quotient[i]), expected % u128::from(limb.prime().value()), "{i}");
                }
            }
        }
    }
}
