//! Shapes of deltas. If clients keep keys or a hint, a delta keeps its shape while its entries fit.
//! Otherwise, every delta is cut for its own entries.

use std::collections::BTreeMap;
use std::path::Path;

use proptest::prelude::*;
use spirea_math::random::SecretRng;
use spirea_protocols::Table;
use spirea_protocols::choice::KeyDelivery;
use spirea_protocols::delta::Change;
use spirea_protocols::keyword::{Bucket, EntryPlace, KeyHash, entry_bytes};
use spirea_protocols::registry::Choice;
use spirea_specimens::LookUps;
use spirea_specimens::snapshots::{BACKEND, options, try_build, write_file};
use spirea_store::repository::{Settings, Shrinking};
use spirea_store::{BuildOptions, Changes, Manifest, Protocol, Proving, Repository, Silent, Snapshot};

/// Keys with their new values, or `None` if the key is deleted.
type Model = BTreeMap<String, Option<Vec<u8>>>;

fn repository(folder: &Path, choice: Choice, proving: Proving) -> Repository {
    let rows: String = (0..40).map(|row| format!("base {row},value\n")).collect();
    let input = write_file(folder, "data.csv", format!("key,value\n{rows}"));
    let base = try_build(&BuildOptions {
        protocol: Protocol::Named(choice),
        proving: Some(proving),
        max_value: Some(1 << 20),
        ..options(&input, Some("key"), &["value"])
    });
    let repository = Repository::create(folder.join("repository"), Settings::default()).unwrap();
    repository.add_base(&base.unwrap(), Shrinking::Refuse, &Silent).unwrap();
    repository
}

fn publish(repository: &Repository, changed: &Model) -> Snapshot {
    let mut changes = Changes::new();
    for (key, value) in changed {
        match value {
            Some(value) => changes.put(key.clone(), value.clone()),
            None => changes.delete(key.clone()),
        }
    }
    repository.apply(changes, &BACKEND, &Silent).unwrap().delta.unwrap()
}

/// Looks up every `step`-th key of a model, and an absent key.
fn check(delta: &Snapshot, model: &Model, step: usize) {
    delta.verify(&Silent).unwrap();
    let mut lookups = LookUps::new(delta);
    for (key, value) in model.iter().step_by(step) {
        let entry = lookups.key(key.as_bytes()).unwrap().expect("the delta has every changed key");
        let expected = value.as_ref().map_or(Change::Delete, |value| Change::Put(value));
        assert_eq!(Change::from_bytes(&entry).unwrap(), expected, "{key}");
    }
    assert_eq!(lookups.key(b"absent").unwrap(), None);
}

fn named(protocol: &str) -> Choice {
    Choice { protocol: protocol.into(), ..Choice::default() }
}

fn per_query(protocol: &str) -> Choice {
    Choice { keys: KeyDelivery::PerQuery, ..named(protocol) }
}

fn bytes(rng: &mut SecretRng, count: usize) -> Vec<u8> {
    (0..count).map(|_| rng.next_u64() as u8).collect()
}

