//! NumPy arrays and Parquet files from an attacker. Any bytes give rows or an error that names the
//! file. `SPIREA_CONFORMANCE=long` reads 100,000 of each.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, DictionaryArray, Int64Array, RecordBatch, StringArray, types::Int32Type};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use spirea_specimens::snapshots::columns;
use spirea_specimens::{Inputs, inputs};
use spirea_store::StoreError;
use spirea_store::ingest::{self, Format, Row, Selection};

/// Maximum number of rows read from a file, because a header may state any length.
const MOST_ROWS: usize = 1 << 10;

/// Reads the first rows of a file with this content, and returns their number.
fn read(path: &Path, format: Format, content: &[u8], selection: &Selection) -> Result<usize, StoreError> {
    std::fs::write(path, content).unwrap();
    let (mut row, mut count) = (Row::default(), 0);
    let mut source = ingest::open(path, format, selection)?;
    while count < MOST_ROWS && source.next(&mut row)? {
        count += 1;
    }
    Ok(count)
}

/// Reads many changed files.
fn check(name: &str, format: &Format, corpus: &[Vec<u8>], short: usize, selection: &Selection) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    for content in corpus {
        assert_eq!(read(&path, format.clone(), content, selection).unwrap(), 3);
    }
    let (mut made, mut rows) = (Inputs::new(6), 0);
    for _ in 0..inputs(short) {
        match read(&path, format.clone(), &made.changed(corpus), selection) {
            Ok(read) => rows += read,
            Err(error) => assert!(error.to_string().contains(name), "{error}"),
        }
    }
    assert!(rows > 0, "some changes leave rows");
}

#[test]
fn any_bytes_are_a_numpy_array_or_an_error() {
    let array = |header: &str, data: &[u8]| {
        let length = u16::try_from(header.len() + 1).unwrap().to_le_bytes();
        [b"\x93NUMPY\x01\0", &length[..], header.as_bytes(), b"\n", data].concat()
    };
    let corpus = [
        array("{'descr': '<i2', 'fortran_order': False, 'shape': (3, 2), }", b"abcdefghijkl"),
        array("{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }", b"abc"),
        array("{'descr': '>U1', 'fortran_order': False, 'shape': (3,), }", b"\0\0\0a\0\0\0b\0\0\0c"),
    ];
    check("a.npy", &Format::Npy, &corpus, 1000, &Selection::default());
}

#[test]
fn any_bytes_are_a_parquet_file_or_an_error() {
    let words: DictionaryArray<Int32Type> = ["x", "y", "x"].into_iter().collect();
    let file = |values: ArrayRef, compression| {
        let keys: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "c"]));
        let batch = RecordBatch::try_from_iter([("k", keys), ("v", values)]).unwrap();
        let properties = WriterProperties::builder().set_compression(compression).build();
        let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.into_inner().unwrap()
    };
    let corpus = [
        file(Arc::new(words), Compression::UNCOMPRESSED),
        file(Arc::new(Int64Array::from(vec![1, 2, 3])), Compression::SNAPPY),
        file(Arc::new(StringArray::from(vec!["x", "", "z"])), Compression::ZSTD(ZstdLevel::default())),
    ];
    check("a.parquet", &Format::Parquet, &corpus, 1000, &columns(Some("k"), &["v"]));
}
