//! Transforms and products of single polynomials, on every instruction set, against their
//! definition.

use std::sync::Arc;

use proptest::prelude::*;
use spirea_backend::{NaiveBackend, ResidueBackend};
use spirea_cpu::CpuBackend;
use spirea_math::{Modulus, NttPlan, Ring};

use crate::common::{Stream, backends, cases};

/// Primes of 27 to 30 bits, in pairs and triples within a factor of 4.
const RINGS: [&[u32]; 4] = [
    &[134_176_769, 268_369_921, 268_361_729],
    &[268_460_033, 268_582_913, 268_640_257],
    &[134_176_769],
    &[1_073_692_673, 536_608_769],
];

fn rings(degree: usize) -> impl Iterator<Item = Arc<Ring>> {
    RINGS.into_iter().map(move |primes| {
        let plan = |&q: &u32| {
            let q = Modulus::new(q);
            NttPlan::with_root(q, degree, q.least_root_of_unity(2 * degree))
        };
        Arc::new(Ring::with_plans(primes.iter().map(plan).collect()))
    })
}

/// Returns `count` polynomials of words below `multiple` times their primes: random ones, or the
/// largest.
fn polynomials(ring: &Ring, count: usize, multiple: u32, seed: Option<u64>) -> Vec<u32> {
    let mut stream = seed.map(Stream::new);
    let mut words = vec![0; count * ring.words()];
    for words in words.chunks_exact_mut(ring.words()) {
        for (limb, words) in ring.limbs().iter().zip(words.chunks_exact_mut(ring.degree())) {
            let bound = multiple.wrapping_mul(limb.prime().value());
            words.fill_with(|| {
                stream.as_mut().map_or(bound - 1, |stream| (stream.next() % u64::from(bound)) as u32)
            });
        }
    }
    words
}

fn check(degree: usize, pairs: usize, seed: Option<u64>) {
    for ring in rings(degree) {
        let naive = NaiveBackend;
        let oracle = naive.residue_tables(&ring).unwrap();
        for backend in backends(1) {
            let tables = backend.residue_tables(&ring).unwrap();
            let say = format!("{backend:?}, degree {degree}, {:?}", ring.limbs()[0].prime());

            let (mut found, mut expected) = (polynomials(&ring, 2, 4, seed), polynomials(&ring, 2, 4, seed));
            backend.forward(&tables, &mut found);
            naive.forward(&oracle, &mut expected);
            assert!(found == expected, "forward: {say}");
            backend.inverse(&tables, &mut found);
            naive.inverse(&oracle, &mut expected);
            assert!(found == expected, "inverse: {say}");

            let (a, b) =
                (polynomials(&ring, pairs, 1, seed), polynomials(&ring, pairs, 1, seed.map(|s| s + 1)));
            let pairs: Vec<(&[u32], &[u32])> =
                a.chunks_exact(ring.words()).zip(b.chunks_exact(ring.words())).collect();
            let found = backend.sum_of_products(&tables, &pairs);
            assert!(found == naive.sum_of_products(&oracle, &pairs), "sum of {}: {say}", pairs.len());
        }
    }
}

#[test]
fn largest_words_agree() {
    for (degree, pairs) in [(16, 0), (64, 33), (256, 1), (4096, 300)] {
        check(degree, pairs, None);
    }
}

proptest! {
    #![proptest_config(cases(12))]
    #[test]
    fn random_words_agree(log in 4u32..13, pairs in 0usize..40, seed: u32) {
        check(1 << log, pairs, Some(seed.into()));
    }
}

#[test]
#[should_panic(expected = "whole polynomials")]
fn parts_of_polynomials_are_refused() {
    let ring = rings(16).next().unwrap();
    let backend = CpuBackend::new(1).unwrap();
    let tables = backend.residue_tables(&ring).unwrap();
    backend.forward(&tables, &mut [0; 47]);
}
