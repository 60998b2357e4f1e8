//! Inclusion proofs: what is built with them is found under every protocol, and a server that gives other records than
//! were published is caught, however consistent they are.

use std::path::Path;

use spirea_conformance::is_drawn;
use spirea_protocols::delta::Change;
use spirea_protocols::registry::{Choice, NAMES};
use spirea_protocols::{ProtocolError, Table};
use spirea_specimens::LookUps;
use spirea_specimens::snapshots::{BACKEND, options, try_build, write_file};
use spirea_store::repository::Settings;
use spirea_store::{BuildOptions, Changes, Protocol, Proving, Repository, Silent, Snapshot};

const ROWS: u64 = 200;

/// A table of rows whose values say `said`, under a seed that all of them share.
fn table(folder: &Path, name: &str, protocol: &str, key: Option<&str>, said: &str, rows: u64) -> Snapshot {
    let lines: String = (0..rows).map(|row| format!("key {row},{said} {row}\n")).collect();
    let input = write_file(folder, &format!("{name}.csv"), format!("key,value\n{lines}"));
    let options = BuildOptions {
        protocol: Protocol::Named(Choice { protocol: protocol.into(), ..Choice::default() }),
        proving: Proving::Include,
        name: Some("table".into()),
        out: folder.join(name),
        ..options(&input, key, &["value"])
    };
    try_build(&options).unwrap()
}

fn said(said: &str, row: u64) -> Option<Vec<u8>> {
    Some(format!("{said} {row}").into_bytes())
}

#[test]
fn every_protocol_carries_proofs_and_another_table_s_records_fail_them() {
    for protocol in NAMES {
        if !is_drawn("tables with proofs", &NAMES, 4, protocol) {
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        let honest = table(folder.path(), "honest", protocol, None, "true", ROWS);
        let lying = table(folder.path(), "lying", protocol, None, "lies", ROWS);
        assert_eq!(honest.manifest().table.proofs.as_ref().unwrap().levels, 2);
        assert_eq!(honest.manifest().table.salt, lying.manifest().table.salt);
        let row = ROWS - 1;
        assert_eq!(LookUps::new(&honest).index(row).unwrap(), said("true", row), "{protocol}");
        // What a lying server gives has the right checksum, and is refused all the same.
        let deceived = LookUps::between(&honest, &lying).index(row);
        assert!(matches!(deceived, Err(ProtocolError::Unproven)), "{protocol}: {deceived:?}");
    }
}

#[test]
fn every_key_of_a_table_with_many_buckets_is_proven_and_absent_ones_are_too() {
    let folder = tempfile::tempdir().unwrap();
    let honest = table(folder.path(), "honest", "dpf-xor", Some("key"), "true", 4000);
    let Table { proofs, records, .. } = &honest.manifest().table;
    assert!(proofs.as_ref().unwrap().levels > 0, "{records} buckets");
    let mut lookups = LookUps::new(&honest);
    for row in 0..4000 {
        assert_eq!(lookups.key(format!("key {row}").as_bytes()).unwrap(), said("true", row));
    }
    assert_eq!(lookups.key(b"absent").unwrap(), None);

    // A server that hides a key is caught too: that a bucket does not have it is proven with the bucket.
    let fewer = table(folder.path(), "fewer", "dpf-xor", Some("key"), "true", 3999);
    let (ours, theirs) = (&honest.manifest().table, &fewer.manifest().table);
    assert_eq!((ours.records, ours.record_bytes()), (theirs.records, theirs.record_bytes()));
    let mut deceived = LookUps::between(&honest, &fewer);
    assert!(matches!(deceived.key(b"key 3999"), Err(ProtocolError::Unproven)));
}

#[test]
fn deltas_and_compacted_bases_have_proofs_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let base = table(folder.path(), "honest", "dpf-xor", Some("key"), "true", 500);
    let repository = Repository::create(folder.path().join("repository"), Settings::default()).unwrap();
    repository.add_base(&base, &Silent).unwrap();
    let changes = |said: &str| {
        let mut changes = Changes::new();
        (0..100).for_each(|row| changes.put(format!("key {row}"), format!("{said} {row}")));
        changes
    };
    let first = repository.apply(changes("first"), &BACKEND, &Silent).unwrap().delta.unwrap();
    let second = repository.apply(changes("other"), &BACKEND, &Silent).unwrap().delta.unwrap();
    let (ours, theirs) = (&first.manifest().table, &second.manifest().table);
    assert!(ours.proofs.is_some() && ours.proofs != theirs.proofs && ours.salt == theirs.salt);
    let change = LookUps::new(&second).key(b"key 7").unwrap().unwrap();
    assert_eq!(Change::from_bytes(&change).unwrap(), Change::Put(b"other 7"));
    // The former delta in place of the newest: its records are in order, but not those of this version.
    assert!(matches!(LookUps::between(&second, &first).key(b"key 7"), Err(ProtocolError::Unproven)));

    let compacted = repository.compact(&BACKEND, &Silent).unwrap();
    assert!(compacted.delta.is_none() && compacted.base.manifest().table.proofs.is_some());
    let mut lookups = LookUps::new(&compacted.base);
    for row in 0..500 {
        let expected = said(if row < 100 { "other" } else { "true" }, row);
        assert_eq!(lookups.key(format!("key {row}").as_bytes()).unwrap(), expected);
    }
}

#[test]
fn a_table_without_proofs_is_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let input = write_file(folder.path(), "data.csv", "value\na\nb\n");
    let snapshot = try_build(&options(&input, None, &["value"])).unwrap();
    let manifest = std::fs::read_to_string(snapshot.folder().join("manifest.json")).unwrap();
    assert!(!manifest.contains("proofs"), "{manifest}");
    assert_eq!(snapshot.manifest().table.proof_bytes(), 0);
    assert_eq!(blake3::hash(&snapshot.manifest().hashed_bytes()), snapshot.version());
}
