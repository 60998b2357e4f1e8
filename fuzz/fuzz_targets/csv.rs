//! Any bytes decode to rows, or give an error that names the input. Rows survive being written and
//! read again.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use spirea_store::StoreError;
use spirea_store::ingest::csv::CsvRows;
use spirea_store::ingest::{Encoding, Quotes, Row, RowSource, Selection, Separated};

fn rows(csv: &[u8], quotes: Quotes, encoding: Encoding) -> Result<Vec<Row>, StoreError> {
    let selection = Selection { key: Some("a".into()), values: vec!["b".into()], ..Selection::default() };
    let form = Separated { encoding, ..Separated::by(b',', quotes) };
    let mut source = CsvRows::new(csv, csv.len() as u64, Path::new("a.csv"), form, &selection)?;
    let (mut rows, mut row) = (Vec::new(), Row::default());
    while source.next(&mut row)? {
        assert!(row.key().is_some() && row.fields().len() == 1);
        rows.push(row.clone());
    }
    Ok(rows)
}

fn check(csv: &[u8]) {
    let quoted = |csv: &[u8]| rows(csv, Quotes::Rfc4180, Encoding::Bytes);
    match quoted(csv) {
        Ok(read) => {
            let mut writer = csv::Writer::from_writer(Vec::new());
            writer.write_record(["a", "b"]).unwrap();
            for row in &read {
                writer.write_record(row.key().into_iter().chain(row.fields())).unwrap();
            }
            assert_eq!(quoted(&writer.into_inner().unwrap()).unwrap(), read);
        }
        Err(error) => assert!(error.to_string().starts_with("a.csv"), "{error}"),
    }
    for label in ["utf-8", "utf-16", "shift_jis"] {
        if let Err(error) = rows(csv, Quotes::Literal, label.parse().unwrap()) {
            assert!(error.to_string().starts_with("a.csv"), "{error}");
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    check(bytes);
    check(&[b"a,b\n", bytes].concat());
});
