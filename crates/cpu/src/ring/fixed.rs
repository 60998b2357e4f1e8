//! Packing with constant uniform halves: b halves alone, with known digits.
//!
//! A substitution maps (a, b) to the sum of the digits of a', the image of a, times ciphertexts of
//! a key, plus b'. If a and the keys' uniform halves are constants, so are the digits. A
//! substitution is then, slot by slot, one product for each digit, and a sum; nothing is
//! transformed. The digits of all substitutions are one stream, in the order of their use.

use std::borrow::Cow;

use rayon::prelude::*;
use spirea_backend::{BackendError, EvaluationKeys, FixedPacking, check_rotations};
use spirea_math::{Expansion, Modulus, SentChunks, ShoupWord};

use super::ciphertexts::RingCiphertexts;
use super::digits::Decomposition;
use super::expand::{Schedule, expand};
use super::fold::{RingPlain, poly_fold};
use super::image::{Image, write_image};
use super::keys::RingKeys;
use super::lanes::{Kernel, WordLanes};
use super::layout::{BLOCK, RingLeaves, push_in_order};
use super::modular::{Factor, Prime};
use super::pool::{Words, WorkingMemory};
use super::rotate::{add_rotated, rotate};
use super::substitute::{Added, Children, Stored, Substitute, Target};
use super::tables::{Automorphism, RingTables};
use crate::parallel::Each as _;

/// Digits computed from constant uniform halves, for packing.
#[derive(Debug)]
pub struct RingFixed {
    packing: FixedPacking,
    results: usize,
    /// Number of substitutions before those of the chunks.
    before_chunks: usize,
    /// Words of one substitution's digits.
    of_one: usize,
    /// Digits by substitution, prime, vector and digit: values times 2^32, below the primes.
    digits: Words,
}

impl RingFixed {
    /// Returns the bytes in memory that packing a query reads, apart from the plaintexts.
    pub fn bytes(&self) -> usize {
        self.digits.bytes().len()
    }

    /// Returns the digits of a substitution.
    fn digits(&self, number: usize) -> &[u32] {
        &self.digits.as_words()[number * self.of_one..][..self.of_one]
    }

    /// Returns the number of the first substitution of a chunk. The order within a chunk is: the
    /// substitutions by 5, then those by -1.
    fn of_chunk(&self, chunk: usize) -> usize {
        self.before_chunks + chunk * (self.packing.rotations.small() - 1)
    }

    /// Returns the number of the first substitution of a result; they begin with the last term.
    fn of_result(&self, result: usize) -> usize {
        self.of_chunk(self.packing.rotations.chunks()) + result * (self.packing.rotations.big() - 1)
    }
}

/// Returns the number of the first substitution of a level of an expansion; they are ordered by
/// node.
fn of_level(expansion: Expansion, level: u32) -> usize {
    (0..level).map(|level| expansion.nodes(level)).sum()
}

/// Operands common to `fix` and `pack`.
#[derive(Clone, Copy)]
pub(super) struct Room<'a, L> {
    pub lanes: L,
    pub tables: &'a RingTables,
    pub memory: &'a WorkingMemory,
    pub schedule: Schedule,
}

