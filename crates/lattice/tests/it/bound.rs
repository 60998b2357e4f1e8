//! The bound for folds under a pad: its values for the shapes in use, and maps measured against it.
#![allow(clippy::print_stdout, reason = "what is bounded is worth seeing")]

use spirea_lattice::RingSet;
use spirea_lattice::rlwe::bound::PaddedFold;
use spirea_math::Expansion;

fn fold(set: RingSet, columns: usize, depth: usize) -> PaddedFold {
    let rows = depth * set.selector_gadget().levels(set.ring());
    PaddedFold { set, columns, depth, expansion: Expansion::covering(columns + rows) }
}

#[test]
fn shapes_in_use_keep_far_below_what_is_required() {
    for set in [RingSet::Onion30, RingSet::Onion32, RingSet::Onion26] {
        for columns in [1, 64, 128, 256, 384, 512] {
            for depth in [0, 1, 7, 14, 24] {
                let log2 = fold(set, columns, depth).exceedance_log2(RingSet::DEGREE, 1.0);
                println!("{}: {columns} columns, {depth} levels: 2^{log2:.1}", set.name());
                assert!(log2 < -90.0);
            }
        }
    }
}
