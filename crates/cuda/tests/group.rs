//! Groups of devices agree with a single backend, bit for bit, under every strategy.

use spirea_backend::{
    Backend as _, BackendError, Bodies, EvaluationKeys, FileRows, FoldedBlocks, Links, NaiveBackend,
    PanelLayout, ProtocolBackend, RING_DEGREE, Residence, RingBackend, RingMatrix, RowLayout, ShareFold,
    StoredFile, Strategy, SwitchedBits,
};
use spirea_conformance::{Count, Form, is_drawn};
use spirea_cpu::CpuBackend;
use spirea_cuda::DeviceGroup;
use spirea_cuda_emulation::{Config, Emulation, StreamOrder};
use spirea_dpf::{Domain, Key, OutputKind, PrfKind, select};
use spirea_lattice::RingSet;
use spirea_lattice::rlwe::{Conversion, KeyShape, RingSecret, parse_query};
use spirea_math::random::{SecretRng, Seed, public_residues};
use spirea_math::{Expansion, Rotations};

/// Number of queries of a batch. It exceeds the number of devices and is not a multiple of it.
const BATCH: usize = 5;
const SET: RingSet = RingSet::Fast;
/// Number of leaves that rows are folded with.
const COLUMNS: usize = 3;
/// Number of ciphertexts of a tournament. With four devices, the last device has fewer rows than
/// the others.
const ROWS: usize = 7;

/// Runs a test on four devices, alone in this process. The devices multiply words: products of
/// bytes take longer to emulate and have their own tests.
fn emulated(streams: StreamOrder, peers: bool, test: impl FnOnce(&Emulation)) {
    let config =
        Config { devices: 4, memory: 512 << 20, compute: (8, 6), streams, peers, ..Config::default() };
    let emulation = Emulation::install(config);
    emulation.with(config, || test(emulation));
}

fn bytes(count: usize, seed: u32) -> Vec<u8> {
    words(count.div_ceil(4), seed).iter().flat_map(|word| word.to_le_bytes()).take(count).collect()
}

fn words(count: usize, seed: u32) -> Vec<u32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state ^ state >> 15
    };
    (0..count).map(|_| next()).collect()
}

/// Returns the results of folds of matrices: words of answers, then a product with a public matrix.
fn folds<B: ProtocolBackend>(backend: &B) -> Vec<Vec<u32>> {
    let mut results = Vec::new();
    for (rows, columns) in [(32, 64), (160, 36), (320, 256)] {
        let layout = PanelLayout::covering(rows, columns).unwrap();
        let content = bytes(layout.bytes(), rows as u32);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &content).unwrap();
        let uploaded = backend.upload(layout, &content).unwrap();
        let opened =
            backend.open(FileRows::all(layout, &StoredFile::at(file.path()), Residence::Copied)).unwrap();
        for batch in [1, BATCH, 33] {
            let queries = words(batch * layout.columns(), batch as u32);
            for matrix in [&uploaded, &opened] {
                assert_eq!(backend.layout(matrix), layout);
                results.push(backend.words(backend.scalar_fold(matrix, &queries).unwrap()).unwrap());
            }
        }
        assert!(backend.scalar_fold(&uploaded, &vec![0; layout.columns() + 1]).is_err());
        if columns == RING_DEGREE {
            let a = RingMatrix { coefficients: &words(2 * RING_DEGREE, 5), block_rows: 1, rank: 2 };
            results.push(backend.module_fold(&opened, a).unwrap());
        }
        std::fs::write(file.path(), &content[1..]).unwrap();
        assert!(
            backend.open(FileRows::all(layout, &StoredFile::at(file.path()), Residence::Copied)).is_err()
        );
    }
    results
}

/// Keys and queries of a batch of clients, the same for every backend.
struct Clients {
    expansion: Expansion,
    depth: usize,
    keys: Vec<(Vec<u32>, Vec<u32>)>,
    queries: Vec<Vec<u32>>,
}