/// Implements `fix_uniform`: returns the digits, and the results' ciphertexts, whose b halves are
/// 0.
pub(super) fn fix<L: WordLanes<W>, const W: usize>(
    room: Room<'_, L>,
    packing: FixedPacking,
    uniform: &[u32],
    plain: &[RingPlain],
) -> Result<(RingFixed, Vec<RingCiphertexts>), BackendError> {
    let Room { lanes, tables, memory, schedule } = room;
    let (ring, rotations) = (tables.ring(), packing.rotations);
    packing.check(ring, uniform)?;
    check_rotations(ring, rotations)?;
    let rows: usize = plain.iter().map(RingPlain::rows).sum();
    if !rows.is_multiple_of(rotations.big()) {
        return Err(BackendError::Shape(format!(
            "{rows} rows that are not {} for each sum",
            rotations.big()
        )));
    }
    let decomposition = Decomposition::new(ring, packing.gadget)?;
    let whole = with_zeros(tables, uniform);
    let of_key = packing.gadget.levels(ring) * 2 * ring.words();
    let (sent_keys, ciphertexts) = whole.split_at(packing.chunks.keys() * of_key);
    let (results, levels) = (rows / rotations.big(), decomposition.levels());
    let of_one = levels * tables.words();
    let words = packing.substitutions(ring, results).checked_mul(of_one);
    let digits = memory.words(words, "the digits of uniform halves")?;
    let before_chunks = packing.chunks.substitutions(rotations, levels);
    let mut fixed = RingFixed { packing, results, before_chunks, of_one, digits };
    let recorder = Recorder { room, decomposition };

    let [by_five, by_sign, by_big] = tables.rotations(rotations);
    let (keys, chunks) = match packing.chunks {
        SentChunks::Expanded(expansion) => {
            let (of_expansion, of_rotations) = sent_keys.split_at(expansion.levels() as usize * of_key);
            let keys = keys_of(tables, &packing, of_expansion, of_rotations)?;
            let roots = [(&keys, ciphertexts)];
            for level in 0..expansion.levels() {
                let above = Expansion::partial(level, expansion.nodes(level));
                let nodes = expand(lanes, tables, memory, schedule, above, &roots)?;
                let automorphism = &tables.substitution(level).automorphism;
                let sources = (0..above.leaves()).map(|node| (automorphism, leaf(tables, &nodes[0], node)));
                recorder.record(&mut fixed, of_level(expansion, level), sources.collect());
            }
            let chunks = expand(lanes, tables, memory, schedule, expansion, &roots)?;
            (keys, chunks)
        }
        SentChunks::Apart => {
            // The images of chunks need no key of the big step; another key takes its place.
            let by_step = &sent_keys[..of_key];
            let keys = keys_of(tables, &packing, &[], &[sent_keys, by_step].concat())?;
            let rows = [RingLeaves::of(lanes, tables, memory, by_step)?];
            let rotated = rotate(lanes, tables, memory, rotations.of_chunks(levels), &[&keys], &rows)?;
            let images = |number: usize| -> Vec<Vec<u32>> {
                let image = |row| leaf(tables, &rotated[0], row * rotations.small() + number);
                (0..levels).map(image).collect()
            };
            let sources = (0..rotations.derivations()).flat_map(images).map(|row| (by_five, row));
            recorder.record(&mut fixed, 0, sources.collect());
            let last = images(rotations.derivations()).concat();
            let mut big = Vec::new();
            push_in_order(tables, &last, &mut big);
            let keys = keys_of(tables, &packing, &[], &[sent_keys, &big].concat())?;
            (keys, vec![RingLeaves::of(lanes, tables, memory, ciphertexts)?])
        }
    };
    let leaves = rotate(lanes, tables, memory, rotations, &[&keys], &chunks)?;
    for chunk in 0..rotations.chunks() {
        let image = |i: usize| leaf(tables, &leaves[0], rotations.of_chunk(chunk).start + i);
        let steps = (0..rotations.steps() - 1).map(|i| (by_five, image(i)));
        let signs = (0..rotations.steps()).map(|i| (by_sign, image(i)));
        let first = fixed.of_chunk(chunk);
        recorder.record(&mut fixed, first, steps.chain(signs).collect());
    }
    let mut sums = poly_fold(lanes, tables, memory, plain, &leaves)?.remove(0);
    let (big, one) = (rotations.big(), 2 * tables.words());
    add_rotated(lanes, tables, memory, rotations, &keys, sums.words_mut(), 1)?;
    for result in 0..results {
        let terms = (1..big)
            .rev()
            .map(|term| (by_big, sums.words(tables)[(result * big + term) * one..][..one].to_vec()));
        let first = fixed.of_result(result);
        recorder.record(&mut fixed, first, terms.collect());
    }
    let words = sums.words_mut();
    (1..results)
        .for_each(|result| words.copy_within(result * big * one..(result * big + 1) * one, result * one));
    Ok((fixed, vec![sums.keep(results)]))
}

/// Returns the ciphertexts that have these uniform halves and b halves of 0.
fn with_zeros(tables: &RingTables, uniform: &[u32]) -> Vec<u32> {
    let zeros = vec![0; tables.words()];
    uniform.chunks_exact(tables.words()).flat_map(|a| a.iter().chain(&zeros)).copied().collect()
}

