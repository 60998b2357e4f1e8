//! Products of polynomials by definition, as oracles.

use crate::modulus::Modulus;

/// Returns `a` times `b` in Z_q\[X\]/(X^N + 1), N = `a.len()`.
///
/// # Panics
/// If the lengths differ.
pub fn negacyclic_product(modulus: Modulus, a: &[u32], b: &[u32]) -> Vec<u32> {
    assert_eq!(a.len(), b.len());
    let n = a.len();
    let mut product = vec![0; n];
    for (i, &x) in a.iter().enumerate() {
        for (j, &y) in b.iter().enumerate() {
            let term = modulus.mul(x, y);
            let place = &mut product[(i + j) % n];
            *place = if i + j < n { modulus.add(*place, term) } else { modulus.sub(*place, term) };
        }
    }
    product
}

/// Returns `a` times `b` in Z_{2^32}\[X\]/(X^N + 1), N = `a.len()`.
///
/// # Panics
/// If the lengths differ.
pub fn negacyclic_product_wrapping(a: &[u32], b: &[u32]) -> Vec<u32> {
    assert_eq!(a.len(), b.len());
    let n = a.len();
    let mut product = vec![0u32; n];
    for (i, &x) in a.iter().enumerate() {
        for (j, &y) in b.iter().enumerate() {
            let term = x.wrapping_mul(y);
            let place = &mut product[(i + j) % n];
            *place = if i + j < n { place.wrapping_add(term) } else { place.wrapping_sub(term) };
        }
    }
    product
}
