//! Tables with keys in several rows, of which one row is kept; and sets.

use std::cell::Cell;

use spirea_specimens::LookUps;
use spirea_specimens::snapshots::{BACKEND, columns, options, try_build, write_file};
use spirea_store::ingest::{Files, Format, Nulls};
use spirea_store::{BuildOptions, Changes, Duplicates, Phase, Progress, build, changes, survey};

/// Remembers the number of dropped rows.
#[derive(Default)]
struct LeftOut(Cell<u64>);

impl Progress for LeftOut {
    fn update(&self, _: Phase, _: u64, _: u64) {}

    fn left_out(&self, rows: u64) {
        self.0.set(rows);
    }
}

#[test]
fn the_first_or_the_last_row_of_a_key_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let content = "key,value\na,1\nb,2\na,three\nc,4\na,5\nc,4\n";
    let input = write_file(folder.path(), "data.csv", content);
    for (duplicates, expected) in [(Duplicates::First, ["1", "2", "4"]), (Duplicates::Last, ["5", "2", "4"])]
    {
        let out = folder.path().join(format!("{duplicates:?}").to_lowercase());
        let options = BuildOptions { duplicates, out, ..options(&input, Some("key"), &["value"]) };
        let left_out = LeftOut::default();
        let snapshot = build(&options, &BACKEND, &left_out).unwrap();
        let statistics = &snapshot.manifest().statistics;
        assert_eq!((left_out.0.get(), statistics.rows, statistics.value_bytes), (3, 3, 3));
        assert_eq!((statistics.longest_value_bytes, snapshot.manifest().table.entries), (1, 3));
        let mut look_ups = LookUps::new(&snapshot);
        for (key, value) in ["a", "b", "c"].into_iter().zip(expected) {
            assert_eq!(look_ups.fields(key.as_bytes()), [value]);
        }
    }
}

#[test]
fn one_row_of_each_key_is_taken_of_a_table_that_is_divided_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let pad = "x".repeat(1000);
    // The rows take more than two partitions of 16 MiB. Every third row repeats the key of the row
    // before.
    let rows: String = (0..36_000u32).map(|i| format!("k{},{pad}{i}\n", i - u32::from(i % 3 == 2))).collect();
    let input = write_file(folder.path(), "data.csv", format!("key,value\n{rows}"));
    for duplicates in [Duplicates::First, Duplicates::Last] {
        let folder = tempfile::tempdir().unwrap();
        let (options, left_out) = (options(&input, Some("key"), &["value"]), LeftOut::default());
        let options = BuildOptions { duplicates, ..options };
        let (table, statistics) = survey(&options, folder.path(), &left_out).unwrap();
        assert_eq!((table.entries, statistics.rows, left_out.0.get()), (24_000, 24_000, 12_000));
    }
}

#[test]
fn a_table_of_keys_without_values_is_a_set() {
    let folder = tempfile::tempdir().unwrap();
    let input = write_file(folder.path(), "data.csv", "host\nexample.org\nexample.net\n");
    let snapshot = try_build(&options(&input, Some("host"), &[])).unwrap();
    let manifest = snapshot.manifest();
    assert!(manifest.table.fields.is_empty() && manifest.statistics.value_bytes == 0);
    let mut look_ups = LookUps::new(&snapshot);
    assert_eq!(look_ups.key(b"example.net").unwrap(), Some(Vec::new()));
    assert_eq!(look_ups.key(b"example.com").unwrap(), None);
    let file = |name, content: &str| changes::Input {
        files: Files::one(write_file(folder.path(), name, content), Format::CSV),
        key: "host".into(),
        nulls: Nulls::Refuse,
    };
    let put = file("put.csv", "host\nexample.com\n");
    let delete = file("delete.csv", "host\nexample.net\n");
    let read = Changes::read(&manifest.table, Some(&put), Some(&delete)).unwrap();
    let lines = read.to_lines(&manifest.table).unwrap();
    let again = Changes::read_lines(&manifest.table, &lines[..], "lines".as_ref()).unwrap();
    assert_eq!(again.to_bytes(), read.to_bytes());
    assert_eq!(read.iter().count(), 2);
    for wrong in [r#"{"key": "a", "value": ""}"#, r#"{"key": "a", "value": {"x": 1}}"#] {
        let error = Changes::read_lines(&manifest.table, wrong.as_bytes(), "lines".as_ref()).unwrap_err();
        assert!(error.to_string().contains("its value must be {}: the table is a set"), "{error}");
    }
    let error = try_build(&BuildOptions { selection: columns(None, &[]), ..options(&input, None, &[]) });
    assert!(error.unwrap_err().to_string().contains("--value"));
}