fn keys_of(
    tables: &RingTables,
    packing: &FixedPacking,
    expansion: &[u32],
    rotations: &[u32],
) -> Result<RingKeys, BackendError> {
    let (expansion_gadget, conversion_gadget) = (packing.gadget, packing.gadget);
    let keys = EvaluationKeys { expansion_gadget, expansion, rotations, conversion_gadget, conversion: &[] };
    RingKeys::new(tables, keys)
}

/// Returns a leaf as a ciphertext.
fn leaf(tables: &RingTables, leaves: &RingLeaves, number: usize) -> Vec<u32> {
    let mut ciphertext = vec![0; 2 * tables.words()];
    leaves.copy(tables, number, &mut ciphertext);
    ciphertext
}

/// Recorder of the digits of substitutions.
struct Recorder<'a, L> {
    room: Room<'a, L>,
    decomposition: Decomposition,
}

impl<L> Recorder<'_, L> {
    /// Records the digits of the images of ciphertexts under automorphisms, as substitutions from
    /// number `first` on.
    fn record<const W: usize>(
        &self,
        fixed: &mut RingFixed,
        first: usize,
        sources: Vec<(&Automorphism, Vec<u32>)>,
    ) where
        L: WordLanes<W>,
    {
        let Self { room: Room { lanes, tables, .. }, decomposition } = self;
        let (levels, degree) = (decomposition.levels(), tables.degree());
        let to = fixed.digits.as_words_mut()[first * fixed.of_one..].par_chunks_mut(fixed.of_one);
        to.zip(&sources).each_with(
            &|| (vec![0; 2 * tables.words()], vec![0; levels * degree], vec![0; degree]),
            &|(images, fields, term), (to, (automorphism, ciphertext))| {
                let (image, residues) = images.split_at_mut(tables.words());
                write_image(*lanes, tables, automorphism, ciphertext, 0, image);
                decomposition.decompose(*lanes, tables, image, residues, fields);
                for (prime, to) in to.chunks_exact_mut(levels * degree).enumerate() {
                    let values = &image[prime * degree..][..degree];
                    for (digit, field) in fields.chunks_exact(degree).enumerate() {
                        decomposition.term(*lanes, tables, prime, digit, [values, field], term);
                        let factor = decomposition.factor(tables, prime, digit);
                        lanes.run(Record { q: tables.primes()[prime].q, factor, digit, term, to });
                    }
                }
            },
        );
    }
}

/// Kernel that writes a digit's term, times its factor, to the digit's place among the others.
struct Record<'a> {
    q: Modulus,
    factor: ShoupWord,
    digit: usize,
    term: &'a [u32],
    to: &'a mut [u32],
}

impl Kernel for Record<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: WordLanes<W>, const W: usize>(self, lanes: L) {
        let Self { q, factor, digit, term, to } = self;
        let (prime, factor) = (Prime::new(lanes, q), Factor::splat(lanes, factor));
        let (term, to) = (term.as_chunks::<W>().0, to.as_chunks_mut::<W>().0);
        let levels = to.len() / term.len();
        for (term, to) in term.iter().zip(to.chunks_exact_mut(levels)) {
            lanes.store(prime.mul(lanes, lanes.load(term), factor), &mut to[digit]);
        }
    }
}

/// Implements `pack_fixed` before bodies are added: returns the b halves of each query's results.
pub(super) fn pack<L: WordLanes<W>, const W: usize>(
    room: Room<'_, L>,
    fixed: &RingFixed,
    plain: &[RingPlain],
    queries: &[&[u32]],
) -> Result<Vec<RingCiphertexts<1>>, BackendError> {
    let Room { lanes, tables, memory, .. } = room;
    let (packing, rotations) = (&fixed.packing, fixed.packing.rotations);
    queries.iter().try_for_each(|query| packing.check(tables.ring(), query))?;
    if plain.iter().map(RingPlain::rows).sum::<usize>() != fixed.results * rotations.big() {
        return Err(BackendError::Shape("plaintexts are others than those that were fixed".into()));
    }
    let packer = Packer { room, fixed };
    let leaves = packer.leaves(queries)?;
    let mut sums = poly_fold(lanes, tables, memory, plain, &leaves)?;
    drop(leaves);
    packer.sum(queries, &mut sums);
    Ok(sums.into_iter().map(|sums| sums.keep(fixed.results)).collect())
}