impl Clients {
    fn new(rows: usize) -> Self {
        let depth = rows.next_power_of_two().trailing_zeros() as usize;
        let leaves = COLUMNS + depth * SET.selector_gadget().levels(SET.ring());
        let expansion = Expansion::covering(leaves);
        let shape =
            KeyShape { set: SET, levels: expansion.levels(), rotations: None, conversion: Conversion::Rgsw };
        let mut rng = SecretRng::deterministic_for_tests(3);
        let (mut keys, mut queries) = (Vec::new(), Vec::new());
        for _ in 0..BATCH {
            let secret = RingSecret::sample(SET, &mut rng);
            let words = shape.parse(&secret.evaluation_keys(&shape, &mut rng)).unwrap();
            keys.push((words.expansion, words.conversion));
            let query = secret.encrypt_leaves(expansion, &[(SET.scale(), 1)], &mut rng);
            queries.push(parse_query(SET, &query).unwrap());
        }
        Self { expansion, depth, keys, queries }
    }

    /// Returns the results of the ring steps: switched ciphertexts, before and after a tournament.
    fn steps<B: ProtocolBackend>(&self, backend: &B, rows: usize) -> Vec<Vec<u8>> {
        let tables = backend.tables(SET.ring()).unwrap();
        let keys: Vec<_> = self
            .keys
            .iter()
            .map(|(expansion, conversion)| EvaluationKeys {
                expansion_gadget: SET.expansion_gadget(),
                expansion,
                rotations: &[],
                conversion_gadget: SET.conversion_gadget(),
                conversion,
            })
            .map(|keys| backend.keys(&tables, keys).unwrap())
            .collect();
        let queries: Vec<_> =
            keys.iter().zip(&self.queries).map(|(keys, words)| (keys, &words[..])).collect();
        let leaves = backend.expand(&tables, self.expansion, &queries).unwrap();
        let fill = |row: usize, column: usize, to: &mut [i32]| {
            let values = words(to.len(), (row * COLUMNS + column) as u32);
            to.iter_mut().zip(values).for_each(|(to, value)| *to = value as i32);
        };
        let plain = backend.encode(&tables, rows, COLUMNS, &fill).unwrap();
        let packed = || backend.poly_fold(&tables, std::slice::from_ref(&plain), &leaves).unwrap();

        // Bodies are words of a fold. Each query's words are added to its ciphertexts. Either there
        // is a word for every coefficient, or there are fewer words.
        let count = rows * SET.ring().degree();
        let layout = PanelLayout::covering(count, 4).unwrap();
        let matrix = backend.upload(layout, &bytes(layout.bytes(), 9)).unwrap();
        // There is one answer more than queries: the bodies begin with the first answer or with the
        // second, which may be on another device.
        let folded = backend.scalar_fold(&matrix, &words((BATCH + 1) * layout.columns(), 8)).unwrap();
        let bits = SwitchedBits { a: SET.response_bits().0, b: SET.response_bits().1 };
        let mut results = Vec::new();
        let keys: Vec<_> = keys.iter().collect();
        let gadget = SET.selector_gadget();
        for first in [0..count, count..2 * count - 9] {
            let mut ciphertexts = packed();
            let bodies = Bodies { first, stride: count };
            backend.add_bodies(&tables, &mut ciphertexts, &folded, &bodies, 18).unwrap();
            results.extend(backend.mod_switch(&tables, &[&ciphertexts, &packed()], bits).unwrap());
            if self.depth > 0 {
                let selectors =
                    backend.selectors(&tables, &keys, &leaves, COLUMNS, self.depth, gadget).unwrap();
                let winners = backend.rgsw_fold(&tables, &selectors, ciphertexts).unwrap();
                results.extend(backend.mod_switch(&tables, &[&winners], bits).unwrap());
            }
        }
        let beyond = Bodies { first: 0..count + 1, stride: count };
        assert!(backend.add_bodies(&tables, &mut packed(), &folded, &beyond, 18).is_err());
        results
    }
}

