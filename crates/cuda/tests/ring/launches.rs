//! Launches of kernels, their grouping of work, and their memory.

use spirea_backend::{
    Backend as _, Bodies, PanelLayout, RingBackend as _, RowLayout, ShareBackend as _, SwitchedBits,
};
use spirea_cuda::{CudaBackend, Granularity};
use spirea_cuda_emulation::Config;
use spirea_math::{Expansion, Rotations};

use crate::case::{ALL_BITS, Case, Data, GRANULARITIES, device, emulation, polynomials, words};

/// Tests that every step is launched once, whatever the number of queries, also with gaps between
/// their ciphertexts.
#[test]
fn a_batch_is_launched_once() {
    let case = Case::short();
    let emulation = emulation();
    emulation.with(device(), || {
        let backend = CudaBackend::new(0).unwrap();
        let degree = case.ring.degree();
        let layout = PanelLayout::covering(2 * degree, 4).unwrap();
        let matrix = backend.upload(layout, &vec![5; layout.bytes()]).unwrap();
        let switched = SwitchedBits { a: 9, b: 7 };
        let launches = |queries: usize, granularity| {
            let tables = backend.tables(&case.ring).unwrap().with_granularity(granularity);
            let data: Vec<Data> = (0..queries as u64).map(|query| Data::Random(query as u8)).collect();
            let folded = backend.scalar_fold(&matrix, &words(queries * layout.columns(), 3)).unwrap();
            let keys = case.keys(&backend, &tables, 1, Data::Random(4));
            let leaves: Vec<Vec<u32>> = data.iter().map(|&data| polynomials(&case.ring, data, 2)).collect();
            let asked: Vec<_> = leaves.iter().map(|words| (&keys, &words[..])).collect();
            emulation.reset();
            let leaves = backend.expand(&tables, Expansion::covering(2), &asked).unwrap();
            let plain = backend.encode(&tables, 2, 1, &|_, _, to: &mut [i32]| to.fill(1)).unwrap();
            let mut packed = backend.poly_fold(&tables, &[plain], &leaves).unwrap();
            backend.add_bodies(&tables, &mut packed, &folded, &Bodies::whole(0, 2 * degree), 18).unwrap();
            backend.reinterpret(&tables, &packed, switched, layout).unwrap();
            backend.mod_switch(&tables, &[&packed], ALL_BITS).unwrap();
            let keys = vec![&keys; queries];
            let selectors = backend.selectors(&tables, &keys, &leaves, 0, 1, case.selector).unwrap();
            let mut winners = backend.rgsw_fold(&tables, &selectors, packed).unwrap();
            let bodies = Bodies { first: 3..degree, stride: 2 * degree };
            backend.add_bodies(&tables, &mut winners, &folded, &bodies, 18).unwrap();
            backend.reinterpret(&tables, &winners, switched, layout).unwrap();
            backend.mod_switch(&tables, &[&winners], ALL_BITS).unwrap();
            emulation.all_launches()
        };
        for granularity in GRANULARITIES {
            assert_eq!(launches(5, granularity), launches(1, granularity), "{granularity:?}");
        }
    });
}

/// Tests that every power, all signs together, and every big rotation are computed in one stage
/// each, whatever the number of queries and chunks.
#[test]
fn a_batch_is_rotated_at_once() {
    const LEVELS: u32 = 2;
    let case = Case::short();
    let rotations = Rotations::new(16, 3, 2);
    let emulation = emulation();
    emulation.with(device(), || {
        let backend = CudaBackend::new(0).unwrap();
        let launches = |queries: usize, granularity| {
            let tables = backend.tables(&case.ring).unwrap().with_granularity(granularity);
            let data = (0..queries as u64).map(|query| Data::Random(query as u8));
            let keys: Vec<_> =
                data.clone().map(|data| case.keys(&backend, &tables, LEVELS + 2, data)).collect();
            let asked: Vec<_> = data.map(|data| polynomials(&case.ring, data, 2)).collect();
            let asked: Vec<_> = keys.iter().zip(asked.iter().map(Vec::as_slice)).collect();
            let plain = [1, 2].map(|sums| {
                let fill = |_: usize, _: usize, to: &mut [i32]| to.fill(1);
                backend.encode(&tables, sums * rotations.big(), rotations.leaves(), &fill).unwrap()
            });
            let leaves = backend.expand(&tables, Expansion::partial(LEVELS, 4), &asked).unwrap();
            let keys: Vec<_> = keys.iter().collect();
            backend.device().main().synchronize().unwrap();
            emulation.reset();
            let further = Expansion::further(LEVELS, 3);
            backend.expand_leaf(&tables, further, &keys, &leaves, 3).unwrap();
            let images = backend.rotate(&tables, rotations, &keys, &leaves).unwrap();
            let products = backend.poly_fold(&tables, &plain, &images).unwrap();
            backend.sum_rotated(&tables, rotations, &keys, products).unwrap();
            assert_eq!(emulation.copied().to_host, 0, "nothing was waited for");
            backend.device().main().synchronize().unwrap();
            emulation.all_launches()
        };
        for (granularity, rotated, split) in [
            (Granularity::Operations, "ring_rotation_images", "ring_split_children"),
            (Granularity::Stages, "ring_rotation_2048", "ring_split_2048"),
            (Granularity::Pairs, "ring_two_rotations_2048", "ring_split_2048"),
        ] {
            let of_one = launches(1, granularity);
            assert_eq!(launches(5, granularity), of_one, "{granularity:?}");
            let steps = rotations.steps() + rotations.big() - 1;
            assert_eq!([rotated, split].map(|name| emulation.launches(name)), [steps as u64, 2]);
        }
    });
}

