//! The steps on rings of every kernel against their definition.

use std::sync::Arc;

use crate::common::Stream;
use crate::common::rings::{self, Coefficients, PRIMES, gadgets, polynomials, ring, values};
use proptest::prelude::*;
use spirea_backend::{
    BackendError, Bodies, EvaluationKeys, FoldedBlocks, NaiveBackend, PanelLayout, RingBackend, SwitchedBits,
};
use spirea_math::{Expansion, Gadget, Modulus, Ring};

/// A case: a pipeline through every step.
#[derive(Clone, Debug)]
struct Pipeline {
    ring: Arc<Ring>,
    expansion: Gadget,
    conversion: Gadget,
    rgsw: Gadget,
    leaves: usize,
    rows: usize,
    /// Number of ciphertexts in the tournament.
    players: usize,
    queries: usize,
    kind: Coefficients,
    bits: SwitchedBits,
    seed: u64,
}

impl Pipeline {
    fn new(ring: Arc<Ring>, gadget: Gadget) -> Self {
        Self {
            ring,
            expansion: gadget,
            conversion: gadget,
            rgsw: gadget,
            leaves: 9,
            rows: 4,
            players: 3,
            queries: 2,
            kind: Coefficients::Random,
            bits: SwitchedBits { a: 56, b: 55 },
            seed: 1,
        }
    }

    /// Returns the observable bytes after each step.
    fn run<B: RingBackend<Folded = Vec<u32>>>(&self, backend: &B) -> Vec<Vec<u8>> {
        let Self { ring, rows, .. } = self;
        let tables = backend.tables(ring).unwrap();
        let see = |c: &B::Ciphertexts, bits| backend.mod_switch(&tables, &[c], bits).unwrap().concat();
        let expansion = Expansion::covering(self.leaves);
        let substitutions = expansion.levels() as usize * self.expansion.levels(ring);
        let clients: Vec<(B::Keys, Vec<u32>)> = (0..self.queries as u64)
            .map(|query| {
                let seed = self.seed + 100 * query;
                let expansion = values(ring, 2 * substitutions, seed);
                let conversion = values(ring, 4 * self.conversion.levels(ring), seed + 1);
                let keys = EvaluationKeys {
                    expansion_gadget: self.expansion,
                    expansion: &expansion,
                    rotations: &[],
                    conversion_gadget: self.conversion,
                    conversion: &conversion,
                };
                let keys = backend.keys(&tables, keys).unwrap();
                (keys, polynomials(ring, 2, self.kind, seed + 2))
            })
            .collect();
        let queries: Vec<(&B::Keys, &[u32])> =
            clients.iter().map(|(keys, words)| (keys, &words[..])).collect();
        let leaves = backend.expand(&tables, expansion, &queries).unwrap();
        let mut seen = Vec::new();

        // Each leaf separately, times 1.
        let unit = |row: usize, column: usize, to: &mut [i32]| {
            to.fill(0);
            to[0] = i32::from(row == column);
        };
        let unit = backend.encode(&tables, self.leaves, self.leaves, &unit).unwrap();
        seen.push(see(&backend.poly_fold(&tables, &[unit], &leaves).unwrap(), self.bits));

        let fill = |row: usize, column: usize, to: &mut [i32]| {
            let mut stream = Stream::new(self.seed ^ ((row as u64) << 32) ^ column as u64);
            to.fill_with(|| match stream.next() {
                word if word >> 61 == 0 => {
                    if word % 2 == 0 {
                        i32::MIN
                    } else {
                        i32::MAX
                    }
                }
                word => word as i32,
            });
        };
        let plain = backend.encode(&tables, *rows, self.leaves, &fill).unwrap();
        let mut folded = backend.poly_fold(&tables, &[plain], &leaves).unwrap();
        seen.push(see(&folded, SwitchedBits { a: 18, b: 14 }));
        // Words for all coefficients without gaps, and words for fewer coefficients with gaps.
        let count = rows * ring.degree();
        for (first, stride) in [(0..count, count), (3..count - 2, count + 5)] {
            let words = crate::common::words(self.queries * stride, 4, self.seed + stride as u64);
            let bits = 1 + (self.seed as u32 + stride as u32) % 31;
            backend.add_bodies(&tables, &mut folded, &words, &Bodies { first, stride }, bits).unwrap();
            seen.push(see(&folded, self.bits));
        }

        // Takes the switched bytes of packed ciphertexts as a matrix with spare room, then folds
        // and packs this matrix.
        let bits = SwitchedBits { a: 9 + self.seed as u32 % 9, b: 1 + self.seed as u32 % 16 };
        let bytes = bits.bytes(ring.degree());
        let layout = PanelLayout::covering(bytes.max(2 * ring.degree()), rows + 1).unwrap();
        let columns = backend
            .columns(layout, &crate::common::words(self.leaves * layout.columns(), 4, self.seed))
            .unwrap();
        let own = crate::common::words(self.queries * layout.columns(), 4, self.seed + 9);
        let blocks = FoldedBlocks { blocks: layout.rows() / ring.degree(), bits: 1 + self.seed as u32 % 31 };
        let matrices = backend.reinterpret(&tables, &folded, bits, layout).unwrap();
        let answers = backend.words(backend.scalar_fold_own(&matrices, &own).unwrap()).unwrap();
        assert_eq!(answers.len(), self.queries * layout.rows());
        seen.push(answers.iter().flat_map(|word| word.to_le_bytes()).collect());
        let packed = backend.encode_fold(&tables, &matrices, &columns, blocks, &leaves).unwrap();
        // A response of two parts.
        seen.extend(backend.mod_switch(&tables, &[&folded, &packed], self.bits).unwrap());

        // The number of selectors that the leaves allow, for a tournament of the first leaves.
        let depth = (self.leaves / self.rgsw.levels(ring)).min(6);
        let first = self.leaves - depth * self.rgsw.levels(ring);
        let pick = |row: usize, column: usize, to: &mut [i32]| {
            to.fill(0);
            to[row % to.len()] = 1 + (row + column) as i32;
        };
        let players = backend.encode(&tables, self.players.min(1 << depth), self.leaves, &pick).unwrap();
        let keys: Vec<&B::Keys> = clients.iter().map(|(keys, _)| keys).collect();
        let selectors = backend.selectors(&tables, &keys, &leaves, first, depth, self.rgsw).unwrap();
        let players = backend.poly_fold(&tables, &[players], &leaves).unwrap();
        let winners = backend.rgsw_fold(&tables, &selectors, players).unwrap();
        seen.push(see(&winners, self.bits));
        seen.push(see(&winners, SwitchedBits { a: 1, b: 17 }));
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
                Pipeline { seed: primes as u64, ..Pipeline::new(ring.clone(), gadget) }.check();
            }
        }
    }
}

