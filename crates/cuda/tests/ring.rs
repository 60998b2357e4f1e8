//! The steps on rings on emulated devices against the processor's.
#![allow(missing_docs, reason = "a test")]

use std::sync::{Arc, LazyLock};

use spirea_backend::{
    Backend as _, BackendError, Bodies, EvaluationKeys, FoldedBlocks, NaiveBackend, PanelLayout, RingBackend,
    RowLayout, ShareBackend, SwitchedBits,
};
use spirea_cpu::CpuBackend;
use spirea_cuda::{Butterfly, CudaBackend, Direction, Granularity, transform_with};
use spirea_cuda_emulation::{Config, Emulation, StreamOrder, ThreadOrder};
use spirea_lattice::rlwe::RingSet;
use spirea_math::random::public_residues;
use spirea_math::{Expansion, Gadget, Modulus, Ring};

const GRANULARITIES: [Granularity; 2] = [Granularity::Operations, Granularity::Stages];
/// So many bits of coefficients show every wrong residue.
const ALL_BITS: SwitchedBits = SwitchedBits { a: 56, b: 55 };

/// A device that multiplies words: products of bytes take longer to emulate, and are tested by themselves.
fn device() -> Config {
    Config { compute: (8, 6), ..Config::default() }
}

fn emulation() -> &'static Emulation {
    Emulation::install(device())
}

/// Runs a test in every order with the shorter ring, which is quick, else in one order, another one for each set: the
/// kernels are the same for all.
fn in_orders(ring: &Ring, mut test: impl FnMut()) {
    if ring.degree() == SHORT.degree() {
        return emulation().in_every_order(test);
    }
    let is = |set: RingSet| std::ptr::eq(ring, Arc::as_ptr(set.ring()));
    let (threads, streams) = if is(RingSet::Fast) {
        (ThreadOrder::Forward, StreamOrder::LastFirst)
    } else if is(RingSet::Onion32) {
        (ThreadOrder::Reversed, StreamOrder::Eager)
    } else {
        (ThreadOrder::Shuffled, StreamOrder::Lazy)
    };
    emulation().with(Config { threads, streams, ..device() }, &mut test);
}

/// A ring of half the degree, with primes of different sizes, one of them too large for products of bytes to win.
static SHORT: LazyLock<Arc<Ring>> = LazyLock::new(|| {
    Arc::new(Ring::new(
        2048,
        &[Modulus::new(536_608_769), Modulus::new(134_176_769), Modulus::new(531_628_033)],
    ))
});

/// One with primes that leave little room above them.
static WIDE: LazyLock<Arc<Ring>> =
    LazyLock::new(|| Arc::new(Ring::new(2048, &[Modulus::new(1_073_692_673), Modulus::new(1_073_668_097)])));

#[derive(Clone, Copy, Debug)]
enum Data {
    Random(u8),
    Zeros,
    Largest,
    Alternating,
}

/// Polynomials below the primes.
fn polynomials(ring: &Ring, data: Data, count: usize) -> Vec<u32> {
    let mut words = vec![0; count * ring.words()];
    for (i, words) in words.chunks_exact_mut(ring.degree()).enumerate() {
        let prime = ring.limbs()[i % ring.limbs().len()].prime();
        match data {
            Data::Random(seed) => public_residues(&[seed; 32], i as u64, prime, words),
            Data::Zeros => {}
            Data::Largest => words.fill(prime.value() - 1),
            Data::Alternating => words.iter_mut().step_by(2).for_each(|word| *word = prime.value() - 1),
        }
    }
    words
}

