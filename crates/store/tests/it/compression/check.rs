//! Properties of arbitrary bytes read as compressed input; the fuzzer `compressed` includes this
//! file, too.

use std::io::Cursor;
use std::path::Path;

use spirea_store::ingest::{Format, Row, Selection, open_stream};

/// Maximum number of rows read from an input, because a small archive may contain any number of
/// rows.
pub const MOST_ROWS: usize = 1 << 10;

/// Reads bytes as a compressed table of `k` and `v`; returns the number of rows, up to
/// [`MOST_ROWS`].
///
/// # Errors
/// The error, which names the input.
///
/// # Panics
/// If an error does not name the input, or progress goes back.
pub fn check(bytes: &[u8]) -> Result<usize, String> {
    let selection = Selection { key: Some("k".into()), values: vec!["v".into()], ..Selection::default() };
    let name = Path::new("a.csv.gz");
    let explain = |error: spirea_store::StoreError| {
        let error = error.to_string();
        assert!(error.starts_with("a.csv.gz"), "{error}");
        error
    };
    let content = Cursor::new(bytes.to_vec());
    let mut source = open_stream(content, name, Format::CSV, &selection).map_err(explain)?;
    let (mut row, mut rows, mut before) = (Row::default(), 0, 0);
    while rows < MOST_ROWS && source.next(&mut row).map_err(explain)? {
        assert!(row.key().is_some() && row.fields().len() == 1);
        let (done, total) = source.progress();
        assert!(before <= done && done <= total.max(bytes.len() as u64), "{before}, {done} of {total}");
        before = done;
        rows += 1;
    }
    Ok(rows)
}
