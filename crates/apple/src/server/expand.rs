//! Expansion of a query's ciphertext to one-hot vectors.

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
pub fn expand(
    ciphertext: &Polynomials,
    count: usize,
    key: &EvaluationKey,
) -> Result<Vec<Polynomials>, AppleError> {
    let depth = count.next_power_of_two().ilog2();
    node(ciphertext, count, 0, depth, key)
}

fn node(
    ciphertext: &Polynomials,
    count: usize,
    level: u32,
    depth: u32,
    key: &EvaluationKey,
) -> Result<Vec<Polynomials>, AppleError> {
    let ring = &RINGS.ciphertext;
    if count == 1 {
        let mut leaf = ciphertext.clone();
        leaf.iter_mut().for_each(|polynomial| ring.scale_assign(polynomial, 1 << (depth - level)));
        return Ok(vec![leaf]);
    }
    let image = image(ciphertext, LOG2_DEGREE - level, key)?;
    let (mut even, mut odd) = (ciphertext.clone(), ciphertext.clone());
    for ((even, odd), image) in even.iter_mut().zip(&mut odd).zip(&image) {
        ring.add_assign(even, image);
        ring.sub_assign(odd, image);
        *odd = ring.mul_monomial(odd, 2 * ring.degree() - (1 << level));
    }
    let mut evens = node(&even, count.div_ceil(2), level + 1, depth, key)?.into_iter();
    let mut odds = node(&odd, count / 2, level + 1, depth, key)?.into_iter();
    let alternately = (0..count).map(|i| if i % 2 == 0 { evens.next() } else { odds.next() });
    Ok(alternately.map(|leaf| leaf.expect("the children give all outputs")).collect())
}

/// Returns the image under X -> X^(2^`exponent` + 1): a substitution by the key's greatest element
/// up to that, repeated as often as needed.
fn image(ciphertext: &Polynomials, exponent: u32, key: &EvaluationKey) -> Result<Polynomials, AppleError> {
    let (element, switch_key) = key.galois((1 << exponent) + 1).ok_or_else(|| {
        AppleError::malformed("SerializedEvaluationKey", format!("no Galois element up to 2^{exponent} + 1"))
    })?;
    let times = 1 << (exponent - (element - 1).ilog2());
    let first = substitute(ciphertext, element, switch_key);
    Ok((1..times).fold(first, |image, _| substitute(&image, element, switch_key)))
}
