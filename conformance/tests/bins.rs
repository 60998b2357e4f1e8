//! Partial batch retrieval through the bytes on the wire: one record from each bin, for the work of
//! a single look-up.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use spirea_backend::{BackendError, NaiveBackend, Observed, Observer, Operation};
use spirea_conformance::{
    Content, Count, Setup, is_drawn, look_ups_agree, malformed_queries_are_refused, queries_share_nothing,
    records_decode, setup, setup_of, setup_prepared_by, slices, with_grid,
};
use spirea_cpu::{CpuBackend, Isa};
use spirea_dpf::{Domain, OutputKind, PrfKind};
use spirea_math::random::{SecretRng, Seed};
use spirea_protocols::choice::{Choice, KeyDelivery, Words};
use spirea_protocols::keyword::{Bucket, Copies, KeyHash};
use spirea_protocols::registry::{NAMES, ProtocolParams};
use spirea_protocols::table::Fetched;
use spirea_protocols::{Prepared, ProtocolError, Table, TableClient, TableKind};

/// Protocols whose tables may have bins.
const WITH_BINS: [&str; 3] = ["exppack-simple", "dpf-xor", "dpf-sum"];

fn choice(protocol: &str, bins: usize) -> Choice {
    Choice { protocol: protocol.into(), bins, ..Choice::default() }
}

fn choose(protocol: &str, records: u64, record_bytes: usize, bins: usize) -> ProtocolParams {
    ProtocolParams::choose(&choice(protocol, bins), Seed::new([7; 32]), records, record_bytes).unwrap()
}

fn cpu() -> Arc<CpuBackend> {
    Arc::new(CpuBackend::new(2).unwrap())
}

/// Answers several queries as one batch. For each query, checks the wanted records and the records
/// of all bins.
fn fetch(setup: &Setup, batch: &[Vec<u64>], rng: &mut SecretRng) {
    let (bins, sizes) = (setup.client.bins(), setup.params.sizes);
    let chosen: Vec<_> = batch.iter().map(|wanted| bins.choose(wanted, rng).unwrap()).collect();
    let prepared = chosen.iter().map(|chosen| setup.client.query_bins(&chosen.records, rng).unwrap());
    let (queries, states): (Vec<_>, Vec<_>) =
        prepared.map(|Prepared { queries, state }| (queries, state)).unzip();
    assert!(queries.iter().flatten().all(|query| query.len() == sizes.query_bytes));
    let answers = setup.answers(&queries);
    for (((wanted, chosen), state), answers) in batch.iter().zip(&chosen).zip(states).zip(answers) {
        assert!(answers.iter().all(|answer| answer.len() == sizes.answer_bytes));
        let found = setup.client.decode_bins(state, &slices(&answers)).unwrap();
        let expected: Vec<&[u8]> =
            chosen.records.iter().map(|&index| &setup.records[index as usize][..]).collect();
        assert!(*found == expected.concat(), "{wanted:?} of {:?}", setup.params);
        let brought = wanted.iter().zip(&chosen.brought).filter(|(_, brought)| **brought);
        assert!(brought.map(|(index, _)| index).all(|index| chosen.records.contains(index)));
    }
}

/// Names of [`packed`] tables. Each name is the property that distinguishes its table.
const PACKED: [&str; 8] = [
    "a unit per record",
    "units of several records",
    "records of several units",
    "bins of several blocks",
    "packing by expansion",
    "a set of rank 6",
    "keys in the query",
    "large records and keys in the query",
];

/// Returns a small table of `exppack-simple`.
fn packed(name: &str) -> ProtocolParams {
    let packed = |keys, ring: &str, set: &str, (records, record_bytes, bins)| {
        let (ring, set) = (Some(ring.into()), Some(set.into()));
        let choice = Choice { keys, ring, set, ..choice("exppack-simple", bins) };
        ProtocolParams::choose(&choice, Seed::new([7; 32]), records, record_bytes).unwrap()
    };
    let registered = |ring, shape| packed(KeyDelivery::Registered, ring, "module-1280", shape);
    let brought = |ring, shape| packed(KeyDelivery::PerQuery, ring, "module-1280", shape);
    match PACKED.iter().position(|&other| other == name).unwrap() {
        0 => registered("fast", (75, 33, 75)),
        1 => registered("brief", (120, 40, 7)),
        2 => registered("small", (3, 9000, 2)),
        3 => with_grid(&registered("brief", (240, 40, 3)), &[("unit_rows", 2080)]),
        4 => packed(KeyDelivery::Registered, "paper", "paper", (40, 3, 2)),
        5 => packed(KeyDelivery::Registered, "brief", "module-1536", (50, 100, 8)),
        6 => brought("brief", (120, 40, 7)),
        _ => brought("fast", (3, 5000, 3)),
    }
}

