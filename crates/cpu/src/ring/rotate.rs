//! Packing by rotations: images under the small automorphisms, and sums over the big automorphisms.

use std::marker::PhantomData;

use rayon::prelude::*;
use spirea_backend::{BackendError, check_batches, check_rotations};
use spirea_math::Rotations;

use super::ciphertexts::RingCiphertexts;
use super::image::{Image, Substituted, write_image};
use super::keys::RingKeys;
use super::lanes::WordLanes;
use super::layout::{BLOCK, RingLeaves};
use super::pool::WorkingMemory;
use super::product::{DigitKeys, Operands, Results, multiply};
use super::scratch::Scratch;
use super::tables::{Automorphism, RingTables};
use super::tournament::Sum;
use crate::parallel::Each as _;

/// Ciphertexts rotated together, which share one read of the key for each prime.
const GROUP: usize = 4;

/// A substitution with its key.
struct Rotation<'a> {
    automorphism: &'a Automorphism,
    key: &'a DigitKeys,
}

/// Returns a client's rotations, in the order of [`Rotations::keys`].
fn rotations_of<'a>(
    tables: &'a RingTables,
    rotations: Rotations,
    keys: &'a RingKeys,
) -> Result<[Rotation<'a>; Rotations::KEYS], BackendError> {
    let keys = keys.rotations.as_ref();
    let keys = keys.ok_or_else(|| BackendError::Shape("keys without rotations".into()))?;
    let automorphisms = tables.rotations(rotations);
    Ok(std::array::from_fn(|i| Rotation { automorphism: automorphisms[i], key: &keys[i] }))
}

/// Destination of a rotated ciphertext.
trait Target {
    type Results<'a>: Results;
    /// Returns the destination for a ciphertext modulo one prime.
    fn results(words: &mut [u32]) -> Self::Results<'_>;
}

/// Target that overwrites a place with arbitrary content.
struct Stored;

impl Target for Stored {
    type Results<'a> = &'a mut [u32];

    fn results(words: &mut [u32]) -> &mut [u32] {
        words
    }
}

/// Target that adds to a place's content.
struct Added;

impl Target for Added {
    type Results<'a> = Sum<'a>;

    fn results(words: &mut [u32]) -> Sum<'_> {
        Sum(words)
    }
}

/// Ciphertexts, each with the place of its result.
struct Rotated<'a, T> {
    tables: &'a RingTables,
    automorphism: &'a Automorphism,
    pairs: Vec<(&'a [u32], &'a mut [u32])>,
    target: PhantomData<T>,
}

impl<T: Target> Operands for Rotated<'_, T> {
    type Results<'b>
        = Substituted<'b, T::Results<'b>>
    where
        Self: 'b;

    fn count(&self) -> usize {
        self.pairs.len()
    }

    fn write<L: WordLanes<W>, const W: usize>(&self, lanes: L, i: usize, polynomial: usize, to: &mut [u32]) {
        write_image(lanes, self.tables, self.automorphism, self.pairs[i].0, polynomial, to);
    }

    fn results(&mut self, i: usize, prime: usize) -> Self::Results<'_> {
        let of_prime = 2 * self.tables.degree();
        let place = prime * of_prime..(prime + 1) * of_prime;
        let (from, to) = &mut self.pairs[i];
        let image = Image { automorphism: self.automorphism, tiles: &from[place.clone()] };
        Substituted { image, results: T::results(&mut to[place]) }
    }
}

impl Rotation<'_> {
    fn apply<T: Target, L: WordLanes<W>, const W: usize>(
        &self,
        lanes: L,
        tables: &RingTables,
        scratch: &mut Scratch,
        pairs: Vec<(&[u32], &mut [u32])>,
    ) {
        let mut rotated =
            Rotated::<T> { tables, automorphism: self.automorphism, pairs, target: PhantomData };
        multiply(lanes, tables, self.key, scratch, &mut rotated);
    }
}