impl Clients {
    /// Returns the results of packing the folds of switched ciphertexts.
    fn second_halves<B: ProtocolBackend>(&self, backend: &B) -> Vec<Vec<u8>> {
        const BLOCKS: usize = 3;
        const QUERIES: usize = 3;
        let tables = backend.tables(SET.ring()).unwrap();
        let keys: Vec<_> = self
            .keys
            .iter()
            .map(|(expansion, _)| EvaluationKeys {
                expansion_gadget: SET.expansion_gadget(),
                expansion,
                rotations: &[],
                conversion_gadget: SET.conversion_gadget(),
                conversion: &[],
            })
            .map(|keys| backend.keys(&tables, keys).unwrap())
            .collect();
        let queries: Vec<_> =
            keys.iter().zip(&self.queries).map(|(keys, words)| (keys, &words[..])).take(QUERIES).collect();
        let leaves = backend.expand(&tables, self.expansion, &queries).unwrap();
        let fill = |row: usize, column: usize, to: &mut [i32]| {
            let values = words(to.len(), (row * COLUMNS + column) as u32);
            to.iter_mut().zip(values).for_each(|(to, value)| *to = value as i32 >> 14);
        };
        let plain = backend.encode(&tables, ROWS, COLUMNS, &fill).unwrap();
        let packed = backend.poly_fold(&tables, std::slice::from_ref(&plain), &leaves).unwrap();

        let bits = SwitchedBits { a: SET.response_bits().0, b: SET.response_bits().1 };
        let layout = PanelLayout::covering(BLOCKS * SET.ring().degree(), ROWS).unwrap();
        let layout = PanelLayout::covering(bits.bytes(SET.ring().degree()).max(layout.rows()), ROWS).unwrap();
        let columns = backend.columns(layout, &words(COLUMNS * layout.columns(), 3)).unwrap();
        let matrices = backend.reinterpret(&tables, &packed, bits, layout).unwrap();
        let mut results = Vec::new();
        for blocks in [BLOCKS, 1] {
            let folded = FoldedBlocks { blocks, bits: 18 };
            let own = words(QUERIES * layout.columns(), blocks as u32);
            let answers = backend.scalar_fold_own(&matrices, &own).unwrap();
            let mut second = backend.encode_fold(&tables, &matrices, &columns, folded, &leaves).unwrap();
            let bodies = Bodies { first: 0..blocks * SET.ring().degree(), stride: layout.rows() };
            backend.add_bodies(&tables, &mut second, &answers, &bodies, 18).unwrap();
            results.extend(backend.mod_switch(&tables, &[&second], bits).unwrap());
            let words = backend.words(answers).unwrap();
            results.push(words.iter().flat_map(|word| word.to_le_bytes()).collect());
        }
        results
    }
}

#[test]
fn second_halves_agree() {
    let clients = Clients::new(1);
    let expected = clients.second_halves(&CpuBackend::new(1).unwrap());
    let configurations = [(2, StreamOrder::Lazy, true), (4, StreamOrder::LastFirst, false)];
    for (place, (devices, streams, peers)) in configurations.into_iter().enumerate() {
        emulated(streams, peers, |_| {
            for group in groups_in_turns(place, devices) {
                let found = clients.second_halves(&group);
                let wrong = found.iter().zip(&expected).position(|(found, expected)| found != expected);
                assert_eq!(wrong, None, "{devices} devices, {}", group.strategy());
            }
        });
    }
}

#[test]
fn packings_by_rotations_agree() {
    let expected = packed_by_rotations(&NaiveBackend);
    let configurations = [(2, StreamOrder::Lazy, true), (4, StreamOrder::LastFirst, false)];
    for (place, (devices, streams, peers)) in configurations.into_iter().enumerate() {
        emulated(streams, peers, |_| {
            for group in groups_in_turns(place, devices) {
                let found = packed_by_rotations(&group);
                let wrong = found.iter().zip(&expected).position(|(found, expected)| found != expected);
                assert_eq!(wrong, None, "{devices} devices, {}", group.strategy());
            }
        });
    }
}

