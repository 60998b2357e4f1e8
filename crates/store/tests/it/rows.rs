//! Tables outside of files, and stopped builds.

use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchIterator, StringArray};
use spirea_specimens::snapshots::{BACKEND, columns, options, try_build, write_file};
use spirea_store::ingest::arrow::BatchRows;
use spirea_store::ingest::raw::FixedRows;
use spirea_store::ingest::{RowSource, RowTable, Selection};
use spirea_store::manifest::{HINT_FILE, MATRIX_FILE};
use spirea_store::{BuildOptions, Input, Phase, Progress, StoreError, build};

/// Table of values of 4 bytes each.
#[derive(Debug)]
struct Bytes(Vec<u8>);

impl RowTable for Bytes {
    fn name(&self) -> &Path {
        Path::new("the array")
    }

    fn open(&self, _: &Selection) -> Result<Box<dyn RowSource + '_>, StoreError> {
        Ok(Box::new(FixedRows::new(&self.0[..], self.name(), 4, self.0.len() as u64 / 4)?))
    }
}

/// Table of keys and values, which is read in batches of three rows.
#[derive(Debug)]
struct Batches(Vec<(String, String)>);

impl RowTable for Batches {
    fn name(&self) -> &Path {
        Path::new("the frame")
    }

    fn open(&self, selection: &Selection) -> Result<Box<dyn RowSource + '_>, StoreError> {
        let batch = |rows: &[(String, String)]| {
            let keys: ArrayRef = Arc::new(StringArray::from_iter_values(rows.iter().map(|(key, _)| key)));
            let values: ArrayRef =
                Arc::new(StringArray::from_iter_values(rows.iter().map(|(_, value)| value)));
            RecordBatch::try_from_iter([("value", values), ("key", keys)])
        };
        let batches: Vec<_> = self.0.chunks(3).map(batch).collect();
        let schema = batches[0].as_ref().unwrap().schema();
        Ok(Box::new(BatchRows::new(RecordBatchIterator::new(batches, schema), self.name(), selection, 0)?))
    }
}

fn of_rows(table: impl RowTable + 'static, selection: Selection, out: &Path) -> BuildOptions {
    let input = Input::Rows(Arc::new(table));
    BuildOptions { seed: Some([7; 32]), ..BuildOptions::of(input, selection, out) }
}

fn rows(count: usize) -> Vec<(String, String)> {
    (0..count).map(|row| (format!("key {row}"), format!("value {row}"))).collect()
}

/// Returns the files of a snapshot that depend on its rows.
fn files(folder: &Path) -> Vec<Vec<u8>> {
    [MATRIX_FILE, HINT_FILE].map(|name| std::fs::read(folder.join(name)).unwrap()).to_vec()
}

#[test]
fn rows_in_memory_make_the_same_table_as_those_of_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = (0..4000u32).flat_map(|i| (i / 4 * 7 % 251).to_le_bytes()).collect();
    let of_file = options(&write_file(folder.path(), "data.raw", &bytes), None, &[]);
    let from_file = try_build(&of_file).unwrap();
    let from_memory =
        try_build(&of_rows(Bytes(bytes), Selection::default(), &folder.path().join("memory"))).unwrap();
    assert_eq!(files(from_memory.folder()), files(from_file.folder()));

    let folder = tempfile::tempdir().unwrap();
    let lines: String = rows(500).iter().map(|(key, value)| format!("{key},{value}\n")).collect();
    let input = write_file(folder.path(), "data.csv", format!("key,value\n{lines}"));
    let from_file = try_build(&options(&input, Some("key"), &["value"])).unwrap();
    let selection = columns(Some("key"), &["value"]);
    let from_memory =
        try_build(&of_rows(Batches(rows(500)), selection, &folder.path().join("memory"))).unwrap();
    assert_eq!(files(from_memory.folder()), files(from_file.folder()));
}

#[test]
fn keys_that_stand_twice_are_found_in_memory_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut rows = rows(10);
    rows[8].0 = "key 2".into();
    let selection = columns(Some("key"), &["value"]);
    let error = try_build(&of_rows(Batches(rows), selection, &folder.path().join("table"))).unwrap_err();
    let expected = "the frame: duplicate keys: \"key 2\" in rows 3, 9; keep one row of each, or take one with --on-duplicate first or last";
    assert_eq!(error.to_string(), expected);
}

/// Stops in the given phase.
struct StopIn(Phase, Cell<bool>);

impl Progress for StopIn {
    fn update(&self, phase: Phase, _: u64, _: u64) {
        if phase == self.0 {
            self.1.set(true);
        }
    }

    fn is_stopped(&self) -> bool {
        self.1.get()
    }
}

#[test]
fn a_build_ends_in_the_phase_in_which_it_is_stopped_and_leaves_nothing() {
    for phase in [Phase::Read, Phase::Plan, Phase::Encode, Phase::Hint, Phase::Test] {
        let folder = tempfile::tempdir().unwrap();
        let options =
            of_rows(Batches(rows(50)), columns(Some("key"), &["value"]), &folder.path().join("table"));
        let error = build(&options, &BACKEND, &StopIn(phase, Cell::new(false))).unwrap_err();
        assert!(matches!(error, StoreError::Stopped), "{phase}: {error}");
        assert_eq!(folder.path().read_dir().unwrap().count(), 0, "{phase}");
    }
}
