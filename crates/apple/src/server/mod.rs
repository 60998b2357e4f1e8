//! The computation of responses.

mod arithmetic;
mod expand;
mod product;
mod switch;

use std::array;

use spirea_backend::ResidueBackend;

pub use self::arithmetic::Arithmetic;
pub(crate) use self::arithmetic::Over;
use self::expand::expand;
use self::product::{LiftedPolynomials, inner_product, lift};
use self::switch::{divide_by_last, switch};
use crate::error::AppleError;
use crate::evaluation_key::EvaluationKey;
use crate::set::{Polynomials, RINGS};
use crate::shape::Shape;

/// A client's query, as ciphertexts of coefficients modulo q, with the client's key.
pub type Asked<'a> = (&'a [Polynomials], &'a EvaluationKey);

/// The ciphertexts of one table that a client's query expands to.
struct Leaves<'a> {
    /// Values modulo q.
    rows: Vec<Polynomials>,
    columns: Vec<LiftedPolynomials>,
    key: &'a EvaluationKey,
}

/// Returns for each query, and each table of a shard, the ciphertexts of the table's chunks, as
/// coefficients modulo the first prime. The plaintexts are values modulo q: table by table, chunk
/// by chunk, column by column. All queries are answered in one pass over them.
///
/// # Errors
/// [`AppleError::Malformed`] if a key lacks a Galois element that the expansion needs.
pub fn answer<B: ResidueBackend>(
    arithmetic: &Arithmetic<B>,
    shape: &Shape,
    plaintexts: &[Option<Vec<u32>>],
    queries: &[Asked<'_>],
) -> Result<Vec<Vec<Vec<Polynomials>>>, AppleError> {
    let mut expanded = Vec::with_capacity(queries.len());
    for &(query, key) in queries {
        let mut leaves = Vec::with_capacity(shape.leaves());
        for (ciphertext, count) in query.iter().zip(shape.leaves_of_ciphertexts()) {
            leaves.extend(expand(arithmetic, ciphertext, count, key)?);
        }
        expanded.push((leaves.into_iter(), key));
    }
    let mut replies = vec![Vec::with_capacity(shape.tables()); queries.len()];
    for plaintexts in plaintexts.chunks_exact(shape.chunks() * shape.plaintexts()) {
        let leaves: Vec<Leaves<'_>> = expanded
            .iter_mut()
            .map(|(leaves, key)| table_leaves(arithmetic, shape, leaves.take(shape.table_leaves()), key))
            .collect();
        let mut ciphertexts = vec![Vec::with_capacity(shape.chunks()); queries.len()];
        for plaintexts in plaintexts.chunks_exact(shape.plaintexts()) {
            for (ciphertexts, ciphertext) in
                ciphertexts.iter_mut().zip(select(arithmetic, shape, plaintexts, &leaves))
            {
                ciphertexts.push(ciphertext);
            }
        }
        replies.iter_mut().zip(ciphertexts).for_each(|(replies, ciphertexts)| replies.push(ciphertexts));
    }
    Ok(replies)
}

/// Transforms and lifts the leaves of a table.
fn table_leaves<'a, B: ResidueBackend>(
    arithmetic: &Arithmetic<B>,
    shape: &Shape,
    mut leaves: impl Iterator<Item = Polynomials>,
    key: &'a EvaluationKey,
) -> Leaves<'a> {
    let mut rows: Vec<Polynomials> = leaves.by_ref().take(shape.rows()).collect();
    rows.iter_mut().flatten().for_each(|polynomial| arithmetic.forward(Over::Ciphertext, polynomial));
    Leaves { rows, columns: leaves.map(|leaf| lift(arithmetic, &leaf)).collect(), key }
}

/// Returns each query's ciphertext of a chunk, as coefficients modulo the first prime.
fn select<B: ResidueBackend>(
    arithmetic: &Arithmetic<B>,
    shape: &Shape,
    plaintexts: &[Option<Vec<u32>>],
    leaves: &[Leaves<'_>],
) -> Vec<Polynomials> {
    let mut folded = vec![Vec::with_capacity(shape.columns()); leaves.len()];
    for column in plaintexts.chunks_exact(shape.rows()) {
        // A column stays in the caches for all queries.
        for (folded, leaves) in folded.iter_mut().zip(leaves) {
            folded.push(fold(arithmetic, column, &leaves.rows));
        }
    }
    let selected = folded.into_iter().zip(leaves).map(|(mut folded, leaves)| match shape.dimensions() {
        [_] => folded.remove(0),
        _ => {
            let folded: Vec<_> = folded.iter().map(|ciphertext| lift(arithmetic, ciphertext)).collect();
            let products = inner_product(arithmetic, shape.set(), &leaves.columns, &folded);
            relinearised(arithmetic, products, leaves.key)
        }
    });
    let switched = selected
        .map(|ciphertext| ciphertext.map(|polynomial| divide_by_last(&RINGS.ciphertext, &polynomial)));
    switched.collect()
}

/// Returns the sum of the products of plaintexts and ciphertexts (values), as coefficients.
fn fold<B: ResidueBackend>(
    arithmetic: &Arithmetic<B>,
    plaintexts: &[Option<Vec<u32>>],
    ciphertexts: &[Polynomials],
) -> Polynomials {
    array::from_fn(|i| {
        let pairs = plaintexts.iter().zip(ciphertexts);
        let pairs =
            pairs.filter_map(|(plaintext, ciphertext)| Some((&plaintext.as_ref()?[..], &ciphertext[i][..])));
        arithmetic.sum_of_products(Over::Ciphertext, &pairs.collect::<Vec<_>>())
    })
}

/// Returns the ciphertext with the phase c_0 + c_1 s + c_2 s^2, all as coefficients modulo q.
fn relinearised<B: ResidueBackend>(
    arithmetic: &Arithmetic<B>,
    [mut c0, mut c1, c2]: [Vec<u32>; 3],
    key: &EvaluationKey,
) -> Polynomials {
    let [u0, u1] = switch(arithmetic, &c2, key.relinearisation());
    RINGS.ciphertext.add_assign(&mut c0, &u0);
    RINGS.ciphertext.add_assign(&mut c1, &u1);
    [c0, c1]
}
