//! Packing by rotations: images of chunks under the small automorphisms, and sums under the big
//! ones.
//!
//! A rotation is the substitution of a tree's node, but keeps the image itself. Every step is one
//! stage for all chunks or sums of all queries.

use spirea_backend::{BackendError, check_rotations};
use spirea_math::Rotations;

use super::ciphertexts::{Ciphertexts, Leaves};
use super::keys::{DigitKeys, Keys};
use super::stages::{self, ROTATIONS, Stage};
use super::substitutions::{Substituted, Substitution};
use super::tables::Tables;
use crate::driver::{Arg, View};

/// Indices into [`Rotations::keys`].
const STEP: usize = 0;
const SIGN: usize = 1;
const BIG: usize = 2;

/// Keys for rotations and ciphertexts of a query.
type Query<'a> = (&'a DigitKeys, View<'a, u32>);

/// Checks that each query has at least `count` ciphertexts and keys for rotations, and pairs them.
fn checked<'a>(
    tables: &Tables,
    count: usize,
    queries: &[(&'a Keys, View<'a, u32>)],
) -> Result<Vec<Query<'a>>, BackendError> {
    let query = |(keys, ciphertexts): &(&'a Keys, View<'a, u32>)| {
        let enough = ciphertexts.len() / tables.ciphertext() >= count;
        Some((keys.rotations.as_ref().filter(|_| enough)?, ciphertexts.clone()))
    };
    let queries: Option<_> = queries.iter().map(query).collect();
    queries.ok_or_else(|| {
        BackendError::Shape(format!("fewer than {count} ciphertexts, or keys without rotations"))
    })
}

/// Number of the first ciphertext of a query that a step reads or writes, among the given
/// ciphertexts or among the computed ones.
#[derive(Clone, Copy)]
enum Place {
    Given(usize),
    Made(usize),
}

/// Step, the same for all queries.
struct Step {
    /// Index of the key.
    key: usize,
    /// Number of items of each query.
    items: usize,
    from: Place,
    to: Place,
    substitution: Substitution,
}

/// Queues steps one after another. Consecutive queries whose keys have the same gadget are
/// processed together.
fn run(
    tables: &Tables,
    steps: &[Step],
    queries: &[Query<'_>],
    made: &Ciphertexts,
) -> Result<(), BackendError> {
    let mut first = 0;
    for queries in queries.chunk_by(|(one, _), (other, _)| one.gadget() == other.gadget()) {
        let stage = |step: &Step| {
            let substituted = |(number, (keys, given)): (usize, &Query<'_>)| {
                let address = |place: Place| {
                    let (ciphertexts, i) = match place {
                        Place::Given(i) => (given.clone(), i),
                        Place::Made(i) => (made.of(tables, number), i),
                    };
                    ciphertexts.address() + 4 * (i * tables.ciphertext()) as u64
                };
                let [sources, results] = [step.from, step.to].map(address);
                Substituted { sources, results, key: keys.key(step.key).address() }
            };
            Stage {
                items: step.items,
                queries: (first..).zip(queries).map(substituted).collect(),
                common: Arg::structure(&step.substitution),
            }
        };
        let stages: Vec<_> = steps.iter().map(stage).collect();
        stages::run(tables, &queries[0].0.decomposition, &ROTATIONS, &stages)?;
        first += queries.len();
    }
    Ok(())
}

/// Implements `rotate`: computes the chunks' images under powers of 5, one power after another,
/// then all images with the opposite sign. The first step reads the leaves, and also copies the
/// chunks to the place of the images.
pub(super) fn rotate(
    tables: &Tables,
    rotations: Rotations,
    queries: &[(&Keys, View<'_, u32>)],
) -> Result<Leaves, BackendError> {
    check_rotations(tables.ring(), rotations)?;
    let queries = checked(tables, rotations.chunks(), queries)?;
    let images = Leaves::room(tables, queries.len(), rotations.leaves())?;
    let (powers, of_chunk) = (rotations.steps(), rotations.small() as u32);
    let [by_step, by_sign, _] = rotations.keys(tables.degree()).map(|exponent| exponent as u32);
    let step = |number: usize| {
        // In the first step the chunks are consecutive leaves. Later steps read chunks that lie
        // between their images.
        let (leaves, source_stride, keeps) = if number == 0 { (true, 1, 1) } else { (false, of_chunk, 0) };
        let image = |i: usize| if leaves { Place::Given(i) } else { Place::Made(i) };
        let common =
            Substitution { source_stride, result_stride: of_chunk, keeps, ..Substitution::default() };
        if number + 1 < powers {
            Step {
                key: STEP,
                items: rotations.chunks(),
                from: image(number),
                to: Place::Made(number + 1),
                substitution: Substitution { exponent: by_step, ..common },
            }
        } else {
            Step {
                key: SIGN,
                items: rotations.chunks() * powers,
                from: image(0),
                to: Place::Made(powers),
                substitution: Substitution { exponent: by_sign, log_run: powers.ilog2(), ..common },
            }
        }
    };
    run(tables, &(0..powers).map(step).collect::<Vec<_>>(), &queries, &images)?;
    Ok(images)
}

/// Implements `sum_rotated` by Horner's rule: each partial total overwrites the term that it adds,
/// and the last total is written to the place of the sum.
pub(super) fn sum_rotated(
    tables: &Tables,
    rotations: Rotations,
    keys: &[&Keys],
    ciphertexts: Ciphertexts,
) -> Result<Ciphertexts, BackendError> {
    check_rotations(tables.ring(), rotations)?;
    let (big, count) = (rotations.big(), ciphertexts.count());
    let queries = checked(tables, count, &ciphertexts.with(tables, keys)?)?;
    if !count.is_multiple_of(big) {
        return Err(BackendError::Shape(format!("{count} ciphertexts for sums of {big}")));
    }
    if big == 1 {
        return Ok(ciphertexts);
    }
    let sums = Ciphertexts::room(tables, queries.len(), count / big)?;
    let [_, _, exponent] = rotations.keys(tables.degree()).map(|exponent| exponent as u32);
    let step = |term: usize| {
        let (to, result_stride) =
            if term == 0 { (Place::Made(0), 1) } else { (Place::Given(term), big as u32) };
        let common =
            Substitution { exponent, source_stride: big as u32, result_stride, ..Substitution::default() };
        Step {
            key: BIG,
            items: count / big,
            from: Place::Given(term + 1),
            to,
            substitution: Substitution { adds: 1, ..common },
        }
    };
    run(tables, &(0..big - 1).rev().map(step).collect::<Vec<_>>(), &queries, &sums)?;
    Ok(sums)
}