/// Returns entries with values of `bytes` bytes, under keys that no other number has.
fn block(rng: &mut SecretRng, number: usize, entries: usize, count: usize) -> Model {
    (0..entries).map(|i| (format!("key {number}.{i}"), Some(bytes(rng, count)))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn every_change_is_found_whatever_the_lengths(
        lengths in proptest::collection::vec(
            proptest::option::weighted(0.9, prop_oneof![0usize..40, 0usize..600, Just(5000usize)]), 1..300,
        ),
        sum: bool, proven: bool, seed: u64,
    ) {
        let mut rng = SecretRng::deterministic_for_tests(seed);
        let (folder, proving) =
            (tempfile::tempdir().unwrap(), if proven { Proving::Include } else { Proving::Omit });
        let protocol = if sum { "dpf-sum" } else { "dpf-xor" };
        let repository = repository(folder.path(), named(protocol), proving);
        let model: Model = lengths
            .iter()
            .enumerate()
            .map(|(i, length)| (format!("key {i}"), length.map(|length| bytes(&mut rng, length))))
            .collect();
        let (first, second) = model.iter().partition::<Vec<_>, _>(|_| rng.next_u64().is_multiple_of(2));
        let mut published = Model::new();
        for part in [first, second].into_iter().filter(|part| !part.is_empty()) {
            let part: Model = part.into_iter().map(|(key, value)| (key.clone(), value.clone())).collect();
            published.extend(part.clone());
            check(&publish(&repository, &part), &published, 1);
        }
        prop_assert_eq!(published, model);
    }
}

#[test]
fn every_change_is_found_where_queries_bring_their_keys() {
    // The longest values take several columns, and so several queries in each look-up.
    for (protocol, value_bytes, entries) in
        [("exppack-simple", 200, 3000), ("exppack-double", 900, 200), ("hybrid", 9000, 30)]
    {
        let folder = tempfile::tempdir().unwrap();
        let mut rng = SecretRng::deterministic_for_tests(1);
        let repository = repository(folder.path(), per_query(protocol), Proving::Include);
        let model = block(&mut rng, 0, entries, value_bytes);
        check(&publish(&repository, &model), &model, entries / 2);
    }
}

/// Maximum bytes of a delta's matrix over the bytes of its entries, if clients keep nothing. With
/// room for as many entries again, in equal buckets, the matrix of 256-byte values took 5 to 6
/// times the bytes.
const GROWTH: f64 = 1.2;
/// The limit for `exppack-simple` in place of [`GROWTH`]: its records fill units of 4096 bytes. The
/// columns up to which the protocol rounds a matrix do not count.
const GROWTH_IN_UNITS: f64 = 1.5;

#[test]
fn a_delta_is_little_longer_than_its_entries_if_clients_keep_nothing() {
    let (omit, include) = (Proving::Omit, Proving::Include);
    for (choice, proving, value_bytes, entries) in [
        (named("dpf-xor"), omit, 20, 3000),
        (named("dpf-xor"), omit, 256, 2000),
        (named("dpf-xor"), include, 256, 2000),
        (named("dpf-xor"), include, 3000, 500),
        (named("dpf-sum"), omit, 1000, 800),
        (per_query("exppack-simple"), include, 256, 10_000),
        (per_query("exppack-simple"), omit, 3000, 500),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut rng = SecretRng::deterministic_for_tests(2);
        let repository = repository(folder.path(), choice.clone(), proving);
        let mut places = Vec::new();
        for number in 0..2 {
            let delta = publish(&repository, &block(&mut rng, number, entries, value_bytes));
            let Manifest { matrix, statistics, protocol, table, .. } = delta.manifest();
            let (most, rounded) = match choice.protocol.as_str() {
                "exppack-simple" => (GROWTH_IN_UNITS, 256 * protocol.stored.shape()[0]),
                _ => (GROWTH, 0),
            };
            let growth = (matrix.bytes as f64 - rounded as f64) / statistics.entry_bytes as f64;
            assert!(growth < most, "{}, {value_bytes} bytes: {growth}", choice.protocol);
            places.push(table.places);
        }
        // Nobody knows the places of a delta before its entries are fixed.
        assert_ne!(places[0], places[1]);
    }
}

/// Returns true if the entries of a model fit into a delta with this table's places and buckets.
fn fits(table: &Table, model: &Model) -> bool {
    let mut loads = vec![Bucket::COUNT_BYTES; table.records as usize];
    for (key, value) in model {
        let place = EntryPlace::new(&table.places.unwrap(), &KeyHash::new(&table.salt, key.as_bytes()).tag);
        let change = value.as_ref().map_or(Change::Delete, |value| Change::Put(value)).to_bytes();
        loads[place.part(table.records) as usize] += entry_bytes(change.len());
    }
    loads.into_iter().all(|load| load <= table.payload_bytes)
}

#[test]
fn a_delta_keeps_its_shape_until_entries_do_not_fit_if_clients_keep_keys_or_a_hint() {
    for protocol in ["simple", "exppack-simple", "onion"] {
        let folder = tempfile::tempdir().unwrap();
        let mut rng = SecretRng::deterministic_for_tests(3);
        let repository = repository(folder.path(), named(protocol), Proving::Omit);
        let (mut model, mut before) = (Model::new(), None::<Table>);
        // Places are drawn anew, so no number of publications is certain to have both.
        let (mut kept, mut changed) = (false, false);
        for number in 0..100 {
            let part = block(&mut rng, number, 150, 300);
            model.extend(part.clone());
            let table = publish(&repository, &part).manifest().table.clone();
            assert!(table.widths.is_none() && table.records.is_power_of_two(), "{protocol}");
            assert!(table.record_bytes().is_power_of_two(), "{protocol}: {}", table.record_bytes());
            if let Some(before) = before {
                let shape = |table: &Table| (table.records, table.payload_bytes, table.places);
                let stays = shape(&table) == shape(&before);
                assert_eq!(stays, fits(&before, &model), "{protocol}, publication {number}");
                assert!(table.records >= before.records && table.payload_bytes >= before.payload_bytes);
                kept |= stays;
                changed |= !stays;
            }
            if number >= 4 && kept && changed {
                break;
            }
            before = Some(table);
        }
        assert!(kept && changed, "{protocol}: kept {kept}, changed {changed}");
    }
}
