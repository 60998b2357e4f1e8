//! Products in every form and order, compared with the definition, on the emulation.

use std::sync::Arc;

use spirea_cuda_emulation::{Config, Emulation};
use spirea_math::{Modulus, Ring};

use super::*;
use crate::driver::Device;

/// Primes of the parameter sets `fast`, `small` and `onion`: for each set, the largest prime and a
/// smaller prime of its ring.
const FAST: [u32; 2] = [536_608_769, 531_628_033];
const SMALL: [u32; 2] = [1_073_692_673, 1_073_668_097];
const ONION: [u32; 2] = [134_176_769, 67_043_329];

fn ring(degree: usize, primes: [u32; 2]) -> Arc<Ring> {
    Arc::new(Ring::new(degree, &primes.map(Modulus::new)))
}

/// Function that makes a polynomial's words from the prime and a number that is unique to the word.
type Fill = fn(q: u32, number: u64) -> u32;

fn zero(_: u32, _: u64) -> u32 {
    0
}

fn most(q: u32, _: u64) -> u32 {
    q - 1
}

fn alternating(q: u32, number: u64) -> u32 {
    if number.is_multiple_of(2) { q - 1 } else { 0 }
}

fn random(q: u32, number: u64) -> u32 {
    let mut x = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (((x >> 32) * u64::from(q)) >> 32) as u32
}

fn polynomials(ring: &Ring, count: usize, seed: u64, fill: Fill) -> Vec<u32> {
    let primes: Vec<u32> = ring.limbs().iter().map(|limb| limb.prime().value()).collect();
    let word = |i| fill(primes[i / ring.degree() % primes.len()], seed << 40 | i as u64);
    (0..count * ring.words()).map(word).collect()
}

/// Rows, columns and leaves of each query, with the expected ciphertexts.
struct Case {
    ring: Arc<Ring>,
    rows: usize,
    columns: usize,
    plain: Vec<u32>,
    leaves: Vec<Vec<u32>>,
    expected: Vec<Vec<u32>>,
}

impl Case {
    fn new(ring: &Arc<Ring>, [rows, columns, queries]: [usize; 3], fill: Fill) -> Self {
        let plain = polynomials(ring, rows * columns, 0, fill);
        // Some batches have one leaf more than the product uses.
        let count = columns + queries % 2;
        let leaves: Vec<_> =
            (0..queries).map(|query| polynomials(ring, 2 * count, 1 + query as u64, fill)).collect();
        let words = ring.words();
        let fold = |leaves: &Vec<u32>| {
            let mut sums = vec![0; rows * 2 * words];
            for (sums, plain) in sums.chunks_exact_mut(2 * words).zip(plain.chunks_exact(columns * words)) {
                let (a, b) = sums.split_at_mut(words);
                for (plain, leaf) in plain.chunks_exact(words).zip(leaves.chunks_exact(2 * words)) {
                    ring.mul_add(a, plain, &leaf[..words]);
                    ring.mul_add(b, plain, &leaf[words..]);
                }
            }
            sums
        };
        let expected = leaves.iter().map(fold).collect();
        Self { ring: Arc::clone(ring), rows, columns, plain, leaves, expected }
    }

    /// Multiplies in one form, with the rows stored a few at a time, and compares the result.
    fn check(&self, tables: &Tables, form: Form) {
        let Self { rows, columns, .. } = *self;
        let mut plain = Plain::with_form(tables, rows, columns, form).unwrap();
        let row_words = columns * self.ring.words();
        let some = rows.div_ceil(3);
        for (i, values) in self.plain.chunks(some * row_words).enumerate() {
            let values = tables.device.upload(values).unwrap();
            plain.store(tables, i * some, values.len() / row_words, &values).unwrap();
        }
        let found = self.fold(tables, &plain);
        let place = |(query, (found, expected)): (usize, (&Vec<u32>, &Vec<u32>))| {
            found.iter().zip(expected).position(|(found, expected)| found != expected).map(|i| (query, i))
        };
        let wrong = found.iter().zip(&self.expected).enumerate().find_map(place);
        assert_eq!(wrong, None, "(query, word) of {rows} x {columns} in {form:?}");
    }

    fn fold(&self, tables: &Tables, plain: &Plain) -> Vec<Vec<u32>> {
        let results =
            poly_fold(tables, &[plain], &upload(tables, self.columns + self.leaves.len() % 2, &self.leaves))
                .unwrap();
        let read = |query| tables.device.main().read(&results.of(tables, query)).unwrap();
        (0..results.queries()).map(read).collect()
    }
}

/// Uploads leaves of queries, `count` of each.
fn upload(tables: &Tables, count: usize, queries: &[Vec<u32>]) -> Leaves {
    let leaves = Leaves::room(tables, queries.len(), count).unwrap();
    for (query, words) in queries.iter().enumerate() {
        tables.device.main().upload(words, &leaves.of(tables, query)).unwrap();
    }
    leaves
}