/// Returns the small tables of `exppack-simple` that the tests' form draws.
fn drawn(what: &str, count: Count) -> impl Iterator<Item = ProtocolParams> {
    PACKED.into_iter().filter(move |name| is_drawn(what, &PACKED, count, name)).map(packed)
}

/// Returns small tables. Their bins have one row, part of a leaf, or several leaves. The last bins
/// have fewer records, or none. A row has several records, or a record has several rows.
fn small() -> Vec<ProtocolParams> {
    let mut all = Vec::new();
    for protocol in ["dpf-xor", "dpf-sum"] {
        for (records, record_bytes, bins) in
            [(1200, 40, 7), (1300, 33, 2), (40, 3, 40), (10, 20, 7), (5, 9000, 2), (100, 24, 1)]
        {
            all.push(choose(protocol, records, record_bytes, bins));
        }
    }
    let words = Choice { words: Words::U64, prf: PrfKind::ChaCha12, ..choice("dpf-sum", 9) };
    all.push(ProtocolParams::choose(&words, Seed::new([7; 32]), 300, 52).unwrap());
    let shared = serde_json::json!({
        "protocol": "dpf-xor", "prf": "aes-128", "shares": "bit", "bins": 3,
        "grid": { "records": 40, "record_bytes": 24, "unit_rows": 72, "groups": 1, "columns": 15 }
    });
    all.push(ProtocolParams::from_json(shared.to_string().as_bytes()).unwrap());
    all
}

#[test]
fn every_record_of_small_tables() {
    let mut rng = SecretRng::from_os().unwrap();
    for params in small().into_iter().chain(drawn("small tables in packed bins", Count { short: 1, full: 2 }))
    {
        assert_eq!(ProtocolParams::from_json(&params.to_json()).unwrap(), params);
        let setup = setup(&cpu(), &params, Content::Random(3));
        records_decode(&setup, &(0..params.records()).collect::<Vec<_>>(), &mut rng);
        malformed_queries_are_refused(&setup, &mut rng);
        queries_share_nothing(&setup, &mut rng);
        let bins = setup.client.bins();
        // Each query takes the same position of every bin; together, the queries of a batch cover
        // all positions.
        let of_place = |place: u64| -> Vec<u64> {
            let bins_there = (0..bins.count()).filter(|&bin| place < bins.bin_records(bin));
            bins_there.map(|bin| bins.record(bin, place)).collect()
        };
        let most = (0..bins.count()).map(|bin| bins.bin_records(bin)).max().unwrap();
        let batch: Vec<Vec<u64>> = (0..most).map(of_place).collect();
        for batch in batch.chunks(setup.max_batch().min(64)) {
            fetch(&setup, batch, &mut rng);
        }
        fetch(&setup, &[vec![], vec![0; 5], (0..params.records()).collect()], &mut rng);
    }
}

#[test]
fn random_records_of_large_tables_on_every_instruction_set() {
    let mut rng = SecretRng::from_os().unwrap();
    for (protocol, records, record_bytes, bins) in
        [("dpf-xor", 100_000, 40, 97), ("dpf-sum", 60_000, 64, 13), ("exppack-simple", 60_000, 64, 21)]
    {
        let params = choose(protocol, records, record_bytes, bins);
        for isa in Isa::available() {
            let backend = Arc::new(CpuBackend::with_isa(isa, 2).unwrap());
            let setup = setup(&backend, &params, Content::Random(4));
            let mut random = |count| (0..count).map(|_| rng.next_u64() % records).collect::<Vec<u64>>();
            let batch: Vec<_> = [1, 10, 100, 0, 300].into_iter().map(&mut random).collect();
            for batch in batch.chunks(setup.max_batch()) {
                fetch(&setup, batch, &mut SecretRng::from_os().unwrap());
            }
        }
    }
}

#[test]
fn answers_are_those_of_the_definition() {
    let mut rng = SecretRng::from_os().unwrap();
    let packed = drawn("packed bins by definition", Count { short: 1, full: 1 });
    for params in small().into_iter().chain(packed) {
        let naive = setup(&Arc::new(NaiveBackend), &params, Content::Random(6));
        look_ups_agree(&naive, &setup(&cpu(), &params, Content::Random(6)), &[0, 2], &mut rng);
    }
}

#[test]
fn one_bin_is_no_bins() {
    for protocol in WITH_BINS {
        let (one, none) =
            (choose(protocol, 1000, 40, 1), Choice { protocol: protocol.into(), ..Choice::default() });
        assert_eq!(one, ProtocolParams::choose(&none, Seed::new([7; 32]), 1000, 40).unwrap());
        assert!(!String::from_utf8(one.to_json()).unwrap().contains("bins"));
        assert_eq!(one.bins, 1);
        let setup = setup(&cpu(), &one, Content::Random(1));
        let rng = || SecretRng::deterministic_for_tests(5);
        let query = setup.client.query(17, &mut rng()).unwrap().queries;
        assert!(query == setup.client.query_bins(&[17], &mut rng()).unwrap().queries);
    }
}

