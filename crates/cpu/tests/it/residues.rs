//! Key switching with a special prime and products of ciphertexts, on every instruction set,
//! against their definition.

use std::sync::Arc;

use proptest::prelude::*;
use spirea_backend::{NaiveBackend, ProductRings, ResidueBackend, RingBackend as _, SwitchKey};
use spirea_cpu::CpuBackend;
use spirea_math::{Modulus, NttPlan, Ring};

use crate::common::{Stream, backends, cases};

/// One to four primes of 27 to 30 bits, each at most 3 times any other.
const RINGS: [&[u32]; 5] = [
    &[134_176_769, 268_369_921, 268_361_729],
    &[268_460_033, 268_582_913, 268_640_257],
    &[134_176_769],
    &[1_073_692_673, 536_608_769],
    &[1_073_692_673, 536_608_769, 1_073_668_097, 1_073_651_713],
];
/// Primes of products: of q, and of the extension.
const PRODUCTS: [&[u32]; 2] = [&[134_176_769, 268_369_921], &[268_460_033, 268_582_913, 268_640_257]];

fn ring(degree: usize, primes: &[u32]) -> Arc<Ring> {
    let plan = |&q: &u32| {
        let q = Modulus::new(q);
        NttPlan::with_root(q, degree, q.least_root_of_unity(2 * degree))
    };
    Arc::new(Ring::with_plans(primes.iter().map(plan).collect()))
}