fn tables(ring: &Arc<Ring>) -> Tables {
    Tables::new(&Device::open(0).unwrap(), ring).unwrap()
}

fn emulation() -> &'static Emulation {
    Emulation::install(Config::default())
}

/// Multiplies in every form that the ring supports and in every order.
fn check(ring: &Arc<Ring>, shape: [usize; 3], fill: Fill) {
    let case = Case::new(ring, shape, fill);
    emulation().in_every_order(|| {
        let tables = tables(ring);
        for form in Form::ALL {
            if ring.limbs().iter().all(|limb| form.holds(limb.prime().value())) {
                case.check(&tables, form);
            }
        }
    });
}

#[test]
fn products_of_every_shape() {
    // Row counts near multiples of eight and near the tiles of warps and blocks, column counts near
    // steps, query counts near groups of columns. Warpgroups multiply for more than 32 rows and 8
    // queries.
    let shapes = [
        [1, 1, 1],
        [3, 31, 2],
        [16, 32, 5],
        [17, 64, 8],
        [33, 200, 9],
        [8, 33, 17],
        [70, 32, 1],
        [130, 65, 3],
        [300, 40, 1],
        [1, 256, 33],
        [65, 40, 33],
        [64, 96, 12],
        [129, 33, 10],
    ];
    for (i, shape) in shapes.into_iter().enumerate() {
        check(&ring(32, [FAST, SMALL][i % 2]), shape, random);
        check(&ring(32, ONION), shape, random);
    }
}

#[test]
fn sums_of_the_largest_and_of_no_residues() {
    for primes in [ONION, FAST, SMALL] {
        for fill in [zero, most, alternating] {
            check(&ring(32, primes), [9, 513, 1], fill);
            check(&ring(32, primes), [33, 513, 9], fill);
        }
    }
}

#[test]
fn panels_of_columns_add_up() {
    // More than 512 columns (fewer on small shared memory) are processed in several panels.
    for primes in [ONION, FAST] {
        check(&ring(32, primes), [3, 1300, 2], random);
        check(&ring(32, primes), [34, 600, 9], random);
    }
}

#[test]
fn chunks_share_lanes() {
    check(&ring(512, ONION), [5, 40, 2], random);
}

#[test]
fn batches_beyond_one_product_and_graphs_used_again() {
    let ring = ring(32, ONION);
    let cases: Vec<_> = [70, 6, 70, 6, 0].map(|queries| Case::new(&ring, [2, 3, queries], random)).into();
    emulation().in_every_order(|| {
        let tables = tables(&ring);
        let mut plain = Plain::new(&tables, 2, 3).unwrap();
        assert_eq!((plain.form(), plain.rows(), plain.columns()), (Form::Septets, 2, 3));
        plain.store(&tables, 0, 2, &tables.device.upload(&cases[0].plain).unwrap()).unwrap();
        for case in &cases {
            assert_eq!(case.fold(&tables, &plain), case.expected);
        }
    });
}

#[test]
fn shapes_that_do_not_fit_are_refused() {
    let emulation = emulation();
    let _exclusive = emulation.exclusive();
    let (ring, larger) = (ring(32, FAST), ring(64, FAST));
    let other = tables(&larger);
    let tables = tables(&ring);
    let shape = |result: Result<(), BackendError>| assert!(matches!(result, Err(BackendError::Shape(_))));
    shape(Plain::new(&tables, 0, 3).map(drop));
    shape(Plain::new(&tables, 3, 0).map(drop));
    shape(Plain::new(&tables, 1, 1 << 21).map(drop));
    shape(Plain::new(&tables, usize::MAX, 1).map(drop));
    shape(Plain::with_form(&tables, 3, 3, Form::Septets).map(drop));
    for (rows, columns) in [(1 << 20, 1 << 20), (1 << 30, 1 << 20)] {
        let plain = Plain::new(&tables, rows, columns);
        assert!(matches!(plain, Err(BackendError::Unavailable(_))), "{rows} x {columns}");
    }

    let mut plain = Plain::new(&tables, 3, 4).unwrap();
    assert_eq!(plain.bytes(), 3 * 32 * ring.words() * 4);
    let row = tables.device.alloc::<u32>(4 * ring.words()).unwrap();
    for (first, rows) in [(3, 1), (0, 2), (0, 4), (usize::MAX, 1), (0, usize::MAX)] {
        shape(plain.store(&tables, first, rows, &row));
    }
    plain.store(&tables, 3, 0, &row).unwrap();
    let leaves = |count: usize| upload(&tables, count, &vec![vec![0; count * 2 * ring.words()]; 2]);
    shape(poly_fold(&tables, &[&plain], &leaves(3)).map(drop));
    shape(poly_fold(&other, &[&plain], &leaves(4)).map(drop));
}