/// Returns the results of folds by shares, with keys of the whole domain and of a part of it.
fn shares<B: ProtocolBackend>(backend: &B, keys: &[(OutputKind, usize, Vec<Key>)]) -> Vec<Vec<u8>> {
    let layout = RowLayout::new(1300, 24, 2).unwrap();
    let content = bytes(layout.bytes(), 4);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &content).unwrap();
    let uploaded = backend.upload_rows(layout, &content).unwrap();
    let opened =
        backend.open_rows(FileRows::all(layout, &StoredFile::at(file.path()), Residence::Copied)).unwrap();
    let mut results = Vec::new();
    for (_, first_row, keys) in keys {
        for rows in [&uploaded, &opened] {
            assert_eq!(backend.row_layout(rows), layout);
            results.push(backend.share_fold(rows, *first_row, PrfKind::ChaCha12, keys).unwrap());
        }
    }
    // Two bins of 650 rows; no device's share ends within a leaf of either bin.
    let layout = layout.in_bins(2).unwrap();
    let rows =
        backend.open_rows(FileRows::all(layout, &StoredFile::at(file.path()), Residence::Copied)).unwrap();
    let of_bins =
        keys.iter().filter(|(_, first_row, keys)| *first_row == 0 && keys[0].domain().points() == 650);
    for (_, _, keys) in of_bins {
        let folds = [(0, 0), (650, 1)].map(|(first_row, key)| ShareFold { first_row, keys: &keys[key..] });
        results.push(backend.share_folds(&rows, PrfKind::ChaCha12, &folds).unwrap());
    }
    results
}

fn keys_of_shares() -> Vec<(OutputKind, usize, Vec<Key>)> {
    let mut rng = SecretRng::deterministic_for_tests(6);
    let mut keys = Vec::new();
    for output in [OutputKind::Bit, OutputKind::U32, OutputKind::U64] {
        for (first_row, points) in [(0, 1300), (0, 200), (600, 300), (0, 650)] {
            let domain = Domain::new(points, output).unwrap();
            let mut key = |point| {
                let [_, key] = select(PrfKind::ChaCha12, domain, point, &mut rng).unwrap();
                key
            };
            keys.push((output, first_row, (0..3).map(|i| key(i * 70)).collect()));
        }
    }
    keys
}