/// Tests that a small stage runs as one kernel for each operation and a large stage as a single
/// kernel, and that the host never waits.
#[test]
fn granularity_follows_the_working_set() {
    let case = Case::short();
    let emulation = emulation();
    emulation.with(Config { processors: 2, ..device() }, || {
        let backend = CudaBackend::new(0).unwrap();
        let run = |tables: &_| {
            emulation.reset();
            let keys = case.keys(&backend, tables, 2, Data::Random(1));
            let words = polynomials(&case.ring, Data::Random(2), 2);
            backend.expand(tables, Expansion::covering(4), &[(&keys, &words)]).unwrap();
            backend.device().main().synchronize().unwrap();
            [
                "ring_substitution_residues_2048",
                "ring_recombine",
                "ring_substitution_terms_2048",
                "ring_split_children",
            ]
            .map(|name| emulation.launches(name))
            .into_iter()
            .chain([emulation.launches("ring_split_2048")])
            .collect::<Vec<_>>()
        };
        let tables = backend.tables(&case.ring).unwrap();
        assert_eq!(run(&tables), [2, 2, 2, 2, 0]);
        // The stage of one node runs operation by operation, because the device has two processors.
        // The stage of two nodes runs as a single kernel.
        assert_eq!(run(&tables.with_cache(1 << 20)), [1, 1, 1, 1, 1]);
    });
}

/// Tests that only queries take memory from the pool, which is reserved for them.
#[test]
fn what_stays_takes_nothing_of_the_pool() {
    let case = Case::short();
    emulation().with(device(), || {
        let backend = CudaBackend::new(0).unwrap();
        let watch = backend.device().watch().unwrap();
        let tables = backend.tables(&case.ring).unwrap();
        let fill = |_: usize, _: usize, to: &mut [i32]| to.fill(1);
        let plain = backend.encode(&tables, 2, 3, &fill).unwrap();
        let layout = PanelLayout::covering(100, 6).unwrap();
        let columns = backend.columns(layout, &words(5 * layout.columns(), 1)).unwrap();
        let matrix = backend.upload(layout, &vec![1; layout.bytes()]).unwrap();
        let layout = RowLayout::new(100, 40, 1).unwrap();
        let rows = backend.upload_rows(layout, &vec![1; layout.bytes()]).unwrap();
        assert_eq!(watch.most_bytes(), Ok(0));
        drop((tables, plain, columns, matrix, rows));
        drop(case.ciphertexts(&backend, &backend.tables(&case.ring).unwrap(), 1, &[Data::Random(1)]));
        assert!(watch.most_bytes().unwrap() > 0);
    });
}

/// Tests that the same shapes take the same memory, and that all of it is freed.
#[test]
fn memory_is_given_back() {
    let case = Case::short();
    let emulation = emulation();
    emulation.with(device(), || {
        let backend = CudaBackend::new(0).unwrap();
        let tables = backend.tables(&case.ring).unwrap();
        case.tournament(&backend, &tables, 1, 2, &[Data::Random(1)]);
        let before = emulation.live(0);
        case.tournament(&backend, &tables, 1, 2, &[Data::Random(2)]);
        assert_eq!(emulation.live(0), before);
    });
}
