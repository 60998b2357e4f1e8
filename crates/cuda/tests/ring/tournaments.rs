//! Selectors and the tournaments that they decide.

use spirea_backend::{Bodies, PanelLayout, RingBackend, SwitchedBits};
use spirea_lattice::rlwe::RingSet;
use spirea_math::{Expansion, Gadget};

use crate::case::{ALL_BITS, Case, Data, compare, polynomials, words};

pub fn compare_tournaments(case: &Case, depth: usize, count: usize, data: &[Data]) {
    compare(
        case,
        &format!("{count} ciphertexts, depth {depth}, of {data:?}"),
        |backend, tables| case.tournament(backend, tables, depth, count, data),
        |backend, tables| case.tournament(backend, tables, depth, count, data),
    );
}

#[test]
fn tournaments_agree() {
    compare_tournaments(&Case::of(RingSet::Fast), 2, 3, &[Data::Random(1)]);
}

#[test]
fn tournaments_by_digits_agree() {
    compare_tournaments(&Case::of(RingSet::Onion32), 1, 2, &[Data::Random(2)]);
    compare_tournaments(&Case::of(RingSet::Small), 1, 2, &[Data::Largest]);
    compare_tournaments(&Case::of(RingSet::Onion26), 1, 2, &[Data::Largest]);
}

#[test]
fn tournaments_of_the_shorter_degree_agree() {
    for (depth, count) in [(3, 5), (1, 2), (0, 1)] {
        compare_tournaments(&Case::short(), depth, count, &[Data::Random(6), Data::Largest, Data::Random(8)]);
    }
}

/// Plays tournaments for a batch of clients, each with its own selectors, by conversion keys of
/// different gadgets. The winners have gaps between them. Returns three results computed from them:
/// with bodies added, as matrices, and switched together with ciphertexts without gaps.
fn of_clients<B: RingBackend>(backend: &B, tables: &B::Tables, clients: &[(&Case, Data)]) -> Vec<u8> {
    const DEPTH: usize = 2;
    let (case, _) = clients[0];
    let (ring, degree) = (&case.ring, case.ring.degree());
    let expansion = Expansion::covering(DEPTH * case.selector.levels(ring));
    let keys: Vec<B::Keys> =
        clients.iter().map(|(case, data)| case.keys(backend, tables, expansion.levels(), *data)).collect();
    let data: Vec<Data> = clients.iter().map(|&(_, data)| data).collect();
    let queries: Vec<_> = data.iter().map(|&data| polynomials(ring, data, 2)).collect();
    let queries: Vec<(&B::Keys, &[u32])> = keys.iter().zip(queries.iter().map(Vec::as_slice)).collect();
    let leaves = backend.expand(tables, expansion, &queries).unwrap();
    let keys: Vec<&B::Keys> = keys.iter().collect();
    let selectors = backend.selectors(tables, &keys, &leaves, 0, DEPTH, case.selector).unwrap();
    let ciphertexts = || case.ciphertexts(backend, tables, 3, &data);
    let mut winners = backend.rgsw_fold(tables, &selectors, ciphertexts()).unwrap();

    let layout = PanelLayout::covering(degree + 100, 4).unwrap();
    let matrix = backend.upload(layout, &vec![77; layout.bytes()]).unwrap();
    let folded = backend.scalar_fold(&matrix, &words(clients.len() * layout.columns(), 3)).unwrap();
    let bodies = Bodies { first: 9..degree, stride: layout.rows() };
    backend.add_bodies(tables, &mut winners, &folded, &bodies, 18).unwrap();
    let bits = SwitchedBits { a: 18, b: 14 };
    let layout = PanelLayout::covering(bits.bytes(degree), 4).unwrap();
    let matrices = backend.reinterpret(tables, &winners, bits, layout).unwrap();
    let own = vec![1; clients.len() * layout.columns()];
    let seen = backend.words(backend.scalar_fold_own(&matrices, &own).unwrap()).unwrap();
    let switched = backend.mod_switch(tables, &[&winners, &ciphertexts()], ALL_BITS).unwrap().concat();
    seen.iter().flat_map(|word| word.to_le_bytes()).chain(switched).collect()
}

#[test]
fn batches_of_clients_agree() {
    let digits = Gadget::Digits { levels: 3, base_log: 28, dropped: 2 };
    let case = Case { expansion: Gadget::Residues, ..Case::short() };
    let other = Case { conversion: digits, ..Case::short() };
    let clients = [&case, &case, &other, &case].into_iter().zip((1..).map(Data::Random)).collect::<Vec<_>>();
    compare(
        &case,
        "a batch of clients",
        |backend, tables| of_clients(backend, tables, &clients),
        |backend, tables| of_clients(backend, tables, &clients),
    );
}