/// Packing by substitutions with known digits.
struct Packer<'a, L> {
    room: Room<'a, L>,
    fixed: &'a RingFixed,
}

impl<L> Packer<'_, L> {
    /// Returns the b halves of the rotated chunks of each query.
    fn leaves<const W: usize>(&self, queries: &[&[u32]]) -> Result<Vec<RingLeaves<1>>, BackendError>
    where
        L: WordLanes<W>,
    {
        let Room { tables, memory, .. } = self.room;
        let (rotations, one) = (self.fixed.packing.rotations, tables.words());
        let chunks: Vec<Vec<u32>> = queries.par_iter().collected(&|query| self.chunks(query));
        let images = || memory.words(rotations.leaves().checked_mul(one), "the rotated chunks");
        let mut images = queries.iter().map(|_| images()).collect::<Result<Vec<_>, _>>()?;
        // Ordered by chunk, so that the queries read a chunk's digits one after another.
        let mut tasks: Vec<_> = images
            .iter_mut()
            .enumerate()
            .flat_map(|(query, images)| {
                let of_chunks = images.as_words_mut().chunks_exact_mut(rotations.small() * one);
                of_chunks.enumerate().map(move |(chunk, images)| (chunk, query, images))
            })
            .collect();
        tasks.sort_by_key(|&(chunk, query, _)| (chunk, query));
        tasks.into_par_iter().each(&|(chunk, query, images)| {
            images[..one].copy_from_slice(&chunks[query][chunk * one..][..one]);
            self.rotate(queries[query], chunk, images);
        });
        let of_query = |images: Words| {
            let mut leaves = RingLeaves::room(tables, memory, rotations.leaves())?;
            let blocks = leaves.blocks_mut(tables).zip(images.as_words().par_chunks(BLOCK * one));
            blocks.each(&|(mut block, images)| block.set_all(images));
            Ok(leaves)
        };
        images.into_par_iter().collected(&of_query)
    }

    /// Returns the b halves of a query's chunks.
    fn chunks<const W: usize>(&self, query: &[u32]) -> Vec<u32>
    where
        L: WordLanes<W>,
    {
        let (tables, packing) = (self.room.tables, &self.fixed.packing);
        let one = tables.words();
        let (_, sent) = packing.split(tables.ring(), query);
        let mut nodes = sent.to_vec();
        let SentChunks::Expanded(expansion) = packing.chunks else { return nodes };
        for level in 0..expansion.levels() {
            let substitution = tables.substitution(level);
            let key = self.key(query, level as usize);
            let mut children = vec![0; expansion.nodes(level + 1) * one];
            let pairs = nodes.chunks_exact(one).zip(children.chunks_mut(2 * one)).enumerate();
            for (number, (node, pair)) in pairs {
                let (even, odd) = pair.split_at_mut(one);
                let number = of_level(expansion, level) + number;
                let odd = (!odd.is_empty()).then_some(odd);
                let children = Children { node, monomials: &substitution.monomials, even, odd };
                self.substitute(key, number, &substitution.automorphism, node, children);
            }
            nodes = children;
        }
        nodes
    }

    /// Returns the b halves of the key of the big step.
    fn big_key<'q, const W: usize>(&self, query: &'q [u32]) -> Cow<'q, [u32]>
    where
        L: WordLanes<W>,
    {
        let (tables, packing) = (self.room.tables, &self.fixed.packing);
        if let SentChunks::Expanded(_) = packing.chunks {
            return Cow::Borrowed(self.key(query, packing.chunks.keys() - 1));
        }
        let [by_step, ..] = tables.rotations(packing.rotations);
        let key = self.key(query, 0);
        let (one, mut number) = (tables.words(), 0..);
        let mut rows = key.to_vec();
        for _ in 0..packing.rotations.derivations() {
            let mut next = vec![0; rows.len()];
            for (from, to) in rows.chunks_exact(one).zip(next.chunks_exact_mut(one)) {
                let number = number.next().expect("a number for each");
                self.substitute(key, number, by_step, from, Stored(to));
            }
            rows = next;
        }
        Cow::Owned(rows)
    }

    /// Computes the images of a chunk; the first image is the chunk itself.
    fn rotate<const W: usize>(&self, query: &[u32], chunk: usize, images: &mut [u32])
    where
        L: WordLanes<W>,
    {
        let (tables, rotations) = (self.room.tables, self.fixed.packing.rotations);
        let (one, steps) = (tables.words(), rotations.steps());
        let [by_step, by_sign, _] = tables.rotations(rotations);
        let [step, sign] = self.small_keys(query);
        let mut number = self.fixed.of_chunk(chunk)..;
        let mut next = || number.next().expect("a number for each");
        let (positive, negative) = images.split_at_mut(steps * one);
        for i in 1..steps {
            let (done, rest) = positive.split_at_mut(i * one);
            let (from, to) = (&done[(i - 1) * one..], &mut rest[..one]);
            self.substitute(step, next(), by_step, from, Stored(to));
        }
        for (from, to) in positive.chunks_exact(one).zip(negative.chunks_exact_mut(one)) {
            self.substitute(sign, next(), by_sign, from, Stored(to));
        }
    }

    /// Computes the sums over the big automorphisms, in place of their terms. Then moves the sums,
    /// so that they follow one another.
    fn sum<const W: usize>(&self, queries: &[&[u32]], sums: &mut [RingCiphertexts<1>])
    where
        L: WordLanes<W>,
    {
        let (tables, rotations) = (self.room.tables, self.fixed.packing.rotations);
        let (one, big) = (tables.words(), rotations.big());
        let [_, _, by_big] = tables.rotations(rotations);
        let keys: Vec<_> = queries.par_iter().collected(&|query| self.big_key(query));
        let mut tasks: Vec<_> = sums
            .iter_mut()
            .enumerate()
            .flat_map(|(query, sums)| {
                let of_results =
                    sums.words_mut()[..self.fixed.results * big * one].chunks_exact_mut(big * one);
                of_results.enumerate().map(move |(result, terms)| (result, query, terms))
            })
            .collect();
        tasks.sort_by_key(|&(result, query, _)| (result, query));
        tasks.into_par_iter().each(&|(result, query, terms)| {
            for (term, number) in (0..big - 1).rev().zip(self.fixed.of_result(result)..) {
                let (to, from) = terms.split_at_mut((term + 1) * one);
                let added = Added(&mut to[term * one..]);
                self.substitute(&keys[query], number, by_big, &from[..one], added);
            }
        });
        for sums in sums {
            let words = sums.words_mut();
            (1..self.fixed.results)
                .for_each(|sum| words.copy_within(sum * big * one..(sum * big + 1) * one, sum * one));
        }
    }

    /// Returns the b halves of key number `number` among the keys that a query includes.
    fn key<'q>(&self, query: &'q [u32], number: usize) -> &'q [u32] {
        let (mut keys, _) = self.fixed.packing.split(self.room.tables.ring(), query);
        keys.nth(number).expect("a key for each substitution")
    }

    /// Returns the b halves of the keys for X -> X^5 and X -> X^-1.
    fn small_keys<'q>(&self, query: &'q [u32]) -> [&'q [u32]; 2] {
        let first = match self.fixed.packing.chunks {
            SentChunks::Expanded(expansion) => expansion.levels() as usize,
            SentChunks::Apart => 0,
        };
        [first, first + 1].map(|number| self.key(query, number))
    }

    /// Applies substitution `number` to the b half `from`, with the b halves of its key.
    fn substitute<T: Target, const W: usize>(
        &self,
        key: &[u32],
        number: usize,
        automorphism: &Automorphism,
        from: &[u32],
        mut to: T,
    ) where
        L: WordLanes<W>,
    {
        let Room { lanes, tables, .. } = self.room;
        let of_primes = self.fixed.digits(number).chunks_exact(self.fixed.of_one / tables.primes().len());
        for (prime, digits) in of_primes.enumerate() {
            let place = prime * tables.degree()..(prime + 1) * tables.degree();
            lanes.run(Substitute {
                q: tables.primes()[prime].q,
                digits,
                keys: &key[place.start..],
                stride: tables.words(),
                image: Image::<1> { automorphism, tiles: &from[place.clone()] },
                results: to.of_prime(prime, place),
            });
        }
    }
}
