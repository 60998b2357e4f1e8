//! Packing by rotations: partial trees, images of their leaves, products with several matrices,
//! sums of rotated products.

use spirea_backend::{NaiveBackend, RingBackend};
use spirea_conformance::{Count, is_drawn};
use spirea_cuda::CudaBackend;
use spirea_lattice::rlwe::RingSet;
use spirea_math::{Expansion, Gadget, Rotations};

use crate::case::{Case, Data, GRANULARITIES, device, emulation, in_orders, polynomials, words};

/// Returns plaintexts whose products show every leaf.
fn plain<B: RingBackend>(backend: &B, tables: &B::Tables, rows: usize, columns: usize) -> B::Plain {
    let fill = |row: usize, column: usize, to: &mut [i32]| {
        let values = words(to.len(), (row * columns + column) as u32);
        to.iter_mut().zip(values).for_each(|(to, value)| *to = value as i32 >> 9);
    };
    backend.encode(tables, rows, columns, &fill).unwrap()
}

/// Packs for a batch of clients and returns the results. They are the products of two matrices, the
/// sums of these products, products with the leaves that one leaf is expanded to, and products with
/// ciphertexts that need no expansion.
fn packed<B: RingBackend>(
    backend: &B,
    tables: &B::Tables,
    clients: &[(&Case, Data)],
    rotations: Rotations,
) -> [Vec<u32>; 4] {
    /// Levels of the first tree, and leaves of the second.
    const LEVELS: u32 = 2;
    const FURTHER: usize = 3;
    let ring = &clients[0].0.ring;
    let further = Expansion::further(LEVELS, FURTHER);
    let levels = LEVELS + further.levels();
    let keys: Vec<B::Keys> =
        clients.iter().map(|(case, data)| case.keys(backend, tables, levels, *data)).collect();
    let queries: Vec<_> = clients.iter().map(|&(_, data)| polynomials(ring, data, 2)).collect();
    let queries: Vec<(&B::Keys, &[u32])> = keys.iter().zip(queries.iter().map(Vec::as_slice)).collect();
    // There is one leaf more than chunks, and leaves are not expanded down to constants.
    let partial = Expansion::partial(LEVELS, rotations.chunks() + 1);
    let leaves = backend.expand(tables, partial, &queries).unwrap();
    let keys: Vec<&B::Keys> = keys.iter().collect();

    let images = backend.rotate(tables, rotations, &keys, &leaves).unwrap();
    let plains = [1, 2].map(|sums| plain(backend, tables, sums * rotations.big(), rotations.leaves()));
    let products = || backend.poly_fold(tables, &plains, &images).unwrap();
    let sums = backend.sum_rotated(tables, rotations, &keys, products()).unwrap();

    let middle = rotations.chunks() / 2;
    let further = backend.expand_leaf(tables, further, &keys, &leaves, middle).unwrap();
    let of_further = backend.poly_fold(tables, &[plain(backend, tables, 2, FURTHER)], &further).unwrap();
    let sent: Vec<u32> = queries.iter().flat_map(|(_, words)| *words).copied().collect();
    let sent = backend.leaves(tables, queries.len(), &sent).unwrap();
    let of_sent = backend.poly_fold(tables, &[plain(backend, tables, 2, 1)], &sent).unwrap();
    [products(), sums, of_further, of_sent].map(|words| backend.ciphertext_words(tables, &words).unwrap())
}

fn compare_packings(clients: &[(&Case, Data)], rotations: Rotations) {
    let ring = &clients[0].0.ring;
    let expected = packed(&NaiveBackend, ring, clients, rotations);
    in_orders(ring, || {
        let backend = CudaBackend::new(0).unwrap();
        for granularity in GRANULARITIES {
            let tables = backend.tables(ring).unwrap().with_granularity(granularity);
            let found = packed(&backend, &tables, clients, rotations);
            let same = [0, 1, 2].map(|i| found[i] == expected[i]);
            assert_eq!(same, [true; 3], "{rotations:?} of {} clients, {granularity:?}", clients.len());
        }
    });
}

#[test]
fn packings_by_residues_agree() {
    let case = Case::of(RingSet::Fast);
    compare_packings(&[(&case, Data::Random(1)), (&case, Data::Largest)], Rotations::new(8, 1, 2));
}

#[test]
fn packings_by_digits_agree() {
    const SETS: [RingSet; 3] = [RingSet::Brief, RingSet::Small, RingSet::Onion32];
    for set in SETS {
        if !is_drawn(
            "sets that pack by digits",
            &SETS.map(RingSet::name),
            Count { short: 1, full: 1 },
            set.name(),
        ) {
            continue;
        }
        compare_packings(&[(&Case::of(set), Data::Random(2))], Rotations::new(4, 1, 1));
    }
    compare_packings(&[(&Case::wide(), Data::Largest)], Rotations::new(4, 1, 1));
}

#[test]
fn packings_of_the_shorter_degree_agree() {
    compare_packings(&[(&Case::short(), Data::Random(3))], Rotations::new(8, 2, 2));
}

/// Tests clients with their own keys, by different gadgets.
#[test]
fn packings_of_clients_agree() {
    let residues = Case { expansion: Gadget::Residues, ..Case::short() };
    let digits = Case { expansion: Gadget::Digits { levels: 3, base_log: 28, dropped: 2 }, ..Case::short() };
    let clients = [&residues, &residues, &digits, &residues].into_iter().zip((4..).map(Data::Random));
    compare_packings(&clients.collect::<Vec<_>>(), Rotations::new(8, 2, 2));
}

/// Tests every exponent of the clients' sets: those of all splits of 256 automorphisms.
#[test]
fn every_split_agrees() {
    fn of_all<B: RingBackend>(backend: &B, tables: &B::Tables, case: &Case) -> Vec<u32> {
        let keys = case.keys(backend, tables, 0, Data::Random(8));
        let query = polynomials(&case.ring, Data::Random(9), 2);
        let leaves = backend.expand(tables, Expansion::partial(0, 1), &[(&keys, &query)]).unwrap();
        let mut found = Vec::new();
        for steps in (0..8).map(|log| 1 << log) {
            let rotations = Rotations::new(256, 1, steps);
            let words = polynomials(&case.ring, Data::Random(steps as u8), 2 * rotations.big());
            let terms = backend.ciphertexts(tables, 1, &words).unwrap();
            let sum = backend.sum_rotated(tables, rotations, &[&keys], terms).unwrap();
            found.extend(backend.ciphertext_words(tables, &sum).unwrap());
        }
        let rotations = Rotations::new(256, 1, 128);
        let images = backend.rotate(tables, rotations, &[&keys], &leaves).unwrap();
        let plain = plain(backend, tables, 1, rotations.leaves());
        let products = backend.poly_fold(tables, &[plain], &images).unwrap();
        found.extend(backend.ciphertext_words(tables, &products).unwrap());
        found
    }
    let case = Case { expansion: Gadget::Residues, ..Case::short() };
    let expected = of_all(&NaiveBackend, &case.ring, &case);
    emulation().with(device(), || {
        let backend = CudaBackend::new(0).unwrap();
        for granularity in GRANULARITIES {
            let tables = backend.tables(&case.ring).unwrap().with_granularity(granularity);
            assert!(of_all(&backend, &tables, &case) == expected, "{granularity:?}");
        }
    });
}