#[test]
fn transforms_are_those_of_the_plans() {
    let rings = [RingSet::Fast.ring(), RingSet::Small.ring(), RingSet::Onion32.ring(), &SHORT, &WIDE];
    emulation().in_every_order(|| {
        let backend = CudaBackend::new(0).unwrap();
        for ring in rings {
            let tables = backend.tables(ring).unwrap();
            for data in [Data::Random(1), Data::Zeros, Data::Largest, Data::Alternating] {
                let coefficients = polynomials(ring, data, 2);
                let mut values = coefficients.clone();
                values.chunks_exact_mut(ring.words()).for_each(|polynomial| ring.forward(polynomial));
                let mut back = coefficients.clone();
                back.chunks_exact_mut(ring.words()).for_each(|polynomial| ring.inverse(polynomial));
                for butterfly in Butterfly::ALL {
                    for (direction, expected) in [(Direction::Forward, &values), (Direction::Inverse, &back)]
                    {
                        let buffer = backend.device().upload(&coefficients).unwrap();
                        transform_with(butterfly, direction, &tables, &buffer).unwrap();
                        let found = backend.device().main().read(&buffer.all()).unwrap();
                        assert!(found == *expected, "{butterfly:?} {direction:?} {data:?}");
                    }
                }
            }
        }
    });
}

/// A ring with gadgets, and random words that stand for keys: exact arithmetic needs no more.
struct Case {
    ring: Arc<Ring>,
    expansion: Gadget,
    conversion: Gadget,
    selector: Gadget,
}

impl Case {
    fn of(set: RingSet) -> Self {
        Self {
            ring: Arc::clone(set.ring()),
            expansion: set.expansion_gadget(),
            conversion: set.conversion_gadget(),
            selector: set.selector_gadget(),
        }
    }

    fn short() -> Self {
        Self {
            ring: Arc::clone(&SHORT),
            expansion: Gadget::Digits { levels: 14, base_log: 6, dropped: 0 },
            conversion: Gadget::Residues,
            selector: Gadget::Digits { levels: 2, base_log: 28, dropped: 29 },
        }
    }

    /// So many digits that sums of their products are settled on the way.
    fn wide() -> Self {
        let digits = |levels| Gadget::Digits { levels, base_log: 2, dropped: 60 - 2 * levels };
        Self { ring: Arc::clone(&WIDE), expansion: digits(13), conversion: digits(24), selector: digits(24) }
    }

    fn rows(&self, gadget: Gadget, sources: usize, data: Data) -> Vec<u32> {
        polynomials(&self.ring, data, 2 * sources * gadget.levels(&self.ring))
    }

    fn keys<B: RingBackend>(&self, backend: &B, tables: &B::Tables, levels: u32, data: Data) -> B::Keys {
        let (expansion, conversion) =
            (self.rows(self.expansion, levels as usize, data), self.rows(self.conversion, 2, data));
        let keys = EvaluationKeys {
            expansion_gadget: self.expansion,
            expansion: &expansion,
            conversion_gadget: self.conversion,
            conversion: &conversion,
        };
        backend.keys(tables, keys).unwrap()
    }

    /// Queries with keys of their own to their leaves, and each leaf by itself to bytes.
    fn expanded<B: RingBackend>(
        &self,
        backend: &B,
        tables: &B::Tables,
        leaves: usize,
        data: &[Data],
    ) -> Vec<u8> {
        let expansion = Expansion::covering(leaves);
        let keys: Vec<B::Keys> =
            data.iter().map(|&data| self.keys(backend, tables, expansion.levels(), data)).collect();
        let queries: Vec<Vec<u32>> = data.iter().map(|&data| polynomials(&self.ring, data, 2)).collect();
        let queries: Vec<(&B::Keys, &[u32])> = keys.iter().zip(queries.iter().map(Vec::as_slice)).collect();
        let expanded = backend.expand(tables, expansion, &queries).unwrap();
        let unit = |row: usize, column: usize, to: &mut [i32]| {
            to.fill(0);
            to[0] = i32::from(row == column);
        };
        let plain = backend.encode(tables, leaves, leaves, &unit).unwrap();
        let folded = backend.poly_fold(tables, &plain, &expanded).unwrap();
        backend.mod_switch(tables, &[&folded], ALL_BITS).unwrap().concat()
    }