/// Implements `rotate`.
pub(super) fn rotate<L: WordLanes<W>, const W: usize>(
    lanes: L,
    tables: &RingTables,
    memory: &WorkingMemory,
    rotations: Rotations,
    keys: &[&RingKeys],
    leaves: &[RingLeaves],
) -> Result<Vec<RingLeaves>, BackendError> {
    check_batches(keys.len(), leaves.len())?;
    check_rotations(tables.ring(), rotations)?;
    if leaves.iter().any(|leaves| leaves.count() < rotations.chunks()) {
        return Err(BackendError::Shape("fewer leaves than chunks".into()));
    }
    let of_query = |(keys, leaves): (&&RingKeys, &RingLeaves)| {
        let [by_step, by_sign, _] = rotations_of(tables, rotations, keys)?;
        let one = 2 * tables.words();
        let mut images = memory.words(rotations.leaves().checked_mul(one), "the rotated chunks")?;
        let chunks = images.as_words_mut().par_chunks_mut(rotations.small() * one).enumerate();
        chunks.each_with(&|| memory.scratch(), &|scratch, (chunk, images)| {
            let (positive, negative) = images.split_at_mut(rotations.steps() * one);
            leaves.copy(tables, chunk, &mut positive[..one]);
            for i in 1..rotations.steps() {
                let (done, next) = positive.split_at_mut(i * one);
                let pair = (&done[(i - 1) * one..], &mut next[..one]);
                by_step.apply::<Stored, L, W>(lanes, tables, scratch, vec![pair]);
            }
            let groups = positive.chunks(GROUP * one).zip(negative.chunks_mut(GROUP * one));
            for (positive, negative) in groups {
                let pairs = positive.chunks(one).zip(negative.chunks_mut(one)).collect();
                by_sign.apply::<Stored, L, W>(lanes, tables, scratch, pairs);
            }
        });
        let mut rotated = RingLeaves::room(tables, memory, rotations.leaves())?;
        let blocks = rotated.blocks_mut(tables).zip(images.as_words().par_chunks(BLOCK * one));
        blocks.each(&|(mut block, images)| block.set_all(images));
        Ok(rotated)
    };
    keys.par_iter().zip(leaves).collected(&of_query)
}

/// Implements `sum_rotated`: adds to each term the image of the sum of the terms after it.
pub(super) fn sum_rotated<L: WordLanes<W>, const W: usize>(
    lanes: L,
    tables: &RingTables,
    memory: &WorkingMemory,
    rotations: Rotations,
    keys: &[&RingKeys],
    ciphertexts: Vec<RingCiphertexts>,
) -> Result<Vec<RingCiphertexts>, BackendError> {
    check_batches(keys.len(), ciphertexts.len())?;
    check_rotations(tables.ring(), rotations)?;
    let (big, one) = (rotations.big(), 2 * tables.words());
    if ciphertexts.iter().any(|ciphertexts| !ciphertexts.count().is_multiple_of(big)) {
        return Err(BackendError::Shape(format!("ciphertexts that are not {big} for each sum")));
    }
    let sums = |ciphertexts: &RingCiphertexts| ciphertexts.count() / big;
    let all: usize = ciphertexts.iter().map(sums).sum();
    // Number of sums computed together: the largest with which every thread has work.
    let together = all.div_ceil(rayon::current_num_threads()).clamp(1, GROUP);
    let of_query = |(keys, mut ciphertexts): (&&RingKeys, RingCiphertexts)| {
        let sums = sums(&ciphertexts);
        let words = &mut ciphertexts.words_mut()[..sums * big * one];
        add_rotated(lanes, tables, memory, rotations, keys, words, together)?;
        for sum in 1..sums {
            words.copy_within(sum * big * one..(sum * big + 1) * one, sum * one);
        }
        Ok(ciphertexts.keep(sums))
    };
    keys.par_iter().zip(ciphertexts).collected(&of_query)
}

/// Adds to each term the image of the sum of the terms after it, `together` sums at a time. The
/// first term of a sum becomes the sum.
pub(super) fn add_rotated<L: WordLanes<W>, const W: usize>(
    lanes: L,
    tables: &RingTables,
    memory: &WorkingMemory,
    rotations: Rotations,
    keys: &RingKeys,
    words: &mut [u32],
    together: usize,
) -> Result<(), BackendError> {
    let [_, _, by_big] = rotations_of(tables, rotations, keys)?;
    let (big, one) = (rotations.big(), 2 * tables.words());
    words.par_chunks_mut(together * big * one).each_with(&|| memory.scratch(), &|scratch, words| {
        for term in (0..big - 1).rev() {
            let pair = |terms| {
                let (to, from) = <[u32]>::split_at_mut(terms, (term + 1) * one);
                (&from[..one], &mut to[term * one..])
            };
            let pairs = words.chunks_exact_mut(big * one).map(pair).collect();
            by_big.apply::<Added, L, W>(lanes, tables, scratch, pairs);
        }
    });
    Ok(())
}