#[test]
fn every_degree_agrees() {
    for log_degree in 4..=10 {
        for family in PRIMES {
            let ring = ring(1 << log_degree, &family[..2]);
            for gadget in [gadgets(&ring)[0], gadgets(&ring)[1]] {
                let leaves = if log_degree < 8 { 9 } else { 3 };
                Pipeline { leaves, queries: 1, ..Pipeline::new(ring.clone(), gadget) }.check();
            }
        }
    }
}

#[test]
fn the_papers_degrees_agree() {
    for (degree, primes) in [(2048, &PRIMES[1][..2]), (4096, &PRIMES[1][..3]), (4096, &PRIMES[2])] {
        let ring = ring(degree, primes);
        for gadget in [gadgets(&ring)[0], gadgets(&ring)[2]] {
            let pipeline = Pipeline::new(ring.clone(), gadget);
            Pipeline { leaves: 3, rows: 2, players: 2, queries: 1, ..pipeline }.check();
        }
    }
}

#[test]
fn trees_of_every_shape_agree() {
    let ring = ring(64, &PRIMES[1][..3]);
    for leaves in 1..=40 {
        for gadget in [gadgets(&ring)[0], gadgets(&ring)[3]] {
            let rgsw = Gadget::Digits { levels: 2, base_log: 16, dropped: 55 };
            let pipeline = Pipeline::new(ring.clone(), gadget);
            Pipeline { leaves, rgsw, rows: 1, queries: 1, ..pipeline }.check();
        }
    }
}

#[test]
fn several_blocks_of_leaves_agree() {
    let ring = ring(128, &PRIMES[1][..2]);
    for leaves in [63, 64, 65, 97, 128] {
        Pipeline { leaves, rows: 7, players: 1, queries: 3, ..Pipeline::new(ring.clone(), Gadget::Residues) }
            .check();
    }
}

