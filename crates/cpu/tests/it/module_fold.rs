//! `module_fold` of every kernel against its definition and against `scalar_fold`.

use crate::common::{Fill, check_module_fold, fills, matrix, words};
use proptest::prelude::*;
use spirea_backend::{Backend, BackendError, PanelLayout, RING_DEGREE, RingMatrix};

proptest! {
    #![proptest_config(crate::common::cases(16))]
    #[test]
    fn random_shapes_agree(
        rows in 1usize..70,
        block_rows in 1usize..5,
        rank in 1usize..8,
        fill in fills(),
        every in prop_oneof![Just(1u64), Just(8)],
        threads in 1usize..4,
        seed: u64,
    ) {
        let layout = PanelLayout::covering(rows, block_rows * RING_DEGREE).unwrap();
        let bytes = matrix(layout, fill, seed);
        let coefficients = words(block_rows * rank * RING_DEGREE, every, !seed);
        let a = RingMatrix { coefficients: &coefficients, block_rows, rank };
        check_module_fold(layout, &bytes, a, threads);
    }
}

#[test]
fn extremes_agree() {
    // The largest sums of both signs, and several runs of blocks.
    let (block_rows, rank) = (19, 2);
    let layout = PanelLayout::covering(32, block_rows * RING_DEGREE).unwrap();
    for byte in [0, 255] {
        let bytes = matrix(layout, Fill::All(byte), 0);
        for coefficient in [0x8000_0000, 0x7FFF_FFFF, 1, u32::MAX] {
            let coefficients = vec![coefficient; block_rows * rank * RING_DEGREE];
            check_module_fold(
                layout,
                &bytes,
                RingMatrix { coefficients: &coefficients, block_rows, rank },
                2,
            );
        }
    }
}

/// The longest chunk, and one block more. The coefficients' signs are such that all terms of the
/// first value have the same sign and the largest magnitude.
#[test]
fn the_largest_integers_are_recovered() {
    for (block_rows, byte) in [(128, 0), (128, 255), (129, 0), (131, 255)] {
        let layout = PanelLayout::covering(32, block_rows * RING_DEGREE).unwrap();
        let bytes = matrix(layout, Fill::All(byte), 0);
        // Column 0 of M(a) is a itself; other columns have some signs inverted.
        let coefficients = vec![0x8000_0000u32; block_rows * RING_DEGREE];
        let a = RingMatrix { coefficients: &coefficients, block_rows, rank: 1 };
        // All rows are equal, so the definition is computed for one row.
        let mut expected = vec![0u32; RING_DEGREE];
        for k in 0..RING_DEGREE {
            for (l, sum) in expected.iter_mut().enumerate() {
                let entry = if k >= l { 0x8000_0000u32 } else { 0x8000_0000u32.wrapping_neg() };
                *sum = sum.wrapping_add(entry.wrapping_mul(u32::from(byte)).wrapping_mul(block_rows as u32));
            }
        }
        for backend in crate::common::backends(1) {
            let matrix = backend.upload(layout, &bytes).unwrap();
            let hint = backend.module_fold(&matrix, a).unwrap();
            assert!(hint.chunks_exact(RING_DEGREE).all(|row| row == expected), "{}", backend.name());
        }
    }
}

/// Compares with `scalar_fold` of the expanded matrix, for random bytes of more than one chunk.
#[test]
fn long_rows_agree_with_scalar_fold() {
    let (block_rows, rank) = (150, 1);
    let layout = PanelLayout::covering(32, block_rows * RING_DEGREE).unwrap();
    let bytes = matrix(layout, Fill::Random, 5);
    let coefficients = words(block_rows * rank * RING_DEGREE, 3, 6);
    let a = RingMatrix { coefficients: &coefficients, block_rows, rank };
    let mut expanded = vec![0u32; layout.columns() * RING_DEGREE];
    for (l, query) in expanded.chunks_exact_mut(layout.columns()).enumerate() {
        for (column, word) in query.iter_mut().enumerate() {
            let polynomial = &coefficients[column / RING_DEGREE * RING_DEGREE..][..RING_DEGREE];
            let k = column % RING_DEGREE;
            *word = if k >= l { polynomial[k - l] } else { polynomial[RING_DEGREE + k - l].wrapping_neg() };
        }
    }
    for backend in crate::common::backends(2) {
        let matrix = backend.upload(layout, &bytes).unwrap();
        let answers = backend.scalar_fold(&matrix, &expanded).unwrap();
        let hint = backend.module_fold(&matrix, a).unwrap();
        for (l, answer) in answers.chunks_exact(layout.rows()).enumerate() {
            for (row, &word) in answer.iter().enumerate() {
                assert_eq!(hint[row * RING_DEGREE + l], word);
            }
        }
    }
}

#[test]
fn public_matrices_of_a_wrong_shape_are_refused() {
    let layout = PanelLayout::covering(32, 2 * RING_DEGREE).unwrap();
    let coefficients = vec![0; 4 * RING_DEGREE];
    for backend in crate::common::backends(1) {
        let matrix = backend.upload(layout, &vec![0; layout.bytes()]).unwrap();
        for (block_rows, rank, length) in
            [(1, 2, 512), (2, 0, 0), (2, 2, 1023), (4, 1, 1024), (2, usize::MAX / 2, 512)]
        {
            let a = RingMatrix { coefficients: &coefficients[..length], block_rows, rank };
            assert!(matches!(backend.module_fold(&matrix, a), Err(BackendError::Shape(_))));
        }
    }
}
