//! The computation of responses.

mod arithmetic;
mod expand;
mod memory;

use std::slice;

use spirea_backend::{BackendError, ResidueBackend, map_each};

pub use self::arithmetic::Arithmetic;
use self::expand::{Expansion, expand};
use crate::error::AppleError;
use crate::evaluation_key::EvaluationKey;
use crate::set::{DEGREE, POLYNOMIALS, Polynomials, RINGS};
use crate::shape::Shape;

/// Stage of the computation of responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Expansion of the queries to one-hot vectors.
    Expansion,
    /// Products of the rows' leaves and the plaintexts of a table.
    Rows,
    /// Products of the columns' leaves and the selected rows, and their relinearisation.
    Columns,
    /// Division by the last prime of q.
    Division,
}

/// A client's query, as its ciphertexts in the form of [`Query`](crate::Query), with the client's
/// key.
pub type Asked<'a> = (&'a [Vec<u32>], &'a EvaluationKey);

/// Returns the ciphertexts of the chunks of each table of a shard, for each query, as coefficients
/// modulo the first prime. `plaintexts` has a matrix for each table, with a row for each column of
/// each chunk. All queries are answered in one pass over `plaintexts`. `ended` is called at the end
/// of each stage: once for the expansion, and once for each table for the other stages.
///
/// # Errors
/// [`AppleError::Malformed`] if a key lacks a Galois element that the expansion needs;
/// [`AppleError::Backend`] if the computation fails.
pub fn answer<B: ResidueBackend>(
    arithmetic: &Arithmetic<B>,
    shape: &Shape,
    plaintexts: &[B::Plain],
    queries: &[Asked<'_>],
    ended: &mut dyn FnMut(Stage),
) -> Result<Vec<Vec<Vec<Polynomials>>>, AppleError> {
    if queries.is_empty() {
        return Ok(Vec::new());
    }
    let of_one = POLYNOMIALS * RINGS.ciphertext.words();
    // Order of the leaves: for each table, the rows' leaves of all queries, then the columns'
    // leaves of all queries.
    let mut leaves = arithmetic.memory.words(queries.len() * shape.leaves() * of_one);
    let parts = [shape.rows(), shape.table_leaves() - shape.rows()];
    let mut places = leaves.chunks_exact_mut(of_one);
    let mut nodes: Vec<_> = queries.iter().map(|_| Vec::with_capacity(shape.leaves())).collect();
    for part in (0..shape.tables()).flat_map(|_| parts) {
        nodes.iter_mut().for_each(|nodes| nodes.extend(places.by_ref().take(part)));
    }
    let mut trees = Vec::new();
    for (nodes, &(ciphertexts, key)) in nodes.iter_mut().zip(queries) {
        let mut rest = &mut nodes[..];
        for (ciphertext, count) in ciphertexts.iter().zip(shape.leaves_of_ciphertexts()) {
            let (nodes, others) = rest.split_at_mut(count);
            rest = others;
            nodes[0].copy_from_slice(ciphertext);
            arithmetic.backend.forward(&arithmetic.ciphertext, &mut nodes[0][..of_one / POLYNOMIALS]);
            trees.push(Expansion { nodes, key });
        }
    }
    expand(arithmetic, trees)?;
    ended(Stage::Expansion);

    let mut replies: Vec<_> = queries.iter().map(|_| Vec::with_capacity(shape.tables())).collect();
    let of_table = leaves.chunks_exact(queries.len() * shape.table_leaves() * of_one);
    for (plaintexts, leaves) in plaintexts.iter().zip(of_table) {
        let (rows, columns) = leaves.split_at(queries.len() * shape.rows() * of_one);
        let selected = select(arithmetic, shape, plaintexts, [rows, columns], queries, ended);
        let selected = selected.map_err(|error| AppleError::Backend(error.to_string()))?;
        ended(Stage::Columns);
        let of_queries = selected.into_iter();
        let mut of_queries = of_queries.map(|selected| divided(arithmetic, &selected));
        replies.iter_mut().for_each(|reply| reply.push(of_queries.by_ref().take(shape.chunks()).collect()));
        ended(Stage::Division);
    }
    Ok(replies)
}

/// Returns the ciphertext of each chunk of a table for each query, query by query, as coefficients
/// modulo q. The leaves are those of the rows and those of the columns, each for all queries.
fn select<B: ResidueBackend>(
    arithmetic: &Arithmetic<B>,
    shape: &Shape,
    plaintexts: &B::Plain,
    [rows, columns]: [&[u32]; 2],
    queries: &[Asked<'_>],
    ended: &mut dyn FnMut(Stage),
) -> Result<Vec<Vec<u32>>, BackendError> {
    let Arithmetic { backend, ciphertext: tables, keys, products, memory } = arithmetic;
    let polynomial = RINGS.ciphertext.words();
    let leaves = backend.leaves(tables, queries.len(), rows)?;
    let folded = backend.poly_fold(tables, slice::from_ref(plaintexts), &leaves)?;
    let folded = backend.ciphertext_words(tables, &folded)?;
    drop(leaves);
    ended(Stage::Rows);
    if columns.is_empty() {
        return Ok(map_each(&**backend, folded.chunks_exact(POLYNOMIALS * polynomial), |ciphertext| {
            let mut ciphertext = ciphertext.to_vec();
            backend.inverse(tables, &mut ciphertext);
            ciphertext
        }));
    }
    let lifted_words = polynomial + RINGS.extension.words();
    let lengths = [columns, &folded].map(|words| words.len() / polynomial * lifted_words);
    let mut lifted = memory.words(lengths[0] + lengths[1]);
    let from = [columns, &folded].into_iter().flat_map(|words| words.chunks_exact(polynomial));
    map_each(&**backend, from.zip(lifted.chunks_exact_mut(lifted_words)), |(from, to)| {
        backend.lift(products, from, to);
    });
    let (left, right) = lifted.split_at(lengths[0]);
    let of_query = shape.columns() * POLYNOMIALS * lifted_words;
    let pairs = right.chunks_exact(of_query).enumerate();
    Ok(map_each(&**backend, pairs, |(i, right)| {
        let query = i / shape.chunks();
        let left = &left[query * of_query..][..of_query];
        let product = backend.inner_product(products, shape.set().plaintext_modulus(), left, right);
        let mut ciphertext = vec![0; POLYNOMIALS * polynomial];
        backend.relinearise(keys, queries[query].1.relinearisation(), &product, &mut ciphertext);
        ciphertext
    }))
}

/// Returns a ciphertext divided by the last prime of q, as coefficients.
fn divided<B: ResidueBackend>(arithmetic: &Arithmetic<B>, ciphertext: &[u32]) -> Polynomials {
    let (c0, c1) = ciphertext.split_at(ciphertext.len() / POLYNOMIALS);
    [c0, c1].map(|polynomial| {
        let mut divided = vec![0; DEGREE];
        arithmetic.backend.divide_by_last(&arithmetic.ciphertext, polynomial, &mut divided);
        divided
    })
}
