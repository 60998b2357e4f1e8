//! Every built value is found through the bytes of real clients and servers.

use std::collections::BTreeMap;
use std::path::Path;

use proptest::prelude::*;
use spirea_protocols::TableKind;
use spirea_protocols::registry::Choice;
use spirea_specimens::LookUps;
use spirea_specimens::snapshots::{options, try_build, write_file};
use spirea_store::ingest::{Encoding, Files, Format, Quotes, Separated};
use spirea_store::{BuildOptions, Input, Overwrite, Protocol, Silent, Snapshot, build};

fn csv_of(rows: impl IntoIterator<Item = (impl AsRef<[u8]>, impl AsRef<[u8]>)>) -> Vec<u8> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(["key", "value"]).unwrap();
    for (key, value) in rows {
        writer.write_record([key.as_ref(), value.as_ref()]).unwrap();
    }
    writer.into_inner().unwrap()
}

/// Returns options for a CSV file whose keys and values are not text.
fn of_bytes(input: &Path, key: Option<&str>) -> BuildOptions {
    let form = Separated { encoding: Encoding::Bytes, ..Separated::by(b',', Quotes::Rfc4180) };
    let from = Input::Files(Files::one(input, Format::Csv(form)));
    BuildOptions { input: from, ..options(input, key, &["value"]) }
}

fn bytes(length: std::ops::Range<usize>) -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), length)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn every_key_is_found_and_absent_keys_are_not(
        table in proptest::collection::btree_map(bytes(0..24), bytes(0..5000), 1..40),
        others in proptest::collection::vec(bytes(0..24), 5),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let input = write_file(folder.path(), "data.csv", csv_of(&table));
        let snapshot = try_build(&of_bytes(&input, Some("key"))).unwrap();
        snapshot.verify(&Silent).unwrap();
        prop_assert_eq!(snapshot.manifest().table.entries, table.len() as u64);
        let mut lookups = LookUps::new(&snapshot);
        for (key, value) in &table {
            prop_assert_eq!(lookups.key(key).unwrap(), Some(value.clone()));
        }
        for key in others.iter().filter(|key| !table.contains_key(*key)) {
            prop_assert_eq!(lookups.key(key).unwrap(), None);
        }
    }

    #[test]
    fn every_position_holds_its_row(values in proptest::collection::vec(bytes(0..300), 1..60)) {
        let folder = tempfile::tempdir().unwrap();
        let rows = values.iter().enumerate().map(|(i, value)| (i.to_string(), value));
        let input = write_file(folder.path(), "data.csv", csv_of(rows));
        let snapshot = try_build(&of_bytes(&input, None)).unwrap();
        let mut lookups = LookUps::new(&snapshot);
        for (i, value) in values.iter().enumerate() {
            prop_assert_eq!(lookups.index(i as u64).unwrap(), Some(value.clone()));
        }
        prop_assert!(lookups.index(values.len() as u64).is_err());
    }
}

#[test]
fn a_table_of_many_partitions_buckets_and_columns() {
    // More than 32 MiB of input, so that the spool has several partitions.
    let row = |i: u32| (i.to_string(), format!("{i}-").repeat(60 + i as usize % 7));
    let folder = tempfile::tempdir().unwrap();
    let rows = 100_000;
    let input = write_file(folder.path(), "data.csv", csv_of((0..rows).map(row)));
    assert!(input.metadata().unwrap().len() > 32 << 20);
    let snapshot = try_build(&options(&input, Some("key"), &["value"])).unwrap();
    assert!(snapshot.manifest().table.records > 64, "{:?}", snapshot.manifest());
    assert!(snapshot.manifest().padding() < 3.0);
    let mut lookups = LookUps::new(&snapshot);
    for i in (0..rows).step_by(9999) {
        let (key, value) = row(i);
        assert_eq!(lookups.key(key.as_bytes()).unwrap(), Some(value.into_bytes()));
    }
    assert_eq!(lookups.key(rows.to_string().as_bytes()).unwrap(), None);
}

#[test]
fn values_of_a_mebibyte() {
    let folder = tempfile::tempdir().unwrap();
    let table: BTreeMap<String, Vec<u8>> =
        (0..2u8).map(|i| (format!("key {i}"), vec![b'a' + i; (1 << 20) - usize::from(i) * 1000])).collect();
    let input = write_file(folder.path(), "data.csv", csv_of(&table));
    for key in [Some("key"), None] {
        let mut options = options(&input, key, &["value"]);
        options.overwrite = Overwrite::Replace;
        let snapshot = try_build(&options).unwrap();
        let mut lookups = LookUps::new(&snapshot);
        for (i, (name, value)) in table.iter().enumerate() {
            let found = if key.is_some() { lookups.key(name.as_bytes()) } else { lookups.index(i as u64) };
            assert!(found.unwrap().as_ref() == Some(value));
        }
    }
}

#[test]
fn several_fields_and_the_paper_s_set() {
    let folder = tempfile::tempdir().unwrap();
    let input =
        write_file(folder.path(), "data.csv", "id,name,note\n1,Ada,\n2,\"B, C\",\"say \"\"hi\"\"\"\n");
    let mut options = options(&input, Some("id"), &["note", "name", "id"]);
    options.protocol = Protocol::Named(Choice { set: Some("paper".into()), ..Choice::default() });
    options.name = Some("people-2".into());
    let snapshot = try_build(&options).unwrap();
    assert_eq!(snapshot.manifest().name, "people-2");
    assert_eq!(snapshot.manifest().table.fields, ["note", "name", "id"]);
    let mut lookups = LookUps::new(&snapshot);
    assert_eq!(lookups.fields(b"1"), ["", "Ada", "1"]);
    assert_eq!(lookups.fields(b"2"), ["say \"hi\"", "B, C", "2"]);
}

#[test]
fn a_seed_makes_a_build_repeat_itself_on_every_backend() {
    let folder = tempfile::tempdir().unwrap();
    let input = write_file(folder.path(), "data.csv", "key,value\na,1\nb,22\nc,333\n");
    let mut options = options(&input, Some("key"), &["value"]);
    let first = try_build(&options).unwrap();
    options.out = folder.path().join("again").join("table");
    let second = build(&options, &std::sync::Arc::new(spirea_backend::NaiveBackend), &Silent).unwrap();
    let same = |a: &Snapshot, b: &Snapshot| {
        let (a, b) = (a.manifest(), b.manifest());
        a.matrix == b.matrix && a.hint == b.hint && a.table == b.table
    };
    assert!(same(&first, &second));
    options.seed = None;
    options.overwrite = Overwrite::Replace;
    assert!(!same(&first, &try_build(&options).unwrap()));
}

#[test]
fn the_manifest_counts_what_was_built() {
    let folder = tempfile::tempdir().unwrap();
    let input = write_file(folder.path(), "data.csv", "key,value\na,1\nb,4444\nc,4444\n");
    let snapshot = try_build(&options(&input, None, &["value"])).unwrap();
    let manifest = snapshot.manifest();
    assert_eq!(manifest.table.kind, TableKind::Index);
    assert_eq!((manifest.table.records, manifest.table.payload_bytes), (3, 5));
    let statistics = &manifest.statistics;
    assert_eq!((statistics.rows, statistics.value_bytes, statistics.entry_bytes), (3, 9, 12));
    assert_eq!((statistics.longest_value_bytes, statistics.longest_value_row), (4, Some(2)));
    assert_eq!(manifest.padding(), 15.0 / 12.0);
}