    /// Ciphertexts that are a random one of each query times other plaintexts.
    fn ciphertexts<B: RingBackend>(
        &self,
        backend: &B,
        tables: &B::Tables,
        count: usize,
        queries: &[Data],
    ) -> B::Ciphertexts {
        let words: Vec<_> = queries.iter().map(|&data| polynomials(&self.ring, data, 2)).collect();
        let keys = self.keys(backend, tables, 0, Data::Random(0));
        let queries: Vec<(&B::Keys, &[u32])> = words.iter().map(|words| (&keys, &words[..])).collect();
        let leaves = backend.expand(tables, Expansion::covering(1), &queries).unwrap();
        let fill = |row: usize, _: usize, to: &mut [i32]| {
            to.iter_mut().enumerate().for_each(|(i, to)| {
                *to = match row {
                    0 => i32::MAX,
                    1 => i32::MIN,
                    _ => (i * (2 * row + 1) * 0x9e37_79b1) as i32,
                };
            });
        };
        let plain = backend.encode(tables, count, 1, &fill).unwrap();
        backend.poly_fold(tables, &plain, &leaves).unwrap()
    }

    /// A tournament for each query, with selectors from leaves, of which the first is not used.
    fn tournament<B: RingBackend>(
        &self,
        backend: &B,
        tables: &B::Tables,
        depth: usize,
        count: usize,
        data: &[Data],
    ) -> Vec<u8> {
        let leaves = 1 + depth * self.selector.levels(&self.ring);
        let expansion = Expansion::covering(leaves);
        let keys: Vec<B::Keys> =
            data.iter().map(|&data| self.keys(backend, tables, expansion.levels(), data)).collect();
        let words: Vec<_> = data.iter().map(|&data| polynomials(&self.ring, data, 2)).collect();
        let queries: Vec<(&B::Keys, &[u32])> = keys.iter().zip(words.iter().map(Vec::as_slice)).collect();
        let leaves = backend.expand(tables, expansion, &queries).unwrap();
        let keys: Vec<&B::Keys> = keys.iter().collect();
        let selectors = backend.selectors(tables, &keys, &leaves, 1, depth, self.selector).unwrap();
        let ciphertexts = self.ciphertexts(backend, tables, count, data);
        let winner = backend.rgsw_fold(tables, &selectors, ciphertexts).unwrap();
        backend.mod_switch(tables, &[&winner], ALL_BITS).unwrap().concat()
    }
}

/// Compares what both granularities make with what the processor makes.
fn compare(
    case: &Case,
    what: &str,
    on_cpu: impl Fn(&CpuBackend, &<CpuBackend as RingBackend>::Tables) -> Vec<u8>,
    on_cuda: impl Fn(&CudaBackend, &<CudaBackend as RingBackend>::Tables) -> Vec<u8>,
) {
    let cpu = CpuBackend::new(1).unwrap();
    let expected = on_cpu(&cpu, &cpu.tables(&case.ring).unwrap());
    in_orders(&case.ring, || {
        let backend = CudaBackend::new(0).unwrap();
        for granularity in GRANULARITIES {
            let tables = backend.tables(&case.ring).unwrap().with_granularity(granularity);
            assert!(on_cuda(&backend, &tables) == expected, "{what}, {granularity:?}");
        }
    });
}

