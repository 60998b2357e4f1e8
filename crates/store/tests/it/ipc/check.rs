//! Properties of arbitrary bytes read as Arrow's IPC format; the fuzzer `ipc` includes this file,
//! too.

use std::io::Cursor;
use std::path::Path;

use spirea_store::ingest::{Format, Nulls, Row, Selection, open_stream};

/// Maximum number of rows read from an input: a column of nulls can have any number of rows without
/// a byte for each.
pub const MOST_ROWS: usize = 1 << 10;

/// Reads bytes as a table of `k` and `v`; returns the keys of the first [`MOST_ROWS`] rows.
///
/// # Errors
/// The error, which names the input.
///
/// # Panics
/// If an error does not name the input, or progress goes back.
pub fn check(bytes: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let selection = Selection { key: Some("k".into()), values: vec!["v".into()], nulls: Nulls::Empty };
    let explain = |error: spirea_store::StoreError| {
        let error = error.to_string();
        assert!(error.starts_with("a.arrow"), "{error}");
        error
    };
    let content = Cursor::new(bytes.to_vec());
    let mut source =
        open_stream(content, Path::new("a.arrow"), Format::Arrow, &selection).map_err(explain)?;
    let (mut row, mut keys, mut before) = (Row::default(), Vec::new(), 0);
    while keys.len() < MOST_ROWS && source.next(&mut row).map_err(explain)? {
        assert_eq!(row.fields().len(), 1);
        keys.push(row.key().expect("the table has keys").to_vec());
        let (done, total) = source.progress();
        assert!(before <= done && done <= total, "{before}, {done} of {total}");
        before = done;
    }
    Ok(keys)
}
