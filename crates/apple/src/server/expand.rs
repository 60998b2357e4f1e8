//! Expansion of a query's ciphertext to one-hot vectors.

use spirea_backend::ResidueBackend;
use spirea_math::Modulus;

use super::arithmetic::Arithmetic;
use super::switch::substitute;
use crate::AppleError;
use crate::evaluation_key::EvaluationKey;
use crate::set::{LOG2_DEGREE, Polynomials, RINGS};

/// Returns ciphertexts of the first `count` coefficients of the message, each times
/// 2^ceil(log2 `count`), as coefficients modulo q.
///
/// A node of the tree gives the half of its outputs with even numbers to one child, and the others
/// to the other child. A node that gives one output is a leaf. If it has one level less than the
/// others, it is doubled.
///
/// # Errors
/// [`AppleError::Malformed`] if the key lacks a Galois element.
pub fn expand<B: ResidueBackend>(
    arithmetic: &Arithmetic<B>,
    ciphertext: &Polynomials,
    count: usize,
    key: &EvaluationKey,
) -> Result<Vec<Polynomials>, AppleError> {
    let tree = Tree { arithmetic, depth: count.next_power_of_two().ilog2(), key };
    tree.node(ciphertext.clone(), count, 0)
}

struct Tree<'a, B: ResidueBackend> {
    arithmetic: &'a Arithmetic<B>,
    depth: u32,
    key: &'a EvaluationKey,
}

impl<B: ResidueBackend> Tree<'_, B> {
    /// Returns the `count` outputs of a node.
    fn node(
        &self,
        mut ciphertext: Polynomials,
        count: usize,
        level: u32,
    ) -> Result<Vec<Polynomials>, AppleError> {
        let ring = &RINGS.ciphertext;
        if count == 1 {
            if level < self.depth {
                ciphertext
                    .iter_mut()
                    .for_each(|polynomial| ring.scale_assign(polynomial, 1 << (self.depth - level)));
            }
            return Ok(vec![ciphertext]);
        }
        let mut image = self.image(&ciphertext, LOG2_DEGREE - level)?;
        for (node, image) in ciphertext.iter_mut().zip(&mut image) {
            let residues = node.chunks_exact_mut(ring.degree()).zip(image.chunks_exact_mut(ring.degree()));
            for (limb, (node, image)) in ring.limbs().iter().zip(residues) {
                split(limb.prime(), 1 << level, node, image);
            }
        }
        let mut evens = self.node(ciphertext, count.div_ceil(2), level + 1)?.into_iter();
        let mut odds = self.node(image, count / 2, level + 1)?.into_iter();
        let alternately = (0..count).map(|i| if i % 2 == 0 { evens.next() } else { odds.next() });
        Ok(alternately.map(|leaf| leaf.expect("the children give all outputs")).collect())
    }

    /// Returns the image under X -> X^(2^`exponent` + 1): a substitution by the key's greatest
    /// element up to that, repeated as often as needed.
    fn image(&self, ciphertext: &Polynomials, exponent: u32) -> Result<Polynomials, AppleError> {
        let (element, switch_key) = self.key.galois((1 << exponent) + 1).ok_or_else(|| {
            let detail = format!("no Galois element up to 2^{exponent} + 1");
            AppleError::malformed("SerializedEvaluationKey", detail)
        })?;
        let times = 1 << (exponent - (element - 1).ilog2());
        let substituted =
            |ciphertext: &Polynomials| substitute(self.arithmetic, ciphertext, element, switch_key);
        let first = substituted(ciphertext);
        Ok((1..times).fold(first, |image, _| substituted(&image)))
    }
}

/// Replaces a node by node + image, and the image by (node - image) X^-`shift`: coefficients modulo
/// one prime.
fn split(prime: Modulus, shift: usize, node: &mut [u32], image: &mut [u32]) {
    for (node, image) in node.iter_mut().zip(&mut *image) {
        (*node, *image) = (prime.add(*node, *image), prime.sub(*node, *image));
    }
    // The low coefficients wrap around and change their sign.
    image[..shift].iter_mut().for_each(|x| *x = if *x == 0 { 0 } else { prime.value() - *x });
    image.rotate_left(shift);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::uniform;

    #[test]
    fn children_are_the_sum_and_the_shifted_difference() {
        let ring = &RINGS.ciphertext;
        for shift in [1, 2, 64, 2048] {
            let (node, image) = (uniform(ring, &[1; 32]), uniform(ring, &[2; 32]));
            let (mut even, mut odd) = (node.clone(), node.clone());
            ring.add_assign(&mut even, &image);
            ring.sub_assign(&mut odd, &image);
            let odd = ring.mul_monomial(&odd, 2 * ring.degree() - shift);
            let (mut sum, mut difference) = (node, image);
            let residues = sum.chunks_exact_mut(4096).zip(difference.chunks_exact_mut(4096));
            for (limb, (sum, difference)) in ring.limbs().iter().zip(residues) {
                split(limb.prime(), shift, sum, difference);
            }
            assert!(sum == even && difference == odd, "shift {shift}");
        }
    }
}