/// Counts of fold operations and of their keys (queries times bins).
#[derive(Default)]
struct Folds {
    operations: AtomicUsize,
    keys: AtomicUsize,
}

impl Observer for Folds {
    fn observe<T>(
        &self,
        operation: Operation,
        work: impl FnOnce() -> Result<T, BackendError>,
    ) -> Result<T, BackendError> {
        if let Operation::ShareFold { keys, .. } = operation {
            self.operations.fetch_add(1, Ordering::Relaxed);
            self.keys.fetch_add(keys, Ordering::Relaxed);
        }
        work()
    }
}

#[test]
fn all_bins_of_a_batch_are_one_scan() {
    let mut rng = SecretRng::from_os().unwrap();
    let params = choose("dpf-xor", 1000, 40, 10);
    let watched = Arc::new(Observed::<_, Folds>::new(cpu()));
    let setup = setup_prepared_by(&cpu(), &watched, &params, Content::Random(8));
    fetch(&setup, &[vec![1, 300], vec![], vec![999]], &mut rng);
    let Folds { operations, keys } = &**watched.observer();
    // Each of the two parties' servers scans once, with a key for each of 10 bins of 3 queries.
    assert_eq!((operations.load(Ordering::Relaxed), keys.load(Ordering::Relaxed)), (2, 2 * 3 * 10));
}

/// Checks that the keys of all bins take the same number of evaluations as one key for all rows,
/// except for the levels above the bins.
#[test]
fn bins_cost_no_more_evaluations() {
    let (whole, bins) = (choose("dpf-xor", 1 << 20, 40, 1), choose("dpf-xor", 1 << 20, 40, 64));
    let calls = |points, count| count * Domain::new(points, OutputKind::Bit).unwrap().calls(PrfKind::Aes128);
    assert_eq!(calls(1 << 20, 1) - calls(1 << 14, 64), 2 * 63);
    assert_eq!((whole.matrix_bytes(), whole.memory_bytes), (bins.matrix_bytes(), bins.memory_bytes));
    let count = |params: &ProtocolParams| params.work.iter().map(|work| work.count).sum::<f64>();
    assert_eq!(count(&whole), count(&bins));
    let key_bytes = Domain::new(1 << 14, OutputKind::Bit).unwrap().key_bytes();
    assert_eq!((bins.sizes.query_bytes, bins.sizes.answer_bytes), (64 * key_bytes, 64 * 40));
}

#[test]
fn what_is_no_query_for_bins_is_refused() {
    let mut rng = SecretRng::from_os().unwrap();
    let params = choose("dpf-xor", 1000, 40, 10);
    let setup = setup(&cpu(), &params, Content::Random(4));
    let chosen = setup.client.bins().choose(&[3], &mut rng).unwrap();
    let query = setup.client.query_bins(&chosen.records, &mut rng).unwrap().queries.remove(0);
    let key_bytes = query.len() / 10;
    // Damages each key in turn: the party is wrong, the root is invalid, or the key is truncated.
    for key in 0..10 {
        for (byte, flip) in [(0, 1), (0, 2), (1, 1)] {
            let mut damaged = query.clone();
            damaged[key * key_bytes + byte] ^= flip;
            let error = setup.servers[0].answer(&setup.batch(&[damaged])).unwrap_err().to_string();
            assert!(error.starts_with("malformed query"), "{error}");
        }
        let cut = &query[..key * key_bytes];
        assert!(setup.servers[0].answer(&setup.batch(&[cut])).is_err());
    }
    for wrong in [&chosen.records[1..], &[0; 10], &[&chosen.records[..], &[999]].concat()] {
        assert!(setup.client.query_bins(wrong, &mut rng).is_err());
    }
    let specimen = setup.servers[1].specimen();
    setup.servers[1].answer(&setup.batch(&[specimen])).unwrap();
}