fn compare_expansions(case: &Case, leaves: usize, data: &[Data]) {
    compare(
        case,
        &format!("{leaves} leaves of {data:?}"),
        |backend, tables| case.expanded(backend, tables, leaves, data),
        |backend, tables| case.expanded(backend, tables, leaves, data),
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

/// With few processors and many queries the trees are walked subtree by subtree.
#[test]
fn subtrees_agree_with_whole_trees() {
    let case = Case::short();
    let data: Vec<Data> = (0..4).map(Data::Random).collect();
    let cpu = CpuBackend::new(1).unwrap();
    let expected = case.expanded(&cpu, &cpu.tables(&case.ring).unwrap(), 11, &data);
    let config = Config { processors: 1, ..device() };
    emulation().with(config, || {
        let backend = CudaBackend::new(0).unwrap();
        let cache = backend.device().properties().l2_bytes;
        // What fits half of the cache is not split further: ciphertexts of 48 KiB.
        let tables = backend.tables(&case.ring).unwrap().with_cache(4 * 96 * 1024);
        assert!(cache > 4 * 96 * 1024);
        assert!(case.expanded(&backend, &tables, 11, &data) == expected);
    });
}

fn compare_tournaments(case: &Case, depth: usize, count: usize, data: &[Data]) {
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

/// What a batch of clients has of selectors of its own, by conversion keys of one gadget or another, and what is made of
/// the winners, which have gaps between them: with bodies, as matrices, and switched beside what has no gaps.
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

#[test]
fn sums_of_many_large_products_do_not_overflow() {
    for data in [Data::Random(7), Data::Largest] {
        compare_expansions(&Case::wide(), 2, &[data]);
        compare_tournaments(&Case::wide(), 1, 2, &[data]);
    }
}

#[test]
fn switching_agrees_with_its_definition() {
    /// Ciphertexts of each query in the parts that are switched together.
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

/// Words of folds by a matrix of other bytes as bodies: fewer than there are coefficients, and for the first ciphertext
/// alone all, without gaps.
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

#[test]
fn bodies_agree() {
    for (case, bits) in [
        (Case::of(RingSet::Fast), 18),
        (Case::of(RingSet::Onion32), 31),
        (Case::of(RingSet::Small), 7),
        (Case::short(), 1),
    ] {
        let expected = with_bodies(&NaiveBackend, &case, &case.ring, bits);
        in_orders(&case.ring, || {
            let backend = CudaBackend::new(0).unwrap();
            let tables = backend.tables(&case.ring).unwrap();
            assert!(with_bodies(&backend, &case, &tables, bits) == expected, "{bits} bits");
        });
    }
}

/// Every step is launched once, however many queries there are, with gaps between their ciphertexts too.
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
            let mut packed = backend.poly_fold(&tables, &plain, &leaves).unwrap();
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

/// Words that look random.
fn words(count: usize, seed: u32) -> Vec<u32> {
    let mixed = |i: u32| (i ^ seed << 20).wrapping_mul(0x9e37_79b1);
    (0..count as u32).map(|i| mixed(i) ^ mixed(i) >> 15).collect()
}

/// The bytes of ciphertexts switched to matrices, and what packing the matrices' folds with columns gives.
fn second_half<B: RingBackend>(
    backend: &B,
    case: &Case,
    tables: &B::Tables,
    (bits, folded): (SwitchedBits, FoldedBlocks),
) -> (Vec<u32>, Vec<u8>) {
    /// As many as there are leaves.
    const COLUMNS: usize = 3;
    let ring = &case.ring;
    let data = [Data::Random(3), Data::Largest];
    let ciphertexts = case.ciphertexts(backend, tables, 3, &data);
    let rows = bits.bytes(ring.degree()).max(folded.blocks * ring.degree() + 40);
    let layout = PanelLayout::covering(rows, 4).unwrap();
    let matrices = backend.reinterpret(tables, &ciphertexts, bits, layout).unwrap();
    // A row's four bytes are the bytes of a word.
    let own = [1, 1 << 8, 1 << 16, 1 << 24].repeat(data.len());
    let seen = backend.words(backend.scalar_fold_own(&matrices, &own).unwrap()).unwrap();

    let columns = backend.columns(layout, &words(COLUMNS * layout.columns(), 7)).unwrap();
    let expansion = Expansion::covering(COLUMNS);
    let keys = case.keys(backend, tables, expansion.levels(), Data::Random(4));
    let queries = [5, 6].map(|seed| polynomials(ring, Data::Random(seed), 2));
    let queries: Vec<(&B::Keys, &[u32])> = queries.iter().map(|words| (&keys, &words[..])).collect();
    let leaves = backend.expand(tables, expansion, &queries).unwrap();
    let mut bytes = Vec::new();
    // Later folds go where the first one was.
    for _ in 0..2 {
        let packed = backend.encode_fold(tables, &matrices, &columns, folded, &leaves).unwrap();
        bytes.extend(backend.mod_switch(tables, &[&packed], ALL_BITS).unwrap().concat());
    }
    (seen, bytes)
}

#[test]
fn second_halves_agree() {
    let bits = |a, b| SwitchedBits { a, b };
    let folded = |blocks, bits| FoldedBlocks { blocks, bits };
    for (case, shape) in [
        (Case::of(RingSet::Fast), (bits(18, 14), folded(1, 18))),
        (Case::of(RingSet::Onion32), (bits(1, 2), folded(1, 31))),
        (Case::of(RingSet::Small), (bits(7, 8), folded(1, 1))),
        (Case::short(), (bits(18, 14), folded(3, 17))),
    ] {
        let expected = second_half(&NaiveBackend, &case, &case.ring, shape);
        in_orders(&case.ring, || {
            let backend = CudaBackend::new(0).unwrap();
            let tables = backend.tables(&case.ring).unwrap();
            assert!(second_half(&backend, &case, &tables, shape) == expected, "{shape:?}");
        });
    }
}

/// From the ciphertexts of the first half to those of the second nothing comes to the host, and little goes from it.
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
            // Any ciphertexts may stand for leaves.
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
        // Of each of three times two queries the words, its matrix's address, and those of 64 queries' leaves and results.
        let sent = 3 * 2 * (4 * layout.columns() + 8 + 2 * 8 * 64) as u64;
        assert_eq!((copied.to_host, copied.to_device), (0, sent));
        assert_eq!((emulation.live(0), emulation.live_pinned()), (live, pinned));
    });
}

/// Queries alone take of the pool, which is reserved for them.
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

/// Small stages are done by operations, large ones as a whole, and the host never waits.
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
            ["ring_split_residues_2048", "ring_recombine", "ring_split_terms_2048", "ring_split_children"]
                .map(|name| emulation.launches(name))
                .into_iter()
                .chain([emulation.launches("ring_split_2048")])
                .collect::<Vec<_>>()
        };
        let tables = backend.tables(&case.ring).unwrap();
        assert_eq!(run(&tables), [2, 2, 2, 2, 0]);
        // One node is fewer than there are processors, two are not.
        assert_eq!(run(&tables.with_cache(1 << 20)), [1, 1, 1, 1, 1]);
    });
}

