//! Matrices of switched ciphertexts, and the packing of their folds.

use spirea_backend::{FoldedBlocks, NaiveBackend, PanelLayout, RingBackend, SwitchedBits};
use spirea_cuda::CudaBackend;
use spirea_cuda_emulation::{Config, StreamOrder};
use spirea_lattice::rlwe::RingSet;
use spirea_math::Expansion;

use crate::case::{ALL_BITS, Case, Data, device, emulation, in_orders, polynomials, words};

/// Returns the bytes of ciphertexts switched to matrices, and the result of packing the matrices'
/// folds with columns.
fn second_half<B: RingBackend>(
    backend: &B,
    case: &Case,
    tables: &B::Tables,
    (bits, folded): (SwitchedBits, FoldedBlocks),
) -> (Vec<u32>, Vec<u8>) {
    /// Equal to the number of leaves.
    const COLUMNS: usize = 3;
    let ring = &case.ring;
    let data = [Data::Random(3), Data::Largest];
    let ciphertexts = case.ciphertexts(backend, tables, 3, &data);
    let rows = bits.bytes(ring.degree()).max(folded.blocks * ring.degree() + 40);
    let layout = PanelLayout::covering(rows, 4).unwrap();
    let matrices = backend.reinterpret(tables, &ciphertexts, bits, layout).unwrap();
    // These queries make a word of each row's four bytes.
    let own = [1, 1 << 8, 1 << 16, 1 << 24].repeat(data.len());
    let seen = backend.words(backend.scalar_fold_own(&matrices, &own).unwrap()).unwrap();

    let columns = backend.columns(layout, &words(COLUMNS * layout.columns(), 7)).unwrap();
    let expansion = Expansion::covering(COLUMNS);
    let keys = case.keys(backend, tables, expansion.levels(), Data::Random(4));
    let queries = [5, 6].map(|seed| polynomials(ring, Data::Random(seed), 2));
    let queries: Vec<(&B::Keys, &[u32])> = queries.iter().map(|words| (&keys, &words[..])).collect();
    let leaves = backend.expand(tables, expansion, &queries).unwrap();
    let mut bytes = Vec::new();
    // Later folds reuse the room of the first one.
    for _ in 0..2 {
        let packed = backend.encode_fold(tables, &matrices, &columns, folded, &leaves).unwrap();
        bytes.extend(backend.mod_switch(tables, &[&packed], ALL_BITS).unwrap().concat());
    }
    (seen, bytes)
}

fn compare_second_halves(cases: &[(Case, (SwitchedBits, FoldedBlocks))]) {
    for (case, shape) in cases {
        let expected = second_half(&NaiveBackend, case, &case.ring, *shape);
        in_orders(&case.ring, || {
            let backend = CudaBackend::new(0).unwrap();
            let tables = backend.tables(&case.ring).unwrap();
            assert!(second_half(&backend, case, &tables, *shape) == expected, "{shape:?}");
        });
    }
}

#[test]
fn second_halves_agree() {
    compare_second_halves(&[
        (Case::of(RingSet::Fast), (SwitchedBits { a: 18, b: 14 }, FoldedBlocks { blocks: 1, bits: 18 })),
        (Case::short(), (SwitchedBits { a: 18, b: 14 }, FoldedBlocks { blocks: 3, bits: 17 })),
    ]);
}

#[test]
fn second_halves_of_other_sets_agree() {
    compare_second_halves(&[
        (Case::of(RingSet::Onion32), (SwitchedBits { a: 1, b: 2 }, FoldedBlocks { blocks: 1, bits: 31 })),
        (Case::of(RingSet::Small), (SwitchedBits { a: 7, b: 8 }, FoldedBlocks { blocks: 1, bits: 1 })),
    ]);
}

/// Tests that, between the ciphertexts of both halves, nothing is copied to the host, and little is
/// copied from the host.
#[test]
fn second_halves_stay_on_the_device() {
    let case = Case::short();
    let emulation = emulation();
    emulation.with(Config { streams: StreamOrder::Lazy, ..device() }, || {
        let backend = CudaBackend::new(0).unwrap();
        let tables = backend.tables(&case.ring).unwrap();
        let ciphertexts = case.ciphertexts(&backend, &tables, 3, &[Data::Random(1), Data::Random(2)]);
        let layout = PanelLayout::covering(2 * 2048, 3).unwrap();
        let columns = backend.columns(layout, &words(2 * layout.columns(), 1)).unwrap();
        let folded = FoldedBlocks { blocks: 2, bits: 18 };
        let half = || {
            let bits = SwitchedBits { a: 9, b: 7 };
            let matrices = backend.reinterpret(&tables, &ciphertexts, bits, layout).unwrap();
            let answers = backend.scalar_fold_own(&matrices, &words(2 * layout.columns(), 2)).unwrap();
            // Any ciphertexts can serve as leaves.
            (answers, backend.encode_fold(&tables, &matrices, &columns, folded, &ciphertexts).unwrap())
        };
        drop(half());
        backend.device().main().synchronize().unwrap();
        let (live, pinned) = (emulation.live(0), emulation.live_pinned());
        emulation.reset();
        for _ in 0..3 {
            drop(half());
        }
        let copied = emulation.copied();
        assert_eq!((copied.to_host, copied.to_device), (0, 0), "nothing was waited for");
        backend.device().main().synchronize().unwrap();
        let copied = emulation.copied();
        // Three rounds of two queries. Each sends the query's words, its matrix's address, and the
        // addresses of 64 queries' leaves and results.
        let sent = 3 * 2 * (4 * layout.columns() + 8 + 2 * 8 * 64) as u64;
        assert_eq!((copied.to_host, copied.to_device), (0, sent));
        assert_eq!((emulation.live(0), emulation.live_pinned()), (live, pinned));
    });
}