/// Returns the results of packing by rotations and of selecting, with keys of random words. They
/// are products with one or several matrices, sums of rotated products within devices and across
/// them, and the winners of a tournament between the sums.
fn packed_by_rotations<B: RingBackend>(backend: &B) -> Vec<Vec<u32>> {
    const LEVELS: u32 = 1;
    const DEPTH: usize = 2;
    let ring = SET.ring();
    let rotations = Rotations::new(8, 1, 2);
    let residues = |count: usize, seed: u8| {
        let mut words = vec![0; 2 * count * ring.words()];
        for (i, values) in words.chunks_exact_mut(ring.degree()).enumerate() {
            public_residues(
                &Seed::new([seed; 32]),
                i as u64,
                ring.limbs()[i % ring.limbs().len()].prime(),
                values,
            );
        }
        words
    };
    let selector = SET.selector_gadget();
    let further = Expansion::further(LEVELS, DEPTH * selector.levels(ring));
    let levels = (LEVELS + further.levels()) as usize;
    let of_key = SET.expansion_gadget().levels(ring);
    let tables = backend.tables(ring).unwrap();
    let keys = |client: u8| {
        let keys = EvaluationKeys {
            expansion_gadget: SET.expansion_gadget(),
            expansion: &residues(levels * of_key, 3 * client),
            rotations: &residues(Rotations::KEYS * of_key, 3 * client + 1),
            conversion_gadget: SET.conversion_gadget(),
            conversion: &residues(2 * SET.conversion_gadget().levels(ring), 3 * client + 2),
        };
        backend.keys(&tables, keys).unwrap()
    };
    let keys: Vec<B::Keys> = (0..BATCH as u8).map(keys).collect();
    let queries: Vec<_> = (0..BATCH as u8).map(|client| residues(1, 100 + client)).collect();
    let queries: Vec<(&B::Keys, &[u32])> = keys.iter().zip(queries.iter().map(Vec::as_slice)).collect();
    let keys: Vec<&B::Keys> = keys.iter().collect();

    let leaves = backend.expand(&tables, Expansion::partial(LEVELS, 2), &queries).unwrap();
    let images = backend.rotate(&tables, rotations, &keys, &leaves).unwrap();
    let bits = backend.expand_leaf(&tables, further, &keys, &leaves, 1).unwrap();
    let selectors = backend.selectors(&tables, &keys, &bits, 0, DEPTH, selector).unwrap();
    let sent: Vec<u32> = queries.iter().flat_map(|(_, words)| *words).copied().collect();
    let sent = backend.leaves(&tables, BATCH, &sent).unwrap();
    let ones = backend.encode(&tables, 4, 1, &|row, _, to| to.fill(row as i32)).unwrap();
    let of_sent = backend.poly_fold(&tables, &[ones], &sent).unwrap();
    let mut results = vec![backend.ciphertext_words(&tables, &of_sent).unwrap()];
    // Each of four devices has single terms of sums; with the rows of both matrices, it has whole
    // sums. Each of two devices always has whole sums.
    for rows in [&[4][..], &[4, 2]] {
        let plain = |&rows: &usize| {
            let fill = |row: usize, column: usize, to: &mut [i32]| {
                let values = words(to.len(), (10 * rows + 7 * row + column) as u32);
                to.iter_mut().zip(values).for_each(|(to, value)| *to = value as i32);
            };
            backend.encode(&tables, rows, rotations.leaves(), &fill).unwrap()
        };
        let plain: Vec<B::Plain> = rows.iter().map(plain).collect();
        let products = backend.poly_fold(&tables, &plain, &images).unwrap();
        results.push(backend.ciphertext_words(&tables, &products).unwrap());
        let sums = backend.sum_rotated(&tables, rotations, &keys, products).unwrap();
        results.push(backend.ciphertext_words(&tables, &sums).unwrap());
        let winners = backend.rgsw_fold(&tables, &selectors, sums).unwrap();
        results.push(backend.ciphertext_words(&tables, &winners).unwrap());
    }
    let shape = |result: Result<B::Ciphertexts, _>| matches!(result, Err(BackendError::Shape(_)));
    let products = || backend.ciphertexts(&tables, BATCH, &residues(3 * BATCH, 9)).unwrap();
    assert!(shape(backend.sum_rotated(&tables, rotations, &keys, products())));
    assert!(shape(backend.sum_rotated(&tables, rotations, &keys[1..], products())));
    results
}

/// Returns the groups for a test that takes seconds: strategies alternate between two numbers of
/// devices. The short and the full form draw one of the numbers; SPIREA_CONFORMANCE=long runs both
/// for each strategy.
fn groups_in_turns(place: usize, devices: usize) -> impl Iterator<Item = DeviceGroup> {
    const PLACES: [&str; 2] = ["two devices", "four devices"];
    let is_drawn = is_drawn("groups of devices", &PLACES, Count { short: 1, full: 1 }, PLACES[place]);
    let chosen = move |i: usize| Form::of_environment() == Form::Long || is_drawn && i % 2 == place;
    groups(devices).enumerate().filter(move |&(i, _)| chosen(i)).map(|(_, group)| group)
}

fn groups(devices: usize) -> impl Iterator<Item = DeviceGroup> {
    let ordinals: Vec<usize> = (0..devices).rev().collect();
    Strategy::ALL.into_iter().map(move |strategy| DeviceGroup::new(&ordinals, strategy).unwrap())
}

#[test]
fn folds_of_matrices_agree() {
    let expected = folds(&CpuBackend::new(1).unwrap());
    for (devices, streams, peers) in
        [(2, StreamOrder::Lazy, true), (4, StreamOrder::LastFirst, false), (1, StreamOrder::Eager, true)]
    {
        emulated(streams, peers, |_| {
            for group in groups(devices) {
                assert!(folds(&group) == expected, "{devices} devices, {}", group.strategy());
            }
        });
    }
}

