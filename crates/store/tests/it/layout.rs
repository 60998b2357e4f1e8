//! Values of all lengths in one table, and the single rule for their maximum length.

use std::path::Path;

use spirea_conformance::{Count, is_drawn};
use spirea_protocols::delta::index_key;
use spirea_protocols::registry::Choice;
use spirea_specimens::LookUps;
use spirea_specimens::snapshots::{BACKEND, options, try_build, write_file};
use spirea_store::repository::{Settings, Shrinking};
use spirea_store::{Changes, Protocol, Repository, Silent, Snapshot, StoreError};

/// Number of rows of a table. Every 97th value is long, and the others are short.
const ROWS: u64 = 400;

fn value(row: u64) -> String {
    format!("{row} ").repeat(if row % 97 == 5 { 1500 } else { 1 + row as usize % 7 })
}

fn build(folder: &Path, key: Option<&str>, protocol: &str) -> Snapshot {
    let rows: String = (0..ROWS).map(|row| format!("key {row},{}\n", value(row))).collect();
    let input = write_file(folder, "data.csv", format!("key,value\n{rows}"));
    let mut options = options(&input, key, &["value"]);
    options.protocol = Protocol::Named(Choice { protocol: protocol.into(), ..Choice::default() });
    try_build(&options).unwrap()
}

fn repository(folder: &Path, base: &Snapshot) -> Repository {
    let repository = Repository::create(folder.join("repository"), Settings::default()).unwrap();
    repository.add_base(base, Shrinking::Refuse, &Silent).unwrap();
    repository
}

#[test]
fn one_long_value_among_thousands_of_short_ones_is_laid_out_by_key_and_by_position() {
    let long = 300_000;
    let value = |row: usize| "v".repeat(if row == 777 { long } else { row % 9 });
    let rows: String = (0..20_000).map(|row| format!("{row},{}\n", value(row))).collect();
    for key in [Some("key"), None] {
        let folder = tempfile::tempdir().unwrap();
        let input = write_file(folder.path(), "data.csv", format!("key,value\n{rows}"));
        let snapshot = try_build(&options(&input, key, &["value"])).unwrap();
        let table = &snapshot.manifest().table;
        assert!(table.widths.is_some() && table.record_bytes() < 3 * long, "{}", table.record_bytes());
        assert!(snapshot.manifest().padding() < 2.0, "{}", snapshot.manifest().padding());
        let without = snapshot.manifest().statistics.without_longest.as_ref().unwrap();
        assert!(without.longest_value_bytes == 8 && without.record_bytes < 10_000, "{without:?}");
        let mut lookups = LookUps::new(&snapshot);
        for row in [0, 1, 776, 777, 778, 19_999] {
            let found = match key {
                Some(_) => lookups.key(row.to_string().as_bytes()).unwrap(),
                None => lookups.index(row as u64).unwrap(),
            };
            assert_eq!(found, Some(value(row).into_bytes()), "row {row}");
        }
    }
}

#[test]
fn rows_of_even_lengths_have_a_record_each() {
    let folder = tempfile::tempdir().unwrap();
    let rows: String = (0..100).map(|row| format!("{row:020}\n")).collect();
    let input = write_file(folder.path(), "data.csv", format!("value\n{rows}"));
    let snapshot = try_build(&options(&input, None, &["value"])).unwrap();
    let table = &snapshot.manifest().table;
    assert!(table.widths.is_none() && table.records == 100);
}