#[test]
fn bins_that_cannot_be_are_refused() {
    let refused = |choice: &Choice, records, record_bytes, why: &str| {
        let error = ProtocolParams::choose(choice, Seed::new([0; 32]), records, record_bytes)
            .unwrap_err()
            .to_string();
        assert!(error.contains(why), "{error}");
    };
    for protocol in WITH_BINS {
        refused(&choice(protocol, 0), 1000, 40, "0 bins: a table has 1 to 65536");
        refused(&choice(protocol, 65_537), 1 << 20, 40, "65537 bins");
    }
    refused(&choice("exppack-simple", 251), 1000, 8, "1000 records are too few for 251 bins");
    refused(&choice("exppack-simple", 40_000), 1 << 20, 40, "at most 2^16, and their columns 2^22 together");
    for protocol in ["dpf-xor", "dpf-sum"] {
        refused(&choice(protocol, 1001), 1000, 40, "1001 bins of 1000 records");
        refused(&choice(protocol, 65_536), 65_536, 4000, "at most 64 MiB");
        ProtocolParams::choose(&choice(protocol, 65_536), Seed::new([0; 32]), 65_536, 40).unwrap();
    }
    for protocol in NAMES.into_iter().filter(|name| !WITH_BINS.contains(name)) {
        refused(&choice(protocol, 2), 1000, 40, "has no bins: exppack-simple, dpf-xor and dpf-sum have");
        assert!(ProtocolParams::check(&choice(protocol, 2)).is_err());
    }
    let json = |bins: &str, columns: u64| {
        let grid =
            format!(r#"{{"records":10,"record_bytes":4,"unit_rows":4,"groups":1,"columns":{columns}}}"#);
        format!(r#"{{"protocol":"dpf-xor","prf":"aes-128","shares":"bit","grid":{grid},"bins":{bins}}}"#)
    };
    ProtocolParams::from_json(json("5", 10).as_bytes()).unwrap();
    for (bins, columns) in
        [("0", 10), ("3", 10), ("20", 10), ("-1", 10), ("1.5", 10), ("18446744073709551615", 10)]
    {
        assert!(ProtocolParams::from_json(json(bins, columns).as_bytes()).is_err(), "{bins} bins");
    }
    for protocol in WITH_BINS {
        let params = choose(protocol, 1000, 40, 10);
        assert_eq!(params.bins, 10);
        assert_eq!(params.of_delta(Seed::new([0; 32]), 10, 20).unwrap().bins, 1);
        assert_eq!(params.reshaped(Seed::new([0; 32]), 2000, 40).unwrap().bins, 10);
    }
    // Groups of exppack-simple are its bins.
    let packed = choose("exppack-simple", 1000, 40, 10);
    let with = |members: &[(&str, u64)]| {
        let mut json: serde_json::Value = serde_json::from_slice(&packed.to_json()).unwrap();
        members.iter().for_each(|&(name, value)| json["grid"][name] = value.into());
        ProtocolParams::from_json(json.to_string().as_bytes()).map(|params| params.bins)
    };
    assert_eq!(with(&[("groups", 11)]).unwrap(), 11);
    for wrong in [
        &[("groups", 0)][..],
        &[("groups", 1001)],
        &[("groups", 1 << 17), ("records", 1 << 20)],
        &[("groups", 1)],
        &[("unit_rows", 1000)],
        &[("columns", 1 << 20)],
        &[("groups", u64::MAX), ("columns", u64::MAX)],
    ] {
        assert!(with(wrong).is_err(), "{wrong:?}");
    }
}

/// Two servers whose copies of an entry differ, all with valid checksums. The client asks one copy
/// and notices nothing. If this copy is damaged, it refuses.
#[test]
fn one_copy_of_an_entry_is_asked() {
    const RECORDS: u64 = 40;
    let table = Table { copies: Copies::Three, ..spirea_specimens::table(TableKind::Keyword, RECORDS, 60) };
    let (boundaries, params) = (table.boundaries(), choose("dpf-xor", RECORDS, table.record_bytes(), 8));
    let hash = KeyHash::new(&table.salt, b"key");
    let places = boundaries.of_entry(&hash.tag);
    assert_eq!(places.len(), 3, "the copies are in different records");
    let sealed = |record: u64| {
        let mut bucket = Bucket::default();
        if places.contains(&record) {
            bucket.push(&hash.tag, &record.to_le_bytes());
        }
        table.seal(record, &bucket.payload())
    };
    let records: Vec<_> = (0..RECORDS).map(sealed).collect();
    // A dummy may be another copy, so both fetches draw the same dummies.
    let fetch = |records: Vec<Vec<u8>>, seed: u64| {
        let mut rng = SecretRng::deterministic_for_tests(seed);
        let servers = setup_of(&cpu(), &params, records);
        let index = params.client(&[], &[], &mut rng).unwrap();
        let client = TableClient::new(table.clone(), index).unwrap();
        let (queries, state) = client.fetch_keys(&[b"key"], &mut rng).unwrap();
        client.decode_fetch(state, &slices(&servers.answers(&[queries])[0]))
    };
    for seed in 0..8 {
        let found = fetch(records.clone(), seed).unwrap();
        let [Fetched::Value(value)] = &found[..] else { panic!("{found:?}") };
        let asked = u64::from_le_bytes(value[..].try_into().unwrap());
        assert!(places.contains(&asked), "{asked} of {places:?}");
        let mut damaged = records.clone();
        damaged[asked as usize][3] ^= 1;
        assert!(matches!(fetch(damaged, seed), Err(ProtocolError::Corrupted)));
    }
}