#[test]
fn steps_on_rings_agree() {
    let cpu = CpuBackend::new(2).unwrap();
    let clients = Clients::new(ROWS);
    let expected = clients.steps(&cpu, ROWS);
    let configurations = [(2, StreamOrder::LastFirst), (4, StreamOrder::Lazy)];
    for (place, (devices, streams)) in configurations.into_iter().enumerate() {
        emulated(streams, devices == 2, |_| {
            for group in groups_in_turns(place, devices) {
                assert!(clients.steps(&group, ROWS) == expected, "{devices} devices, {}", group.strategy());
            }
        });
    }
}

#[test]
fn folds_by_shares_agree() {
    let keys = keys_of_shares();
    let expected = shares(&CpuBackend::new(1).unwrap(), &keys);
    for (devices, streams) in [(2, StreamOrder::LastFirst), (3, StreamOrder::Lazy)] {
        emulated(streams, true, |_| {
            for group in groups(devices).filter(|group| group.strategy() != Strategy::Aggregate) {
                assert!(shares(&group, &keys) == expected, "{devices} devices, {}", group.strategy());
            }
        });
    }
}

#[test]
fn exchanges_copy_between_devices_and_replicas_do_not() {
    let layout = PanelLayout::covering(128, 64).unwrap();
    emulated(StreamOrder::Eager, true, |emulation| {
        for group in groups(2) {
            assert_eq!(group.links(), Links::Direct);
            let matrix = group.upload(layout, &bytes(layout.bytes(), 1)).unwrap();
            emulation.reset();
            let folded = group.scalar_fold(&matrix, &words(4 * layout.columns(), 2)).unwrap();
            group.words(folded).unwrap();
            // Each device gets the other device's half of its two answers.
            let expected = if group.strategy() == Strategy::Replicate { 0 } else { 2 * 2 * 64 * 4 };
            let copied = emulation.copied();
            assert_eq!((copied.between_devices, copied.staged), (expected, 0), "{}", group.strategy());
        }
    });
}

#[test]
fn replicas_encode_polynomials_once_and_copy_them() {
    emulated(StreamOrder::Eager, true, |emulation| {
        for group in groups(3) {
            let tables = group.tables(SET.ring()).unwrap();
            emulation.reset();
            let plain = group.encode(&tables, 8, 1, &|row, _, to| to.fill(row as i32)).unwrap();
            for member in group.members() {
                member.device().main().synchronize().unwrap();
            }
            let divided = matches!(group.strategy(), Strategy::Aggregate | Strategy::Gather);
            let (launches, copies) = if divided { (2, 0) } else { (1, 2) };
            assert_eq!(emulation.launches("ring_encode_4096"), launches, "{}", group.strategy());
            // A row takes at least one step of 32 columns.
            let bytes = (8 * 32 * SET.ring().words() * 4) as u64;
            let copied = emulation.copied();
            assert_eq!((copied.between_devices, copied.staged), (copies * bytes, 0), "{}", group.strategy());
            let coefficients = (8 * SET.ring().degree() * 4) as u64;
            assert_eq!(copied.to_device, coefficients, "{}", group.strategy());
            drop(plain);
        }
    });
}

#[test]
fn groups_of_the_same_devices_go_on_with_the_same_keys() {
    emulated(StreamOrder::Eager, true, |_| {
        let group = DeviceGroup::new(&[0, 1], Strategy::Replicate).unwrap();
        for strategy in Strategy::ALL {
            assert_eq!(group.with_strategy(strategy).id(), group.id());
        }
        assert_ne!(DeviceGroup::new(&[0, 1], Strategy::Replicate).unwrap().id(), group.id());
        assert!(group.members().iter().all(|member| member.id() != group.id()));
    });
}

#[test]
fn groups_name_devices_once() {
    emulated(StreamOrder::Eager, false, |_| {
        for ordinals in [&[][..], &[0, 0], &[0, 4]] {
            assert!(DeviceGroup::new(ordinals, Strategy::Replicate).is_err(), "{ordinals:?}");
        }
        let group = DeviceGroup::new(&[1, 0], Strategy::Gather).unwrap();
        assert_eq!((group.members()[0].device().ordinal(), group.links()), (1, Links::Host));
    });
}
