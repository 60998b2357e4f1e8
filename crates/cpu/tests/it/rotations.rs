//! Packing by rotations of every kernel against its definition.

use std::sync::Arc;

use crate::common::rings::{self, Coefficients, PRIMES, gadgets, polynomials, ring, values};
use crate::common::{Stream, cases};
use proptest::prelude::*;
use spirea_backend::{BackendError, EvaluationKeys, NaiveBackend, RingBackend, SwitchedBits};
use spirea_math::{Expansion, Gadget, Ring, Rotations};

/// A case: a query's steps until it is packed.
#[derive(Clone, Debug)]
struct Packing {
    ring: Arc<Ring>,
    gadget: Gadget,
    rotations: Rotations,
    /// Number of leaves expanded from the leaf after the chunks.
    further: usize,
    /// Number of plaintext matrices.
    blocks: usize,
    queries: usize,
    kind: Coefficients,
    seed: u64,
}

impl Packing {
    fn new(ring: Arc<Ring>, gadget: Gadget, rotations: Rotations) -> Self {
        let kind = Coefficients::Random;
        Self { ring, gadget, rotations, further: 3, blocks: 2, queries: 2, kind, seed: 1 }
    }

    /// Returns the bytes after each step.
    fn run<B: RingBackend>(&self, backend: &B) -> Vec<Vec<u8>> {
        let Self { ring, gadget, rotations, .. } = self;
        let tables = backend.tables(ring).unwrap();
        let see = |c: &B::Ciphertexts| {
            backend.mod_switch(&tables, &[c], SwitchedBits { a: 56, b: 55 }).unwrap().concat()
        };
        // Each leaf separately, times 1.
        let see_leaves = |leaves: &B::Leaves, count: usize| {
            let unit = |row: usize, column: usize, to: &mut [i32]| {
                to.fill(0);
                to[0] = i32::from(row == column);
            };
            let unit = backend.encode(&tables, count, count, &unit).unwrap();
            see(&backend.poly_fold(&tables, &[unit], leaves).unwrap())
        };
        let level = (ring.degree() / rotations.entries()).trailing_zeros();
        let expansion = Expansion::partial(level, rotations.chunks() + 1);
        let further = Expansion::further(level, self.further);
        let levels = (expansion.levels() + further.levels()) as usize;
        let clients: Vec<(B::Keys, Vec<u32>)> = (0..self.queries as u64)
            .map(|query| {
                let (seed, of_one) = (self.seed + 100 * query, 2 * gadget.levels(ring));
                let keys = EvaluationKeys {
                    expansion_gadget: *gadget,
                    expansion: &values(ring, levels * of_one, seed),
                    rotations: &values(ring, Rotations::KEYS * of_one, seed + 1),
                    conversion_gadget: *gadget,
                    conversion: &[],
                };
                (backend.keys(&tables, keys).unwrap(), polynomials(ring, 2, self.kind, seed + 2))
            })
            .collect();
        let queries: Vec<(&B::Keys, &[u32])> =
            clients.iter().map(|(keys, words)| (keys, &words[..])).collect();
        let keys: Vec<&B::Keys> = clients.iter().map(|(keys, _)| keys).collect();
        let chunks = backend.expand(&tables, expansion, &queries).unwrap();
        let rest = backend.expand_leaf(&tables, further, &keys, &chunks, rotations.chunks()).unwrap();
        let leaves = backend.rotate(&tables, *rotations, &keys, &chunks).unwrap();
        let mut seen = vec![
            see_leaves(&chunks, rotations.chunks() + 1),
            see_leaves(&rest, self.further),
            see_leaves(&leaves, rotations.leaves()),
        ];
        // Ciphertexts that need no expansion: first one for each query, then all for a single
        // query.
        let sent: Vec<u32> = clients.iter().flat_map(|(_, words)| words).copied().collect();
        for queries in [clients.len(), 1] {
            let leaves = backend.leaves(&tables, queries, &sent).unwrap();
            seen.push(see_leaves(&leaves, clients.len() / queries));
        }
        let plain: Vec<B::Plain> = (0..self.blocks)
            .map(|block| {
                let fill = |row: usize, column: usize, to: &mut [i32]| {
                    let place = ((block as u64) << 48) ^ ((row as u64) << 24) ^ column as u64;
                    let mut stream = Stream::new(self.seed ^ place);
                    to.fill_with(|| stream.next() as i32);
                };
                backend.encode(&tables, rotations.big(), rotations.leaves(), &fill).unwrap()
            })
            .collect();
        let folded = backend.poly_fold(&tables, &plain, &leaves).unwrap();
        seen.push(see(&folded));
        seen.push(see(&backend.sum_rotated(&tables, *rotations, &keys, folded).unwrap()));
        seen
    }

    fn check(&self) {
        rings::check(self, &self.run(&NaiveBackend), |backend| self.run(backend));
    }
}

#[test]
fn every_number_of_primes_and_gadget_agrees() {
    for family in PRIMES {
        for primes in 1..=4 {
            let ring = ring(64, &family[..primes]);
            for gadget in gadgets(&ring) {
                Packing::new(ring.clone(), gadget, Rotations::new(16, 3, 4)).check();
            }
        }
    }
}

#[test]
fn every_split_agrees() {
    for (degree, entries) in [(16, 2), (64, 16), (128, 32)] {
        let ring = ring(degree, &PRIMES[1][..3]);
        let chunks = (degree / entries - 1).min(5);
        for steps in (0..).map(|log| 1 << log).take_while(|steps| 2 * steps <= entries) {
            let packing =
                Packing::new(ring.clone(), Gadget::Residues, Rotations::new(entries, chunks, steps));
            Packing { further: 2, ..packing }.check();
        }
    }
}