/// Primes of 26, 27 and 28 bits, and a mixture of two of these. Their plaintexts are stored in
/// narrow words if the instruction set does so.
#[test]
fn narrow_words_agree() {
    let (of_26, of_28) = ([67_084_289, 67_043_329], [268_369_921, 268_361_729]);
    for primes in [of_26, [PRIMES[2][0], PRIMES[2][1]], of_28, [PRIMES[2][0], of_28[0]]] {
        let ring = ring(128, &primes);
        let pipeline = |rows, leaves, queries| {
            let pipeline = Pipeline::new(ring.clone(), Gadget::Residues);
            Pipeline { rows, leaves, queries, players: 1, ..pipeline }
        };
        // Whole groups of columns, every possible rest of a group, and several blocks.
        for leaves in (1..=18).chain([64, 65, 97]) {
            pipeline(4, leaves, 1 + leaves % 2).check();
        }
        // More queries than one group; numbers of rows that are not multiples of four.
        pipeline(20, 12, 9).check();
        pipeline(6, 12, 2).check();
    }
}

/// Every factor is the largest, q - 1, over more columns than a sum holds without a reduction. The
/// numbers of rows, columns and queries leave a rest in each of their groups.
#[test]
fn widest_sums_agree() {
    let largest = PRIMES.map(|family| family[0]);
    for q in largest.into_iter().chain([67_084_289, 268_369_921]) {
        let (ring, modulus) = (ring(64, &[q]), Modulus::new(q));
        // The kernels multiply plaintexts by 2^32 in advance, which makes this one q - 1.
        let plaintext = modulus.neg(modulus.inverse(((1 << 32) % u64::from(q)) as u32));
        let fill = |_: usize, _: usize, to: &mut [i32]| {
            to.fill(0);
            to[0] = plaintext as i32;
        };
        for (rows, columns, queries) in [(4, 321, 1), (8, 300, 2), (7, 333, 11)] {
            let words = vec![q - 1; queries * columns * 2 * ring.words()];
            let case = format!("{rows} rows, {columns} columns, {queries} queries modulo {q}");
            rings::check(
                &case,
                &fold_all(&NaiveBackend, &ring, [rows, columns, queries], &fill, &words),
                |backend| fold_all(backend, &ring, [rows, columns, queries], &fill, &words),
            );
        }
    }
}

/// Returns the observable bytes of a fold of `rows` by `columns` plaintexts by the leaves of
/// `queries` queries.
fn fold_all<B: RingBackend>(
    backend: &B,
    ring: &Arc<Ring>,
    [rows, columns, queries]: [usize; 3],
    fill: &(impl Fn(usize, usize, &mut [i32]) + Sync),
    words: &[u32],
) -> Vec<Vec<u8>> {
    let tables = backend.tables(ring).unwrap();
    let plain = backend.encode(&tables, rows, columns, fill).unwrap();
    let leaves = backend.leaves(&tables, queries, words).unwrap();
    let folded = backend.poly_fold(&tables, &[plain], &leaves).unwrap();
    backend.mod_switch(&tables, &[&folded], SwitchedBits { a: 56, b: 55 }).unwrap()
}

#[test]
fn tournaments_of_every_size_agree() {
    let ring = ring(64, &PRIMES[1][..3]);
    let rgsw = Gadget::Digits { levels: 3, base_log: 16, dropped: 39 };
    for players in 1..=33 {
        let pipeline = Pipeline::new(ring.clone(), Gadget::Residues);
        Pipeline { leaves: 18, rgsw, rows: 1, queries: 1, players, ..pipeline }.check();
    }
}

