//! Tables in bins with three copies of each entry: built, fetched from, and changed, by clients'
//! and servers' bytes.

use std::collections::BTreeMap;
use std::path::Path;

use spirea_math::random::SecretRng;
use spirea_protocols::Table;
use spirea_protocols::keyword::{Copies, KeyHash, entry_bytes};
use spirea_protocols::registry::Choice;
use spirea_protocols::table::Fetched;
use spirea_specimens::LookUps;
use spirea_specimens::snapshots::{BACKEND, options, try_build, write_file};
use spirea_store::repository::{Settings, Shrinking};
use spirea_store::{BuildOptions, Changes, Protocol, Proving, Repository, Silent, Snapshot, StoreError};

/// Content of a table.
type Content = BTreeMap<Vec<u8>, Vec<u8>>;

/// Returns `rows` keys with values of 0 to 40 bytes.
fn content(rows: usize) -> Content {
    (0..rows).map(|row| (key(row), "v".repeat(row % 40).into_bytes())).collect()
}

fn key(row: usize) -> Vec<u8> {
    format!("key {row}").into_bytes()
}

/// Returns options to build the content into a table in bins.
fn three_copies(folder: &Path, protocol: &str, bins: usize, content: &Content) -> BuildOptions {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let lines: String =
        content.iter().map(|(key, value)| format!("{},{}\n", text(key), text(value))).collect();
    let input = write_file(folder, "data.csv", format!("key,value\n{lines}"));
    let choice = Choice { protocol: protocol.into(), bins, ..Choice::default() };
    BuildOptions {
        protocol: Protocol::Named(choice),
        copies: Copies::Three,
        ..options(&input, Some("key"), &["value"])
    }
}

/// Checks that each bucket of an entry holds it once, no bucket holds another entry, and that the
/// manifest counts each entry once.
fn holds(snapshot: &Snapshot, content: &Content) {
    let manifest = snapshot.manifest();
    let (table, statistics) = (&manifest.table, &manifest.statistics);
    assert_eq!((table.entries, table.copies), (content.len() as u64, Copies::Three));
    assert_eq!(statistics.rows, table.entries);
    assert_eq!(statistics.value_bytes, content.values().map(|value| value.len() as u64).sum::<u64>());
    let bytes: usize = content.values().map(|value| entry_bytes(value.len())).sum();
    assert_eq!(statistics.entry_bytes, bytes as u64);
    let boundaries = table.boundaries();
    let mut expected = BTreeMap::<_, Vec<_>>::new();
    for (key, value) in content {
        let tag = KeyHash::new(&table.salt, key).tag;
        for record in boundaries.of_entry(&tag) {
            expected.entry(record).or_default().push((tag, value.clone()));
        }
    }
    let mut lookups = LookUps::new(snapshot);
    for record in 0..table.records {
        let mut found = lookups.bucket(record).unwrap();
        found.sort();
        let mut expected = expected.remove(&record).unwrap_or_default();
        expected.sort();
        assert_eq!(found, expected, "record {record}");
    }
}

/// Fetches random lists of keys, present and absent, of which all fit.
fn fetches(snapshot: &Snapshot, content: &Content, wanted: usize, times: usize) {
    let mut lookups = LookUps::new(snapshot);
    let mut rng = SecretRng::from_os().unwrap();
    let (mut dropped, rows) = (0, content.len() as u64);
    for _ in 0..times {
        let keys: Vec<Vec<u8>> =
            (0..wanted).map(|_| key((rng.next_u64() % (rows + rows / 8)) as usize)).collect();
        let found = lookups.fetch(&keys.iter().map(Vec::as_slice).collect::<Vec<_>>()).unwrap();
        for (key, found) in keys.iter().zip(found) {
            match found {
                Fetched::Dropped => dropped += 1,
                found => assert_eq!(found.value().as_ref(), content.get(key), "{key:?}"),
            }
        }
    }
    assert_eq!(dropped, 0, "of {times} times {wanted} keys");
}

#[test]
fn entries_lie_in_three_buckets_and_lists_of_keys_are_brought() {
    for (protocol, rows, bins, wanted) in [("dpf-xor", 3000, 75, 50), ("exppack-simple", 700, 12, 6)] {
        let folder = tempfile::tempdir().unwrap();
        let content = content(rows);
        let snapshot = try_build(&three_copies(folder.path(), protocol, bins, &content)).unwrap();
        assert_eq!(snapshot.manifest().protocol.bins, bins);
        assert!(snapshot.manifest().table.widths.is_some() && snapshot.manifest().padding() < 1.5);
        holds(&snapshot, &content);
        fetches(&snapshot, &content, wanted, if protocol == "dpf-xor" { 20 } else { 1 });
        let mut lookups = LookUps::new(&snapshot);
        assert_eq!(lookups.key(&key(39)).unwrap().as_ref(), content.get(&key(39)));
        assert_eq!(lookups.key(b"absent").unwrap(), None);
    }
}

