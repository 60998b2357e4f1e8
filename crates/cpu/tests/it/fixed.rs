//! Packing with constant uniform halves of every kernel against its definition, which packs whole
//! ciphertexts.

use std::sync::Arc;

use crate::common::rings::{self, PRIMES, gadgets, ring, values};
use crate::common::{Stream, cases};
use proptest::prelude::*;
use spirea_backend::{
    Backend as _, BackendError, Bodies, FixedPacking, NaiveBackend, PackedEnds, RingBackend, SwitchedBits,
};
use spirea_cpu::CpuBackend;
use spirea_math::{Expansion, Gadget, Ring, Rotations, SentChunks};

/// A case: queries, with the operands of their packing.
#[derive(Clone, Debug)]
struct Packing {
    ring: Arc<Ring>,
    gadget: Gadget,
    rotations: Rotations,
    form: Form,
    /// Results of each plaintext matrix.
    results: Vec<usize>,
    queries: usize,
    halves: Halves,
    seed: u64,
}

/// Form of the chunks.
#[derive(Clone, Copy, Debug)]
enum Form {
    Expanded,
    Apart,
}

/// Content of uniform halves and queries.
#[derive(Clone, Copy, Debug)]
enum Halves {
    Random,
    /// The largest residues, which fill sums the most.
    Largest,
}

const BITS: SwitchedBits = SwitchedBits { a: 56, b: 55 };

impl Packing {
    fn new(ring: Arc<Ring>, gadget: Gadget, rotations: Rotations) -> Self {
        let (form, halves) = (Form::Expanded, Halves::Random);
        Self { ring, gadget, rotations, form, results: vec![2, 1], queries: 2, halves, seed: 1 }
    }

    fn fixed(&self) -> FixedPacking {
        let Self { ref ring, gadget, rotations, .. } = *self;
        let levels = (ring.degree() / rotations.entries()).trailing_zeros();
        let chunks = match self.form {
            Form::Expanded => SentChunks::Expanded(Expansion::partial(levels, rotations.chunks())),
            Form::Apart => SentChunks::Apart,
        };
        FixedPacking { gadget, chunks, rotations }
    }

    fn plain<B: RingBackend>(&self, backend: &B, tables: &B::Tables) -> Vec<B::Plain> {
        let matrices = self.results.iter().enumerate().map(|(number, results)| {
            let fill = |row: usize, column: usize, to: &mut [i32]| {
                let place = ((number as u64) << 48) ^ ((row as u64) << 24) ^ column as u64;
                let mut stream = Stream::new(self.seed ^ place);
                to.fill_with(|| stream.next() as i32);
            };
            let rows = results * self.rotations.big();
            backend.encode(tables, rows, self.rotations.leaves(), &fill).unwrap()
        });
        matrices.collect()
    }

    /// Returns the uniform halves of the results, and each query's answer.
    fn run<B: RingBackend>(&self, backend: &B) -> Vec<Vec<u8>> {
        let (ring, packing) = (&self.ring, self.fixed());
        let tables = backend.tables(ring).unwrap();
        let plain = self.plain(backend, &tables);
        let halves = |seed| match self.halves {
            Halves::Random => values(ring, packing.polynomials(ring), seed),
            Halves::Largest => {
                let largest =
                    ring.limbs().iter().flat_map(|limb| vec![limb.prime().value() - 1; ring.degree()]);
                largest.collect::<Vec<_>>().repeat(packing.polynomials(ring))
            }
        };
        let (fixed, uniform) =
            backend.fix_uniform(&tables, packing, &halves(self.seed), &plain, BITS).unwrap();
        let queries: Vec<Vec<u32>> = (1..=self.queries as u64).map(|i| halves(self.seed + i)).collect();
        let queries: Vec<&[u32]> = queries.iter().map(Vec::as_slice).collect();
        // Some of the last result's bodies are missing.
        let words = self.results.iter().sum::<usize>() * ring.degree() - 3;
        let mut stream = Stream::new(self.seed ^ 5);
        let folded = (0..self.queries * words).map(|_| stream.next() as u32).collect();
        let folded = backend.folded(self.queries, folded).unwrap();
        let ends = PackedEnds {
            folded: &folded,
            bodies: &Bodies::whole(0, words),
            plaintext_bits: 17,
            switched: BITS,
        };
        let mut seen = backend.pack_fixed(&tables, &fixed, &plain, &queries, ends).unwrap();
        seen.push(uniform);
        seen
    }