fn refused<T>(result: Result<T, BackendError>) -> bool {
    matches!(result, Err(BackendError::Shape(_)))
}

#[test]
fn shapes_that_do_not_fit_are_refused() {
    let case = Case::short();
    emulation().with(device(), || {
        let backend = CudaBackend::new(0).unwrap();
        let tables = backend.tables(&case.ring).unwrap();
        let keys = case.keys(&backend, &tables, 1, Data::Random(1));
        let words = polynomials(&case.ring, Data::Random(1), 2);
        let expand =
            |leaves, words: &[u32]| backend.expand(&tables, Expansion::covering(leaves), &[(&keys, words)]);
        assert!(refused(expand(3, &words)) && refused(expand(2, &words[1..])));
        let leaves = expand(2, &words).unwrap();
        let selectors =
            |first, depth| backend.selectors(&tables, &[&keys], &leaves, first, depth, case.selector);
        assert!(refused(selectors(1, 1)) && refused(selectors(0, 2)) && refused(selectors(0, usize::MAX)));
        let long = Gadget::Digits { levels: 25, base_log: 2, dropped: 0 };
        assert!(refused(backend.selectors(&tables, &[&keys], &leaves, 0, 1, long)));
        assert!(refused(backend.selectors(&tables, &[&keys, &keys], &leaves, 0, 1, case.selector)));
        let one = selectors(0, 1).unwrap();
        let ciphertexts = |count| case.ciphertexts(&backend, &tables, count, &[Data::Random(1)]);
        let pair = || case.ciphertexts(&backend, &tables, 2, &[Data::Random(1), Data::Random(2)]);
        assert!(refused(backend.rgsw_fold(&tables, &one, ciphertexts(3))));
        assert!(refused(backend.rgsw_fold(&tables, &one, pair())));
        for (a, b) in [(0, 8), (8, 57)] {
            assert!(refused(backend.mod_switch(&tables, &[&ciphertexts(1)], SwitchedBits { a, b })));
        }
        assert!(refused(backend.mod_switch(&tables, &[&ciphertexts(1), &pair()], ALL_BITS)));
        let layout = |rows, columns| PanelLayout::covering(rows, columns).unwrap();
        let matrix = backend.upload(layout(4096, 4), &vec![1; 4 * 4096]).unwrap();
        let folded = backend.scalar_fold(&matrix, &[1; 8]).unwrap();
        for (first, stride, bits) in [(0..4097, 0, 8), (0..4096, 4097, 8), (0..1, 1, 32), (4096..8193, 0, 8)]
        {
            let bodies = Bodies { first, stride };
            assert!(refused(backend.add_bodies(&tables, &mut pair(), &folded, &bodies, bits)), "{bodies:?}");
        }
        // Three ciphertexts of 2048 bytes.
        let bits = SwitchedBits { a: 4, b: 4 };
        let reinterpret =
            |count, bits, layout| backend.reinterpret(&tables, &ciphertexts(count), bits, layout);
        assert!(
            refused(reinterpret(3, bits, layout(2047 - 31, 3)))
                && refused(reinterpret(5, bits, layout(2048, 4)))
        );
        assert!(refused(reinterpret(3, SwitchedBits { a: 0, ..bits }, layout(2048, 3))));
        let matrices = reinterpret(3, bits, layout(2048, 3)).unwrap();
        assert!(
            refused(backend.scalar_fold_own(&matrices, &[1; 8]))
                && refused(backend.scalar_fold_own(&matrices, &[]))
        );
        assert!(
            refused(backend.columns(layout(2048, 3), &[1; 6]))
                && refused(backend.columns(layout(2048, 3), &[]))
        );
        let columns =
            |layout: PanelLayout, count| backend.columns(layout, &vec![1; count * layout.columns()]).unwrap();
        for (columns, blocks, bits) in [
            (columns(layout(4096, 4), 2), 1, 8),
            (columns(layout(2048, 4), 2), 0, 8),
            (columns(layout(2048, 4), 2), 2, 8),
            (columns(layout(2048, 4), 2), usize::MAX, 8),
            (columns(layout(2048, 4), 2), 1, 0),
            (columns(layout(2048, 4), 2), 1, 32),
            (columns(layout(2048, 4), 3), 1, 8),
        ] {
            let folded = FoldedBlocks { blocks, bits };
            assert!(refused(backend.encode_fold(&tables, &matrices, &columns, folded, &leaves)));
            assert!(refused(backend.encode_fold(&tables, &matrices, &columns, folded, &pair())));
        }
        let keys = EvaluationKeys {
            expansion_gadget: case.expansion,
            expansion: &words[..7],
            conversion_gadget: case.conversion,
            conversion: &[],
        };
        assert!(refused(backend.keys(&tables, keys)));
        let empty = backend.keys(&tables, EvaluationKeys { expansion: &[], ..keys }).unwrap();
        assert!(refused(backend.selectors(&tables, &[&empty], &leaves, 0, 1, case.selector)));
        let other = Arc::new(Ring::new(1024, &[Modulus::new(134_176_769)]));
        assert!(matches!(backend.tables(&other), Err(BackendError::Unavailable(_))));
    });
}

/// The same shapes take the same room, and nothing stays.
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