fn rings(degree: usize) -> impl Iterator<Item = Arc<Ring>> {
    RINGS.into_iter().map(move |primes| ring(degree, primes))
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

fn check(degree: usize, seed: Option<u64>) {
    for ring in rings(degree) {
        let oracle = NaiveBackend.tables(&ring).unwrap();
        for backend in backends(1) {
            let tables = backend.tables(&ring).unwrap();
            let say = format!("{backend:?}, degree {degree}, {} primes", ring.limbs().len());

            let (mut found, mut expected) = (polynomials(&ring, 2, 4, seed), polynomials(&ring, 2, 4, seed));
            backend.forward(&tables, &mut found);
            NaiveBackend.forward(&oracle, &mut expected);
            assert!(found == expected, "forward: {say}");
            backend.double(&tables, &mut found);
            NaiveBackend.double(&oracle, &mut expected);
            assert!(found == expected, "double: {say}");
            backend.inverse(&tables, &mut found);
            NaiveBackend.inverse(&oracle, &mut expected);
            assert!(found == expected, "inverse: {say}");

            for level in 0..degree.ilog2() {
                let mut nodes =
                    [polynomials(&ring, 2, 1, seed), polynomials(&ring, 2, 1, seed.map(|s| s + 1))];
                let mut expected = nodes.clone();
                let [node, image] = &mut nodes;
                backend.split(&tables, level, node, image);
                let [node, image] = &mut expected;
                NaiveBackend.split(&oracle, level, node, image);
                assert!(nodes == expected, "split, level {level}: {say}");
            }
            if ring.limbs().len() > 1 {
                check_switches(&backend, &ring, seed, &say);
            }
        }
    }
}

/// Checks the operations with a special prime: the last one of the ring.
fn check_switches(backend: &CpuBackend, ring: &Arc<Ring>, seed: Option<u64>, say: &str) {
    let (tables, oracle) = (backend.tables(ring).unwrap(), NaiveBackend.tables(ring).unwrap());
    let small = Ring::with_plans(
        ring.limbs()[..ring.limbs().len() - 1].iter().map(|limb| limb.plan.clone()).collect(),
    );
    let both = |operation: &dyn Fn(&mut [u32], bool)| -> [Vec<u32>; 2] {
        [true, false].map(|naive| {
            let mut to = vec![7; 2 * small.words()];
            operation(&mut to, naive);
            to
        })
    };
    let polynomial = |offset| polynomials(ring, 1, 1, seed.map(|seed| seed + offset));
    let [found, expected] = both(&|to, naive| {
        let to = &mut to[..small.words()];
        if naive {
            NaiveBackend.divide_by_last(&oracle, &polynomial(2), to);
        } else {
            backend.divide_by_last(&tables, &polynomial(2), to);
        }
    });
    assert!(found == expected, "divide_by_last: {say}");

    let ciphertexts: Vec<_> =
        (0..small.limbs().len() as u64).map(|i| [polynomial(2 * i + 3), polynomial(2 * i + 4)]).collect();
    let key = SwitchKey::new(ring, &ciphertexts);
    let ciphertext = polynomials(&small, 2, 1, seed.map(|seed| seed + 20));
    for level in [0, 1, ring.degree().ilog2() / 2, ring.degree().ilog2() - 1] {
        let [found, expected] = both(&|to, naive| {
            if naive {
                NaiveBackend.substitute(&oracle, level, &key, &ciphertext, to);
            } else {
                backend.substitute(&tables, level, &key, &ciphertext, to);
            }
        });
        assert!(found == expected, "substitute, level {level}: {say}");
    }

    let product = polynomials(&small, 3, 1, seed.map(|seed| seed + 30));
    let [found, expected] = both(&|to, naive| {
        if naive {
            NaiveBackend.relinearise(&oracle, &key, &product, to);
        } else {
            backend.relinearise(&tables, &key, &product, to);
        }
    });
    assert!(found == expected, "relinearise: {say}");
}

/// Checks products of `count` pairs of ciphertexts. `edges` sets coefficients to the ends and the
/// middle of the range.
fn check_products(degree: usize, count: usize, scale: u32, seed: Option<u64>, edges: bool) {
    let [ciphertext, extension] = PRODUCTS.map(|primes| ring(degree, primes));
    let rings = ProductRings { ciphertext: Arc::clone(&ciphertext), extension };
    let oracle = NaiveBackend.product_tables(&rings).unwrap();
    let mut polynomials = [0, 1].map(|i| polynomials(&ciphertext, 2 * count, 1, seed.map(|seed| seed + i)));
    if edges {
        let q = ciphertext.modulus() as i128;
        for polynomial in polynomials.iter_mut().flat_map(|p| p.chunks_exact_mut(ciphertext.words())) {
            ciphertext.inverse(polynomial);
            for (i, x) in [0, 1, -1, q / 2, -(q / 2), q / 2 - 1, q / 3, q - 1].into_iter().enumerate() {
                ciphertext.set_coefficient(polynomial, i, x);
            }
            ciphertext.forward(polynomial);
        }
    }
    let words = rings.lifted_words();
    for backend in backends(1) {
        let tables = backend.product_tables(&rings).unwrap();
        let say = format!("{backend:?}, degree {degree}, {count} pairs");
        let lifted = polynomials.each_ref().map(|polynomials| {
            let mut all = Vec::new();
            for polynomial in polynomials.chunks_exact(ciphertext.words()) {
                let (mut found, mut expected) = (vec![7; words], vec![8; words]);
                backend.lift(&tables, polynomial, &mut found);
                NaiveBackend.lift(&oracle, polynomial, &mut expected);
                assert!(found == expected, "lift: {say}");
                all.extend(found);
            }
            all
        });
        let [left, right] = &lifted;
        let found = backend.inner_product(&tables, scale, left, right);
        assert!(found == NaiveBackend.inner_product(&oracle, scale, left, right), "product: {say}");
    }
}

#[test]
fn largest_words_agree() {
    for degree in [16, 64, 256, 4096] {
        check(degree, None);
        check_products(degree, 2, 17, None, false);
    }
}

#[test]
fn products_of_extreme_coefficients_agree() {
    for scale in [1, 11, 17, 37, (1 << 27) - 50_000] {
        check_products(64, 1, scale, Some(5), true);
    }
    // More pairs than a sum holds.
    check_products(16, 70, 17, None, false);
    check_products(256, 33, 37, Some(1), true);
    check_products(256, 0, 37, Some(1), true);
}

proptest! {
    #![proptest_config(cases(12))]
    #[test]
    fn random_words_agree(log in 4u32..13, count in 0usize..5, seed: u32) {
        check(1 << log, Some(seed.into()));
        check_products(1 << log, count, 2 + seed % 1000, Some(seed.into()), seed % 2 == 0);
    }
}

#[test]
#[should_panic(expected = "whole polynomials")]
fn parts_of_polynomials_are_refused() {
    let ring = rings(16).next().unwrap();
    let backend = CpuBackend::new(1).unwrap();
    let tables = backend.tables(&ring).unwrap();
    backend.forward(&tables, &mut [0; 47]);
}
