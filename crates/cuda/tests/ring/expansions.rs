//! Trees of substitutions.

use spirea_backend::{NaiveBackend, RingBackend as _};
use spirea_cuda::CudaBackend;
use spirea_cuda_emulation::Config;
use spirea_lattice::rlwe::RingSet;
use spirea_math::Expansion;

use crate::case::{Case, Data, compare, device, emulation};
use crate::tournaments::compare_tournaments;

fn compare_expansions(case: &Case, leaves: usize, data: &[Data]) {
    compare(
        case,
        &format!("{leaves} leaves of {data:?}"),
        |backend, tables| case.expanded(backend, tables, Expansion::covering(leaves), data),
        |backend, tables| case.expanded(backend, tables, Expansion::covering(leaves), data),
    );
}

#[test]
fn expansions_by_residues_agree() {
    let case = Case::of(RingSet::Fast);
    compare_expansions(&case, 5, &[Data::Random(1), Data::Random(2)]);
    compare_expansions(&case, 2, &[Data::Largest, Data::Zeros, Data::Alternating]);
}

#[test]
fn expansions_by_digits_agree() {
    compare_expansions(&Case::of(RingSet::Onion32), 3, &[Data::Random(3), Data::Largest]);
    compare_expansions(&Case::of(RingSet::Small), 2, &[Data::Random(4), Data::Largest]);
    compare_expansions(&Case::of(RingSet::Paper), 2, &[Data::Random(4), Data::Alternating]);
    compare_expansions(&Case::of(RingSet::Onion26), 2, &[Data::Random(4), Data::Largest]);
}

#[test]
fn expansions_of_the_shorter_degree_agree() {
    for leaves in [1, 2, 5] {
        compare_expansions(&Case::short(), leaves, &[Data::Random(5), Data::Largest]);
    }
}

/// Tests that trees are traversed subtree by subtree with few processors and many queries.
#[test]
fn subtrees_agree_with_whole_trees() {
    let case = Case::short();
    let data: Vec<Data> = (0..4).map(Data::Random).collect();
    // The first tree is pruned only at its last level, the second one also above it.
    let expansions = [Expansion::covering(11), Expansion::partial(5, 9)];
    let expected = expansions.map(|expansion| case.expanded(&NaiveBackend, &case.ring, expansion, &data));
    let config = Config { processors: 1, ..device() };
    emulation().with(config, || {
        let backend = CudaBackend::new(0).unwrap();
        let cache = backend.device().properties().l2_bytes;
        // Subtrees that fit in half of the cache are not split further; ciphertexts have 48 KiB.
        let tables = backend.tables(&case.ring).unwrap().with_cache(4 * 96 * 1024);
        assert!(cache > 4 * 96 * 1024);
        for (expansion, expected) in expansions.into_iter().zip(&expected) {
            assert!(case.expanded(&backend, &tables, expansion, &data) == *expected, "{expansion:?}");
        }
    });
}

#[test]
fn sums_of_many_large_products_do_not_overflow() {
    for data in [Data::Random(7), Data::Largest] {
        compare_expansions(&Case::wide(), 2, &[data]);
        compare_tournaments(&Case::wide(), 1, 2, &[data]);
    }
}
