//! Inclusion proofs: tables with proofs work under every protocol, and a server that returns
//! records other than the published ones is detected, even if its records are consistent.

use std::ops::Range;
use std::path::Path;

use spirea_conformance::{Count, is_drawn};
use spirea_protocols::choice::KeyDelivery;
use spirea_protocols::delta::{Change, index_key};
use spirea_protocols::registry::{Choice, NAMES};
use spirea_protocols::{ProtocolError, Table, Version};
use spirea_specimens::LookUps;
use spirea_specimens::snapshots::{BACKEND, options, try_build, write_file};
use spirea_store::repository::{Settings, Shrinking};
use spirea_store::{BuildOptions, Changes, Manifest, Protocol, Proving, Repository, Silent, Snapshot};

/// Enough rows for two levels of hashes, each row long enough for its own record.
const ROWS: u64 = 600;
const ROW_BYTES: usize = 540;

/// Builds a table of rows whose values contain `said`, under a seed shared by all tables.
fn table(
    folder: &Path,
    name: &str,
    protocol: &str,
    key: Option<&str>,
    said: &str,
    rows: Range<u64>,
) -> Snapshot {
    let bytes = if key.is_some() { 0 } else { ROW_BYTES };
    let lines: String = rows.map(|row| format!("key {row},{:bytes$}\n", format!("{said} {row}"))).collect();
    let input = write_file(folder, &format!("{name}.csv"), format!("key,value\n{lines}"));
    let options = BuildOptions {
        protocol: Protocol::Named(Choice { protocol: protocol.into(), ..Choice::default() }),
        proving: Some(Proving::Include),
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
        if !is_drawn("tables with proofs", &NAMES, Count { short: 3, full: 4 }, protocol) {
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        let honest = table(folder.path(), "honest", protocol, None, "true", 0..ROWS);
        assert_eq!(honest.manifest().table.rows_per_record, None);
        let lying = table(folder.path(), "lying", protocol, None, "lies", 0..ROWS);
        assert_eq!(honest.manifest().table.proofs.as_ref().unwrap().levels, 2);
        assert_eq!(honest.manifest().table.salt, lying.manifest().table.salt);
        let row = ROWS - 1;
        let expected = format!("{:ROW_BYTES$}", format!("true {row}")).into_bytes();
        assert_eq!(LookUps::new(&honest).index(row).unwrap(), Some(expected), "{protocol}");
        // The lying server's record has the right checksum, but is refused.
        let deceived = LookUps::between(&honest, &lying).index(row);
        assert!(matches!(deceived, Err(ProtocolError::Unproven)), "{protocol}: {deceived:?}");
    }
}

#[test]
fn every_key_of_a_table_with_many_buckets_is_proven_and_absent_ones_are_too() {
    let folder = tempfile::tempdir().unwrap();
    let honest = table(folder.path(), "honest", "dpf-xor", Some("key"), "true", 1000..5000);
    let Table { proofs, records, .. } = &honest.manifest().table;
    assert!(proofs.as_ref().unwrap().levels > 0, "{records} buckets");
    let mut lookups = LookUps::new(&honest);
    for row in 1000..5000 {
        assert_eq!(lookups.key(format!("key {row}").as_bytes()).unwrap(), said("true", row));
    }
    assert_eq!(lookups.key(b"absent").unwrap(), None);

    // A server that hides a key is caught, too: the proof of a bucket also proves which keys it
    // lacks.
    let another = table(folder.path(), "another", "dpf-xor", Some("key"), "true", 1001..5001);
    let (ours, theirs) = (&honest.manifest().table, &another.manifest().table);
    assert_eq!((ours.records, ours.record_bytes()), (theirs.records, theirs.record_bytes()));
    let mut deceived = LookUps::between(&honest, &another);
    assert!(matches!(deceived.key(b"key 1000"), Err(ProtocolError::Unproven)));
}

#[test]
fn deltas_and_compacted_bases_have_proofs_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let base = table(folder.path(), "honest", "dpf-xor", Some("key"), "true", 0..500);
    let repository = Repository::create(folder.path().join("repository"), Settings::default()).unwrap();
    repository.add_base(&base, Shrinking::Refuse, &Silent).unwrap();
    let changes = |said: &str| {
        let mut changes = Changes::new();
        (0..100).for_each(|row| changes.put(format!("key {row}"), format!("{said} {row}")));
        changes
    };
    let publish = |said| repository.apply(changes(said), &BACKEND, &Silent).unwrap().delta.unwrap();
    // Buckets are drawn anew for each delta, so deltas of equal entries may differ in their number.
    let mut pairs = (0..100).map(|_| (publish("first"), publish("other")));
    let records = |delta: &Snapshot| delta.manifest().table.records;
    let (first, second) =
        pairs.find(|(first, second)| records(first) == records(second)).expect("two deltas of one shape");
    let (ours, theirs) = (&first.manifest().table, &second.manifest().table);
    assert!(ours.proofs.is_some() && ours.proofs != theirs.proofs && ours.salt == theirs.salt);
    let change = LookUps::new(&second).key(b"key 7").unwrap().unwrap();
    assert_eq!(Change::from_bytes(&change).unwrap(), Change::Put(b"other 7"));
    // The server returns the former delta instead of the newest: its records are valid, but belong
    // to another version.
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
fn short_rows_share_a_record_and_its_proof_after_changes_too() {
    let folder = tempfile::tempdir().unwrap();
    let rows = 3000u64;
    let lines: String = (0..rows).map(|row| format!("true {row}\n")).collect();
    let input = write_file(folder.path(), "rows.csv", format!("value\n{lines}"));
    let base = try_build(&BuildOptions {
        protocol: Protocol::Named(Choice { protocol: "dpf-xor".into(), ..Choice::default() }),
        proving: Some(Proving::Include),
        ..options(&input, None, &["value"])
    });
    let base = base.unwrap();
    let Table { rows_per_record: Some(shared), records, .. } = base.manifest().table else {
        panic!("{:?}", base.manifest().table)
    };
    assert_eq!(records, rows.div_ceil(shared.into()));
    let mut lookups = LookUps::new(&base);
    for row in 0..rows {
        assert_eq!(lookups.index(row).unwrap(), said("true", row));
    }
    assert!(lookups.index(rows).is_err());

    let repository = Repository::create(folder.path().join("repository"), Settings::default()).unwrap();
    repository.add_base(&base, Shrinking::Refuse, &Silent).unwrap();
    let mut changes = Changes::new();
    (0..rows).step_by(7).for_each(|row| changes.delete(index_key(row)));
    (0..rows).skip(1).step_by(7).for_each(|row| changes.put(index_key(row), format!("other {row}")));
    (rows..rows + 9).for_each(|row| changes.put(index_key(row), format!("new {row}")));
    repository.apply(changes, &BACKEND, &Silent).unwrap();
    let compacted = repository.compact(&BACKEND, &Silent).unwrap().base;
    assert!(compacted.manifest().table.rows_per_record.is_some());
    let mut lookups = LookUps::new(&compacted);
    for row in 0..rows + 9 {
        let expected = match row % 7 {
            _ if row >= rows => said("new", row),
            0 => None,
            1 => said("other", row),
            _ => said("true", row),
        };
        assert_eq!(lookups.index(row).unwrap(), expected, "{row}");
    }
}

#[test]
fn proofs_are_there_by_default_where_answers_under_one_key_combine() {
    let folder = tempfile::tempdir().unwrap();
    let lines: String = (0..900).map(|row| format!("{row:100}\n")).collect();
    let input = write_file(folder.path(), "rows.csv", format!("value\n{lines}"));
    let proven = |protocol: &str, keys: KeyDelivery, proving: Option<Proving>| {
        let choice = Choice { protocol: protocol.into(), keys, ..Choice::default() };
        let name = format!("{protocol} {keys:?} {proving:?}");
        let snapshot = try_build(&BuildOptions {
            protocol: Protocol::Named(choice),
            proving,
            out: folder.path().join(name),
            name: Some("table".into()),
            ..options(&input, None, &["value"])
        });
        let Manifest { table, protocol, .. } = snapshot.unwrap().manifest().clone();
        (table.proofs.is_some(), protocol.combined_answer_bits > 0.0)
    };
    let registered = KeyDelivery::Registered;
    assert_eq!(proven("onion", registered, None), (true, true));
    assert_eq!(proven("onion", registered, Some(Proving::Omit)), (false, true));
    assert_eq!(proven("exppack-simple", registered, None), (false, false));
    assert_eq!(proven("exppack-simple", KeyDelivery::PerQuery, None), (false, false));
    assert_eq!(proven("simple", registered, Some(Proving::Include)), (true, false));
}

#[test]
fn a_table_without_proofs_is_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let input = write_file(folder.path(), "data.csv", "value\na\nb\n");
    let snapshot = try_build(&options(&input, None, &["value"])).unwrap();
    let manifest = std::fs::read_to_string(snapshot.folder().join("manifest.json")).unwrap();
    assert!(!manifest.contains("proofs"), "{manifest}");
    assert_eq!(snapshot.manifest().table.proof_bytes(), 0);
    assert_eq!(Version::from(blake3::hash(&snapshot.manifest().hashed_bytes())), snapshot.version());
}