#[test]
fn keys_that_are_listed_twice_take_one_bin_and_keys_that_do_not_fit_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let content = content(600);
    let snapshot = try_build(&three_copies(folder.path(), "dpf-xor", 9, &content)).unwrap();
    let mut lookups = LookUps::new(&snapshot);
    // Six keys in nine bins, each listed five times.
    let keys: Vec<Vec<u8>> = (0..30).map(|i| key(i % 6)).collect();
    let mut fetch = |keys: &[Vec<u8>]| {
        let found = lookups.fetch(&keys.iter().map(Vec::as_slice).collect::<Vec<_>>()).unwrap();
        found.into_iter().map(|found| (found != Fetched::Dropped, found.value())).collect::<Vec<_>>()
    };
    let expected: Vec<_> = keys.iter().map(|key| (true, content.get(key).cloned())).collect();
    assert_eq!(fetch(&keys), expected);
    let all: Vec<Vec<u8>> = (0..600).map(key).collect();
    let found = fetch(&all);
    // The query brings a bucket of each bin, with several entries. Each key of these is brought.
    let brought = found.iter().filter(|(brought, _)| *brought).count();
    assert!((9..600).contains(&brought), "{brought}");
    for ((brought, value), key) in found.into_iter().zip(&all) {
        assert_eq!(value.as_ref(), content.get(key).filter(|_| brought));
    }
    assert_eq!(fetch(&[]), []);
}

#[test]
fn changes_reach_all_copies_in_place_and_when_the_table_is_rebuilt() {
    // Few changes of a large table are made in place; records with proofs are always rebuilt.
    for (protocol, rows, bins, proving) in [
        ("dpf-xor", 2000, 20, Proving::Omit),
        ("dpf-xor", 400, 20, Proving::Include),
        ("exppack-simple", 300, 12, Proving::Omit),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut content = content(rows);
        let options = three_copies(folder.path(), protocol, bins, &content);
        let base = try_build(&BuildOptions { proving: Some(proving), ..options }).unwrap();
        let repository = Repository::create(folder.path().join("repository"), Settings::default()).unwrap();
        repository.add_base(&base, Shrinking::Refuse, &Silent).unwrap();
        let places = |table: &Table| table.places.unwrap();
        let mut changes = Changes::new();
        let mut change = |key: Vec<u8>, value: Option<&[u8]>| match value {
            Some(value) => {
                changes.put(key.clone(), value);
                content.insert(key, value.to_vec());
            }
            None => {
                changes.delete(key.clone());
                content.remove(&key);
            }
        };
        change(key(17), Some(b"another"));
        change(key(18), None);
        change(b"added".to_vec(), Some(b"new"));
        change(b"never there".to_vec(), None);
        let version = repository.apply(changes, &BACKEND, &Silent).unwrap();
        assert!(version.delta.is_none());
        let same = places(&version.base.manifest().table) == places(&base.manifest().table);
        assert_eq!(same, proving == Proving::Omit, "{protocol}");
        holds(&version.base, &content);
        fetches(&version.base, &content, 5, 2);
    }
}

#[test]
fn a_key_in_two_rows_is_refused_once() {
    let folder = tempfile::tempdir().unwrap();
    let options = three_copies(folder.path(), "dpf-xor", 9, &content(50));
    write_file(folder.path(), "data.csv", "key,value\na,1\nb,2\na,3\n");
    match try_build(&options) {
        Err(StoreError::DuplicateKeys { keys, others: 0, .. }) => assert_eq!(keys[0].rows, [1, 3]),
        other => panic!("{other:?}"),
    }
}

#[test]
fn copies_need_keys_and_bins() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |options: BuildOptions, why: &str| {
        let error = try_build(&options).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    };
    let content = content(50);
    refused(three_copies(folder.path(), "dpf-xor", 1, &content), "--copies 3 is for tables in bins");
    refused(three_copies(folder.path(), "simple", 1, &content), "--copies 3 is for tables in bins");
    let mut by_index = three_copies(folder.path(), "dpf-xor", 9, &content);
    by_index.selection.key = None;
    refused(by_index, "--copies belongs to tables with keys");
}

/// Reads a manifest as a client of an earlier release does, which knows no copies, and with numbers
/// that are none.
#[test]
fn a_table_says_its_copies_only_if_there_are_three() {
    let folder = tempfile::tempdir().unwrap();
    let options = three_copies(folder.path(), "dpf-xor", 9, &content(50));
    let json = |copies| {
        let out = folder.path().join(format!("{copies}"));
        let snapshot = try_build(&BuildOptions { copies, out, ..options.clone() }).unwrap();
        serde_json::to_value(&snapshot.manifest().table).unwrap()
    };
    let (one, mut three) = (json(Copies::One), json(Copies::Three));
    assert_eq!((one.get("copies"), three["copies"].as_u64()), (None, Some(3)));
    for wrong in ["0", "1", "2", "4", "-3", "256", "\"3\"", "null"] {
        three["copies"] = serde_json::from_str(wrong).unwrap();
        let error = serde_json::from_value::<Table>(three.clone()).unwrap_err().to_string();
        assert!(!error.is_empty(), "{wrong}");
    }
}
