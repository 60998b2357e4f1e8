//! Any bytes decode to rows, or give an error that names the input. An array of strings gives
//! exactly the strings that serde_json reads.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use spirea_store::StoreError;
use spirea_store::ingest::json::JsonRows;
use spirea_store::ingest::{Encoding, Row, RowSource, Selection};

fn rows(json: &[u8], selection: &Selection) -> Result<Vec<Row>, StoreError> {
    let mut source = JsonRows::new(json, json.len() as u64, Path::new("a.json"), Encoding::Utf8, selection)?;
    let (mut rows, mut row) = (Vec::new(), Row::default());
    while source.next(&mut row)? {
        rows.push(row.clone());
    }
    Ok(rows)
}

fuzz_target!(|bytes: &[u8]| {
    let unnamed = Selection::default();
    let named = Selection { key: Some("a".into()), values: vec!["b".into()], ..Selection::default() };
    for selection in [&unnamed, &named] {
        if let Err(error) = rows(bytes, selection) {
            let said = error.to_string();
            assert!(said.starts_with("a.json") || matches!(error, StoreError::BadOption(_)), "{said}");
        }
    }
    if let Ok(strings) = serde_json::from_slice::<Vec<String>>(bytes) {
        let read = rows(bytes, &unnamed).expect("an array of strings is a set");
        assert!(read.iter().map(Row::key).eq(strings.iter().map(|string| Some(string.as_bytes()))));
    }
});