#[test]
fn buckets_of_rows_take_changes_are_compacted_in_place_and_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let base = build(folder.path(), None, "simple");
    assert!(base.manifest().table.widths.is_some());
    let repository = repository(folder.path(), &base);
    let check = |base: &Snapshot, changed: &[(u64, Option<&[u8]>)]| {
        let mut lookups = LookUps::new(base);
        for row in (0..ROWS).step_by(13) {
            let expected = match changed.iter().find(|(changed, _)| *changed == row) {
                Some((_, value)) => value.map(<[u8]>::to_vec),
                None => Some(value(row).into_bytes()),
            };
            assert_eq!(lookups.index(row).unwrap(), expected, "row {row}");
        }
    };
    let compact = |changes| {
        repository.apply(changes, &BACKEND, &Silent).unwrap();
        repository.compact(&BACKEND, &Silent).unwrap().base
    };
    let mut changes = Changes::new();
    changes.put(index_key(13), b"short".to_vec());
    changes.delete(index_key(26));
    let anew = compact(changes);
    check(&anew, &[(13, Some(b"short")), (26, None)]);
    // Added rows follow the existing rows, and a look-up past the last row fails.
    let mut changes = Changes::new();
    changes.put(index_key(ROWS), b"added".to_vec());
    let longer = compact(changes);
    check(&longer, &[(13, Some(b"short")), (26, None)]);
    let mut lookups = LookUps::new(&longer);
    assert_eq!(lookups.index(ROWS).unwrap(), Some(b"added".to_vec()));
    assert!(lookups.index(ROWS + 1).is_err());
}

#[test]
fn a_value_that_the_build_would_refuse_is_refused_of_changes_too_and_compaction_takes_what_they_take() {
    for key in [Some("key"), None] {
        let folder = tempfile::tempdir().unwrap();
        let rows: String = (0..50).map(|row| format!("{row},small {row:03}\n")).collect();
        let input = write_file(folder.path(), "data.csv", format!("key,value\n{rows}"));
        let base = try_build(&options(&input, key, &["value"])).unwrap();
        let table = &base.manifest().table;
        assert_eq!(table.max_value_bytes, Some(4096));
        let repository = repository(folder.path(), &base);
        let put = |bytes: usize| {
            let line = format!("{{\"key\": \"7\", \"value\": \"{}\"}}\n", "x".repeat(bytes));
            Changes::read_lines(table, line.as_bytes(), Path::new("changes"))
        };
        let message = put(4097).unwrap_err().to_string();
        for part in ["changes:1", "7", "4097 bytes, above the limit of 4096", "--max-value"] {
            assert!(message.contains(part), "{message}");
        }
        let mut changes = Changes::new();
        changes.put(if key.is_some() { b"a\n".to_vec() } else { index_key(7).to_vec() }, vec![0; 4097]);
        let refused = repository.apply(changes, &BACKEND, &Silent).unwrap_err();
        assert!(
            matches!(&refused, StoreError::BadChange { detail, .. } if detail.contains("4096")),
            "{refused}"
        );
        assert!(
            refused.to_string().starts_with(if key.is_some() { "key \"a\\n\"" } else { "row 7" }),
            "{refused}"
        );
        assert!(repository.current().unwrap().delta.is_none());

        repository.apply(put(4096).unwrap(), &BACKEND, &Silent).unwrap();
        let anew = repository.compact(&BACKEND, &Silent).unwrap().base;
        assert_eq!(anew.manifest().table.max_value_bytes, Some(4096));
        let mut lookups = LookUps::new(&anew);
        let found = if key.is_some() { lookups.key(b"7") } else { lookups.index(7) };
        assert_eq!(found.unwrap(), Some(vec![b'x'; 4096]));
    }
}

#[test]
fn the_longest_value_that_a_table_takes_is_compacted_under_every_protocol() {
    const PROTOCOLS: [&str; 4] = ["simple", "exppack-simple", "onion", "dpf-sum"];
    for protocol in PROTOCOLS {
        if !is_drawn("compactions with the longest value", &PROTOCOLS, Count { short: 1, full: 1 }, protocol)
        {
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        let base = build(folder.path(), Some("key"), protocol);
        let limit = base.manifest().table.value_limit();
        let repository = repository(folder.path(), &base);
        let mut changes = Changes::new();
        (0..30).for_each(|i| changes.put(format!("new {i}"), vec![i; limit]));
        repository.apply(changes, &BACKEND, &Silent).unwrap();
        let anew = repository.compact(&BACKEND, &Silent).unwrap().base;
        assert_eq!(LookUps::new(&anew).key(b"new 29").unwrap(), Some(vec![29; limit]), "{protocol}");
    }
}
