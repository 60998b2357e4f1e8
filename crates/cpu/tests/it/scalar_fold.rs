//! `scalar_fold` of every kernel against its definition.

use crate::common::{AWKWARD, Fill, check_scalar_fold, columns_up_to, fills, matrix, words};
use proptest::prelude::*;
use spirea_backend::{Backend, BackendError, MAX_BATCH, PanelLayout};

proptest! {
    #![proptest_config(crate::common::cases(48))]
    #[test]
    fn random_shapes_agree(
        rows in 1usize..200,
        columns in columns_up_to(600),
        batch in prop_oneof![1usize..8, 30usize..35],
        fill in fills(),
        every in prop_oneof![Just(1u64), Just(8)],
        threads in 1usize..4,
        seed: u64,
    ) {
        let layout = PanelLayout::covering(rows, columns).unwrap();
        let bytes = matrix(layout, fill, seed);
        check_scalar_fold(layout, &bytes, &words(layout.columns() * batch, every, !seed), threads);
    }
}

#[test]
fn every_batch_agrees() {
    let layout = PanelLayout::covering(64, 36).unwrap();
    let bytes = matrix(layout, Fill::Random, 1);
    for batch in 1..=MAX_BATCH {
        check_scalar_fold(layout, &bytes, &words(layout.columns() * batch, 4, batch as u64), 2);
    }
}

#[test]
fn many_blocks_of_columns_agree() {
    // Several blocks and a shorter last block, for a single query, one tile and many tiles.
    for (columns, batch) in [(40_004, 1), (20_004, 2), (20_004, 3), (1_540, 32), (1_028, 256)] {
        let layout = PanelLayout::covering(96, columns).unwrap();
        let bytes = matrix(layout, Fill::Ends, 2);
        check_scalar_fold(layout, &bytes, &words(layout.columns() * batch, 2, 3), 2);
    }
    // A single query is folded over pairs of panels: a thread with five panels folds two pairs and
    // one panel.
    let layout = PanelLayout::covering(32 * 20, 40_004).unwrap();
    let bytes = matrix(layout, Fill::Random, 3);
    check_scalar_fold(layout, &bytes, &words(layout.columns(), 2, 4), 1);
}

#[test]
fn extreme_sums_are_exact() {
    let layout = PanelLayout::covering(32, 4096).unwrap();
    for word in AWKWARD {
        for byte in [1, 127, 128, 255] {
            let bytes = matrix(layout, Fill::All(byte), 0);
            check_scalar_fold(layout, &bytes, &vec![word; 3 * layout.columns()], 1);
        }
    }
}

#[test]
fn queries_of_a_wrong_length_are_refused() {
    let layout = PanelLayout::covering(32, 64).unwrap();
    for backend in crate::common::backends(1) {
        let matrix = backend.upload(layout, &vec![0; layout.bytes()]).unwrap();
        for length in [0, 1, 63, 65, 64 * (MAX_BATCH + 1)] {
            let refused = backend.scalar_fold(&matrix, &vec![0; length]);
            assert!(matches!(refused, Err(BackendError::Shape(_))), "{length} words");
        }
    }
}
