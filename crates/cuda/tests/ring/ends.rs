//! The end of a pipeline: bodies and switching.

use spirea_backend::{Bodies, NaiveBackend, PanelLayout, RingBackend, SwitchedBits};
use spirea_cuda::CudaBackend;
use spirea_lattice::rlwe::RingSet;

use crate::case::{ALL_BITS, Case, Data, in_orders};

#[test]
fn switching_agrees_with_its_definition() {
    /// Ciphertexts of each query, in the parts that are switched together.
    const COUNTS: [usize; 2] = [2, 1];
    let cases =
        [Case::of(RingSet::Fast), Case::of(RingSet::Onion32), Case::of(RingSet::Small), Case::short()];
    let data =
        [Data::Largest, Data::Random(1), Data::Random(2), Data::Largest].map(|data| [data, Data::Random(3)]);
    for (case, data) in cases.iter().zip(&data) {
        let all = [(43, 39), (1, 56), (56, 1), (18, 14), (31, 33), (32, 20), (7, 8)];
        let all = all.map(|(a, b)| SwitchedBits { a, b });
        let naive = NaiveBackend;
        let ciphertexts = COUNTS.map(|count| case.ciphertexts(&naive, &case.ring, count, data));
        let expected = all.map(|bits| naive.mod_switch(&case.ring, &ciphertexts.each_ref(), bits).unwrap());
        in_orders(&case.ring, || {
            let backend = CudaBackend::new(0).unwrap();
            let tables = backend.tables(&case.ring).unwrap();
            let ciphertexts = COUNTS.map(|count| case.ciphertexts(&backend, &tables, count, data));
            for (bits, expected) in all.into_iter().zip(&expected) {
                let found = backend.mod_switch(&tables, &ciphertexts.each_ref(), bits).unwrap();
                assert!(found == *expected, "{bits:?} {data:?}");
            }
        });
    }
}

/// Adds words of a fold as bodies and returns the switched ciphertexts. Two ciphertexts get fewer
/// words than coefficients. One ciphertext gets one word for each coefficient, without and with
/// gaps between the queries.
fn with_bodies<B: RingBackend>(backend: &B, case: &Case, tables: &B::Tables, bits: u32) -> Vec<u8> {
    const QUERIES: usize = 3;
    let degree = case.ring.degree();
    let layout = PanelLayout::covering(degree + 100, 4).unwrap();
    let bytes: Vec<u8> = (0..layout.bytes()).map(|i| (i * i / 7) as u8).collect();
    let matrix = backend.upload(layout, &bytes).unwrap();
    let words = (QUERIES * layout.columns()) as u32;
    let queries: Vec<u32> = (0..words).map(|i| i.wrapping_mul(0x9e37_79b1)).collect();
    let folded = backend.scalar_fold(&matrix, &queries).unwrap();
    let data = [9, 10, 11].map(Data::Random);
    let mut bytes = Vec::new();
    for (count, first, stride) in
        [(2, 3..layout.rows(), layout.rows()), (1, 5..5 + degree, degree), (1, 5..5 + degree, degree + 1)]
    {
        let mut ciphertexts = case.ciphertexts(backend, tables, count, &data);
        backend.add_bodies(tables, &mut ciphertexts, &folded, &Bodies { first, stride }, bits).unwrap();
        bytes.extend(backend.mod_switch(tables, &[&ciphertexts], ALL_BITS).unwrap().concat());
    }
    bytes
}

fn compare_bodies(cases: &[(Case, u32)]) {
    for (case, bits) in cases {
        let expected = with_bodies(&NaiveBackend, case, &case.ring, *bits);
        in_orders(&case.ring, || {
            let backend = CudaBackend::new(0).unwrap();
            let tables = backend.tables(&case.ring).unwrap();
            assert!(with_bodies(&backend, case, &tables, *bits) == expected, "{bits} bits");
        });
    }
}

#[test]
fn bodies_agree() {
    compare_bodies(&[(Case::of(RingSet::Fast), 18), (Case::short(), 1)]);
}

#[test]
fn bodies_of_other_sets_agree() {
    compare_bodies(&[(Case::of(RingSet::Onion32), 31), (Case::of(RingSet::Small), 7)]);
}