#[test]
fn edges_agree() {
    for kind in [Coefficients::Zero, Coefficients::Largest, Coefficients::Alternating, Coefficients::Halves] {
        for (primes, bits) in [(2, 53), (3, 56), (4, 1)] {
            for family in PRIMES {
                let ring = ring(128, &family[..primes]);
                for gadget in gadgets(&ring) {
                    let bits = SwitchedBits { a: bits, b: bits };
                    let pipeline = Pipeline::new(ring.clone(), gadget);
                    Pipeline { kind, bits, leaves: 5, queries: 1, ..pipeline }.check();
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(crate::common::cases(24))]
    #[test]
    fn random_pipelines_agree(
        log_degree in 5u32..=8,
        family in prop::sample::select(PRIMES.to_vec()),
        primes in 2usize..=4,
        gadget in prop::array::uniform3(0usize..4),
        leaves in 1usize..=32,
        rows in 1usize..12,
        players in 1usize..12,
        queries in 1usize..4,
        kind in prop::sample::select(vec![Coefficients::Random, Coefficients::Halves]),
        (a, b) in (1u32..=56, 1u32..=56),
        seed in 0u64..1 << 32,
    ) {
        let ring = ring(1 << log_degree, &family[..primes]);
        let [expansion, conversion, rgsw] = gadget.map(|i| gadgets(&ring)[i]);
        let bits = SwitchedBits { a, b };
        Pipeline { ring, expansion, conversion, rgsw, leaves, rows, players, queries, kind, bits, seed }.check();
    }
}

#[test]
fn shapes_that_do_not_fit_are_refused() {
    let ring = ring(64, &PRIMES[1][..2]);
    for backend in crate::common::backends(1) {
        let tables = backend.tables(&ring).unwrap();
        let keys = |expansion: &[u32], conversion: &[u32]| {
            let gadget = Gadget::Residues;
            let keys = EvaluationKeys {
                expansion_gadget: gadget,
                expansion,
                rotations: &[],
                conversion_gadget: gadget,
                conversion,
            };
            backend.keys(&tables, keys)
        };
        let level = 2 * 2 * ring.words();
        assert!(matches!(keys(&vec![0; level - 1], &[]), Err(BackendError::Shape(_))));
        assert!(matches!(keys(&[], &vec![0; level]), Err(BackendError::Shape(_))));
        let keys = keys(&vec![0; 2 * level], &[]).unwrap();
        let query = vec![0; 2 * ring.words()];
        let expand =
            |leaves, words: &[u32]| backend.expand(&tables, Expansion::covering(leaves), &[(&keys, words)]);
        assert!(matches!(expand(5, &query), Err(BackendError::Shape(_))));
        assert!(matches!(expand(4, &query[1..]), Err(BackendError::Shape(_))));
        let leaves = expand(4, &query).unwrap();
        let selectors =
            |first, depth| backend.selectors(&tables, &[&keys], &leaves, first, depth, Gadget::Residues);
        for (first, depth) in [(0, 1), (0, 3), (usize::MAX, 1), (0, usize::MAX)] {
            assert!(matches!(selectors(first, depth), Err(BackendError::Shape(_))));
        }
        let two = backend.selectors(&tables, &[&keys, &keys], &leaves, 0, 0, Gadget::Residues);
        assert!(matches!(two, Err(BackendError::Shape(_))), "keys of two clients for one query");
        let zeros = |_: usize, _: usize, to: &mut [i32]| to.fill(0);
        let plain = backend.encode(&tables, 1, 5, &zeros).unwrap();
        assert!(matches!(backend.poly_fold(&tables, &[plain], &leaves), Err(BackendError::Shape(_))));
        assert!(matches!(backend.encode(&tables, 0, 5, &zeros), Err(BackendError::Shape(_))));
        let plain = [backend.encode(&tables, 2, 4, &zeros).unwrap()];
        let mut ciphertexts = backend.poly_fold(&tables, &plain, &leaves).unwrap();
        #[allow(clippy::reversed_empty_ranges, reason = "it is refused")]
        for (first, bits) in [(0..129, 8), (2..130, 32), (100..201, 8), (9..8, 8)] {
            let bodies = Bodies { first, stride: 0 };
            let refused = backend.add_bodies(&tables, &mut ciphertexts, &vec![0; 200], &bodies, bits);
            assert!(matches!(refused, Err(BackendError::Shape(_))), "{bodies:?}, {bits} bits");
        }
        for (a, b) in [(0, 1), (1, 57)] {
            let refused = backend.mod_switch(&tables, &[&ciphertexts], SwitchedBits { a, b });
            assert!(matches!(refused, Err(BackendError::Shape(_))));
        }
        // Two ciphertexts of 64 bytes.
        let bits = SwitchedBits { a: 4, b: 4 };
        let layout = |rows, columns| PanelLayout::covering(rows, columns).unwrap();
        let reinterpret = |layout| backend.reinterpret(&tables, &ciphertexts, bits, layout);
        assert!(matches!(reinterpret(layout(32, 2)), Err(BackendError::Shape(_))));
        let five = backend.poly_fold(&tables, &[backend.encode(&tables, 5, 4, &zeros).unwrap()], &leaves);
        let refused = backend.reinterpret(&tables, &five.unwrap(), bits, layout(64, 4));
        assert!(matches!(refused, Err(BackendError::Shape(_))));
        let matrices = reinterpret(layout(128, 2)).unwrap();
        for words in [0, 3, 8] {
            let refused = backend.scalar_fold_own(&matrices, &vec![0; words]);
            assert!(matches!(refused, Err(BackendError::Shape(_))), "{words} words for one query of 4");
        }
        let columns = |layout, words| backend.columns(layout, &vec![0; words]);
        for words in [0, 3, 5] {
            assert!(matches!(columns(layout(128, 2), words), Err(BackendError::Shape(_))));
        }
        let (right, other) = (columns(layout(128, 2), 8).unwrap(), columns(layout(64, 2), 8).unwrap());
        let five = columns(layout(128, 2), 20).unwrap();
        for (columns, blocks, bits) in [
            (&other, 1, 8),
            (&right, 0, 8),
            (&right, 3, 8),
            (&right, usize::MAX, 8),
            (&right, 2, 0),
            (&right, 2, 32),
            (&five, 1, 8),
        ] {
            let folded = FoldedBlocks { blocks, bits };
            let refused = backend.encode_fold(&tables, &matrices, columns, folded, &leaves);
            assert!(matches!(refused, Err(BackendError::Shape(_))), "{blocks} blocks of {bits} bits");
        }
        // A batch of two queries instead of one.
        let pair = backend.expand(&tables, Expansion::covering(4), &[(&keys, &query), (&keys, &query)]);
        let pair = pair.unwrap();
        let packed = backend.poly_fold(&tables, &plain, &pair).unwrap();
        let folded = FoldedBlocks { blocks: 1, bits: 8 };
        let refused = backend.encode_fold(&tables, &matrices, &right, folded, &pair);
        assert!(matches!(refused, Err(BackendError::Shape(_))));
        let refused = backend.mod_switch(&tables, &[&ciphertexts, &packed], bits);
        assert!(matches!(refused, Err(BackendError::Shape(_))));
        let beyond = Bodies { first: 0..100, stride: 101 };
        let mut packed = packed;
        let refused = backend.add_bodies(&tables, &mut packed, &vec![0; 200], &beyond, 8);
        assert!(matches!(refused, Err(BackendError::Shape(_))), "the second query's words are not there");
    }
}

#[test]
fn rings_beyond_the_kernels_and_memory_beyond_the_machine_are_refused() {
    for backend in crate::common::backends(1) {
        for (degree, primes) in [(8, &PRIMES[1][..2]), (64, &[33_538_049, 1_073_692_673])] {
            let refused = backend.tables(&ring(degree, primes));
            assert!(matches!(refused, Err(BackendError::Unavailable(_))), "degree {degree}");
        }
        let tables = backend.tables(&ring(64, &PRIMES[1][..2])).unwrap();
        for (rows, columns) in [(usize::MAX, usize::MAX), (1 << 20, 1 << 20)] {
            let refused = backend.encode(&tables, rows, columns, &|_, _, _| ());
            assert!(matches!(refused, Err(BackendError::Unavailable(_))));
        }
    }
}

#[test]
fn gadgets_beyond_the_words_are_refused() {
    let ring = ring(64, &PRIMES[1][..3]);
    let levels = |gadget: Gadget| gadget.levels(&ring);
    for (count, base_log, dropped) in
        [(1, 20, 0), (2, 31, 0), (5, 30, 0), (0, 5, 0), (3, 0, 60), (3, 40, 0), (9, 18, 30)]
    {
        let gadget = Gadget::Digits { levels: count, base_log, dropped };
        for backend in crate::common::backends(1) {
            let tables = backend.tables(&ring).unwrap();
            let keys = EvaluationKeys {
                expansion_gadget: gadget,
                expansion: &vec![0; 2 * levels(gadget) * ring.words()],
                rotations: &[],
                conversion_gadget: gadget,
                conversion: &[],
            };
            if count > 0 {
                assert!(matches!(backend.keys(&tables, keys), Err(BackendError::Shape(_))), "{gadget:?}");
            }
        }
    }
}
