//! The computation of a response.

mod expand;
mod product;
mod switch;

use std::array;

use self::expand::expand;
use self::product::inner_product;
use self::switch::{divide_by_last, switch};
use crate::error::AppleError;
use crate::evaluation_key::EvaluationKey;
use crate::set::{Polynomials, RINGS};
use crate::shape::Shape;

/// Returns for each table of a shard the ciphertexts of its chunks, as coefficients modulo the first
/// prime. The plaintexts are values modulo q: table by table, chunk by chunk, column by column.
///
/// # Errors
/// [`AppleError::Malformed`] if the key lacks a Galois element that the expansion needs.
pub fn answer(
    shape: &Shape,
    plaintexts: &[Option<Vec<u32>>],
    query: &[Polynomials],
    key: &EvaluationKey,
) -> Result<Vec<Vec<Polynomials>>, AppleError> {
    let mut leaves = Vec::with_capacity(shape.leaves());
    for (ciphertext, count) in query.iter().zip(shape.leaves_of_ciphertexts()) {
        leaves.extend(expand(ciphertext, count, key)?);
    }
    let tables = leaves.chunks_exact_mut(shape.table_leaves());
    let plaintexts = plaintexts.chunks_exact(shape.chunks() * shape.plaintexts());
    Ok(tables
        .zip(plaintexts)
        .map(|(leaves, plaintexts)| table_reply(shape, plaintexts, leaves, key))
        .collect())
}

/// Returns the ciphertexts of a table's chunks. The leaves are coefficients modulo q.
fn table_reply(
    shape: &Shape,
    plaintexts: &[Option<Vec<u32>>],
    leaves: &mut [Polynomials],
    key: &EvaluationKey,
) -> Vec<Polynomials> {
    let ring = &RINGS.ciphertext;
    let (rows, columns) = leaves.split_at_mut(shape.rows());
    rows.iter_mut().flatten().for_each(|polynomial| ring.forward(polynomial));
    let chunks = plaintexts.chunks_exact(shape.plaintexts());
    chunks
        .map(|plaintexts| {
            let mut folded: Vec<Polynomials> =
                plaintexts.chunks_exact(shape.rows()).map(|column| fold(column, rows)).collect();
            let selected = match shape.dimensions() {
                [_] => folded.remove(0),
                _ => relinearised(inner_product(shape.set(), columns, &folded), key),
            };
            selected.map(|polynomial| divide_by_last(ring, &polynomial))
        })
        .collect()
}

/// Returns the sum of the products of plaintexts and ciphertexts (values), as coefficients.
fn fold(plaintexts: &[Option<Vec<u32>>], ciphertexts: &[Polynomials]) -> Polynomials {
    let ring = &RINGS.ciphertext;
    array::from_fn(|i| {
        let mut sum = ring.zero();
        for (plaintext, ciphertext) in plaintexts.iter().zip(ciphertexts) {
            if let Some(plaintext) = plaintext {
                ring.mul_add(&mut sum, plaintext, &ciphertext[i]);
            }
        }
        ring.inverse(&mut sum);
        sum
    })
}

/// Returns the ciphertext with the phase c_0 + c_1 s + c_2 s^2, all as coefficients modulo q.
fn relinearised([mut c0, mut c1, c2]: [Vec<u32>; 3], key: &EvaluationKey) -> Polynomials {
    let [u0, u1] = switch(&c2, key.relinearisation());
    RINGS.ciphertext.add_assign(&mut c0, &u0);
    RINGS.ciphertext.add_assign(&mut c1, &u1);
    [c0, c1]
}