    fn check(&self) {
        for form in [Form::Expanded, Form::Apart] {
            let packing = Self { form, ..self.clone() };
            rings::check(&packing, &packing.run(&NaiveBackend), |backend| packing.run(backend));
        }
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
fn the_largest_residues_agree() {
    for family in PRIMES {
        for primes in [1, 4] {
            let ring = ring(64, &family[..primes]);
            for gadget in gadgets(&ring) {
                let packing = Packing::new(ring.clone(), gadget, Rotations::new(16, 3, 4));
                Packing { halves: Halves::Largest, ..packing }.check();
            }
        }
    }
}

/// Servers plan with the number of bytes that
/// [`FixedPacking::digits_bytes`](spirea_backend::FixedPacking::digits_bytes) states.
#[test]
fn digits_take_the_bytes_that_are_stated() {
    for form in [Form::Expanded, Form::Apart] {
        let packing = Packing::new(ring(64, &PRIMES[1][..3]), Gadget::Residues, Rotations::new(16, 3, 4));
        let packing = Packing { form, ..packing };
        let (ring, fixed) = (&packing.ring, packing.fixed());
        let backend = CpuBackend::new(1).unwrap();
        let tables = backend.tables(ring).unwrap();
        let plain = packing.plain(&backend, &tables);
        let halves = values(ring, fixed.polynomials(ring), 1);
        let (digits, _) = backend.fix_uniform(&tables, fixed, &halves, &plain, BITS).unwrap();
        assert_eq!(digits.bytes(), fixed.digits_bytes(ring, 3));
    }
}

#[test]
fn every_split_agrees() {
    for (degree, entries) in [(16, 2), (64, 16), (128, 32)] {
        let ring = ring(degree, &PRIMES[1][..3]);
        let chunks = (degree / entries).min(5);
        for steps in (0..).map(|log| 1 << log).take_while(|steps| 2 * steps <= entries) {
            Packing::new(ring.clone(), Gadget::Residues, Rotations::new(entries, chunks, steps)).check();
        }
    }
}

#[test]
fn a_block_of_leaves_and_more_agree() {
    let ring = ring(128, &PRIMES[1][..2]);
    // A block has 64 leaves.
    for chunks in [2, 3] {
        let packing = Packing::new(ring.clone(), gadgets(&ring)[2], Rotations::new(32, chunks, 16));
        Packing { queries: 9, results: vec![5], ..packing }.check();
    }
}

#[test]
fn the_shape_of_the_protocols_agrees() {
    for primes in [&PRIMES[1][..3], &PRIMES[0][..2]] {
        let ring = ring(4096, primes);
        let packing = Packing::new(ring.clone(), gadgets(&ring)[0], Rotations::new(256, 1, 8));
        Packing { results: vec![1], queries: 1, ..packing }.check();
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
        results in prop::collection::vec(1usize..4, 1..3),
        queries in 1usize..4,
        seed in 0u64..1 << 32,
    ) {
        let entries = 1 << log_entries;
        let ring = ring((entries << log_stride).max(16), &family[..primes]);
        let rotations = Rotations::new(entries, chunks.min(ring.degree() / entries), 1 << log_steps.min(log_entries - 1));
        let gadget = gadgets(&ring)[gadget];
        Packing { results, queries, seed, ..Packing::new(ring, gadget, rotations) }.check();
    }
}

#[test]
fn shapes_that_do_not_fit_are_refused() {
    fn check<B: RingBackend>(backend: &B) {
        let ring = ring(64, &PRIMES[1][..2]);
        let good = Packing::new(ring.clone(), Gadget::Residues, Rotations::new(16, 3, 4));
        let (packing, tables) = (good.fixed(), backend.tables(&ring).unwrap());
        let plain = good.plain(backend, &tables);
        let words = vec![0; packing.polynomials(&ring) * ring.words()];
        let fix = |packing, words: &[u32], plain: &[B::Plain]| {
            backend.fix_uniform(&tables, packing, words, plain, BITS)
        };
        let refused = |outcome: Result<_, BackendError>| matches!(outcome, Err(BackendError::Shape(_)));
        let (fixed, halves) = fix(packing, &words, &plain).unwrap();
        assert_eq!(halves.len(), 3 * 56 * 64 / 8);
        assert!(refused(fix(packing, &words[1..], &plain).map(drop)));
        for expansion in [Expansion::partial(2, 2), Expansion::further(1, 3)] {
            let other = FixedPacking { chunks: SentChunks::Expanded(expansion), ..packing };
            assert!(refused(fix(other, &words, &plain).map(drop)));
        }
        let apart = FixedPacking { chunks: SentChunks::Apart, ..packing };
        assert!(refused(fix(apart, &words, &plain).map(drop)), "polynomials of the other form");
        // Rows that do not form whole sums, and fewer leaves than columns.
        let odd = backend.encode(&tables, 3, 24, &|_, _, to| to.fill(0)).unwrap();
        assert!(refused(fix(packing, &words, &[odd]).map(drop)));
        let wide = backend.encode(&tables, 2, 25, &|_, _, to| to.fill(0)).unwrap();
        assert!(refused(fix(packing, &words, &[wide]).map(drop)));

        let folded = backend.folded(1, vec![0; 3 * 64]).unwrap();
        let bodies = Bodies::whole(0, 3 * 64);
        let pack = |plain: &[B::Plain], queries: &[&[u32]], (plaintext_bits, switched)| {
            let ends = PackedEnds { folded: &folded, bodies: &bodies, plaintext_bits, switched };
            backend.pack_fixed(&tables, &fixed, plain, queries, ends).map(drop)
        };
        let ends = (17, BITS);
        assert!(pack(&plain, &[&words], ends).is_ok());
        assert!(refused(pack(&plain, &[&words[1..]], ends)));
        assert!(refused(pack(&plain, &[&words, &words], ends)), "bodies of one query for two");
        assert!(refused(pack(&plain, &[&words], (32, BITS))));
        let wide = SwitchedBits { a: 56, b: 57 };
        if backend.name() != NaiveBackend.name() {
            assert!(refused(pack(&plain, &[&words], (17, wide))));
        }
    }
    check(&NaiveBackend);
    crate::common::backends(1).iter().for_each(check);
}