#[test]
fn a_block_of_leaves_and_more_agree() {
    let ring = ring(128, &PRIMES[1][..2]);
    // A block has 64 leaves.
    for chunks in [2, 3] {
        let packing = Packing::new(ring.clone(), gadgets(&ring)[2], Rotations::new(32, chunks, 16));
        Packing { queries: 3, blocks: 5, ..packing }.check();
    }
}

#[test]
fn the_shape_of_the_protocols_agrees() {
    for primes in [&PRIMES[1][..3], &PRIMES[0][..2]] {
        let ring = ring(4096, primes);
        let packing = Packing::new(ring.clone(), gadgets(&ring)[0], Rotations::new(256, 1, 8));
        Packing { blocks: 1, queries: 1, ..packing }.check();
    }
}

proptest! {
    #![proptest_config(cases(16))]
    #[test]
    fn random_packings_agree(
        log_entries in 1u32..=5,
        log_stride in 1u32..=3,
        log_steps in 0u32..5,
        family in prop::sample::select(PRIMES.to_vec()),
        primes in 2usize..=4,
        gadget in 0usize..4,
        chunks in 1usize..8,
        further in 1usize..5,
        blocks in 1usize..4,
        queries in 1usize..4,
        kind in prop::sample::select(vec![Coefficients::Random, Coefficients::Halves, Coefficients::Largest]),
        seed in 0u64..1 << 32,
    ) {
        let entries = 1 << log_entries;
        let ring = ring((entries << log_stride).max(16), &family[..primes]);
        let chunks = chunks.min(ring.degree() / entries - 1);
        let rotations = Rotations::new(entries, chunks, 1 << log_steps.min(log_entries - 1));
        let gadget = gadgets(&ring)[gadget];
        let further = further.min(entries);
        Packing { ring, gadget, rotations, further, blocks, queries, kind, seed }.check();
    }
}

#[test]
fn shapes_that_do_not_fit_are_refused() {
    fn check<B: RingBackend>(backend: &B) {
        let ring = ring(64, &PRIMES[1][..2]);
        let tables = backend.tables(&ring).unwrap();
        let level = 2 * 2 * ring.words();
        let keys = |levels: usize, rotations: usize| {
            backend.keys(
                &tables,
                EvaluationKeys {
                    expansion_gadget: Gadget::Residues,
                    expansion: &vec![0; levels * level],
                    rotations: &vec![0; rotations * level],
                    conversion_gadget: Gadget::Residues,
                    conversion: &[],
                },
            )
        };
        for rotations in [1, 2, 4] {
            assert!(matches!(keys(2, rotations), Err(BackendError::Shape(_))), "{rotations} rotations");
        }
        let (keys, unrotated) = (keys(3, 3).unwrap(), keys(3, 0).unwrap());
        let query = vec![0; 2 * ring.words()];
        let leaves = backend.expand(&tables, Expansion::partial(2, 3), &[(&keys, &query)]).unwrap();
        let rotations = Rotations::new(16, 3, 4);
        let zeros = |_: usize, _: usize, to: &mut [i32]| to.fill(0);
        let fold = |rows| {
            let plain = backend.encode(&tables, rows, 3, &zeros).unwrap();
            backend.poly_fold(&tables, &[plain], &leaves).unwrap()
        };
        assert!(backend.rotate(&tables, rotations, &[&keys], &leaves).is_ok());
        assert!(backend.sum_rotated(&tables, rotations, &[&keys], fold(4)).is_ok());
        for (rotations, keys) in [
            (Rotations::new(16, 4, 4), &[&keys][..]),
            (Rotations::new(128, 3, 4), &[&keys]),
            (rotations, &[&unrotated]),
            (rotations, &[&keys, &keys]),
            (rotations, &[]),
        ] {
            let refused = backend.rotate(&tables, rotations, keys, &leaves);
            assert!(matches!(refused, Err(BackendError::Shape(_))), "{rotations:?}, {} keys", keys.len());
        }
        for (rotations, keys, terms) in [
            (rotations, &[&keys][..], 3),
            (Rotations::new(128, 3, 16), &[&keys], 4),
            (rotations, &[&unrotated], 2),
            (rotations, &[&keys, &keys], 2),
        ] {
            let refused = backend.sum_rotated(&tables, rotations, keys, fold(terms));
            assert!(matches!(refused, Err(BackendError::Shape(_))), "{rotations:?}, {terms} terms");
        }
        let expand = |expansion, leaf| backend.expand_leaf(&tables, expansion, &[&keys], &leaves, leaf);
        assert!(expand(Expansion::further(2, 2), 2).is_ok());
        for (expansion, leaf) in [
            (Expansion::further(2, 2), 3),
            (Expansion::further(2, 3), 0),
            (Expansion::further(u32::MAX, 2), 0),
        ] {
            assert!(
                matches!(expand(expansion, leaf), Err(BackendError::Shape(_))),
                "{expansion:?} of {leaf}"
            );
        }
        let two = backend.expand_leaf(&tables, Expansion::further(2, 2), &[&keys, &keys], &leaves, 0);
        assert!(matches!(two, Err(BackendError::Shape(_))));
    }
    check(&NaiveBackend);
    crate::common::backends(1).iter().for_each(check);
}
