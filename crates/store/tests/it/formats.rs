//! Every format, well-formed and malformed.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, DictionaryArray, FixedSizeBinaryArray, Float64Array, Int64Array,
    LargeStringArray, RecordBatch, StringArray, StringViewArray,
};
use parquet::arrow::ArrowWriter;
use parquet::basic::{BrotliLevel, Compression, GzipLevel, ZstdLevel};
use parquet::file::properties::WriterProperties;
use proptest::prelude::*;
use spirea_specimens::LookUps;
use spirea_specimens::snapshots::{columns, options, try_build, write_file};
use spirea_store::ingest::{
    self, Blank, Encoding, Format, FormatHints, Header, Lines, Nulls, Quotes, Row, Selection, Space,
};
use spirea_store::{Location, StoreError};

type Rows = Vec<(Option<Vec<u8>>, Vec<Vec<u8>>)>;

fn read(path: &Path, selection: &Selection) -> Result<Rows, StoreError> {
    let record_bytes = (path.extension().unwrap() == "raw").then_some(4);
    read_as(path, FormatHints { record_bytes, ..FormatHints::default() }, selection)
}

fn read_as(path: &Path, hints: FormatHints<'_>, selection: &Selection) -> Result<Rows, StoreError> {
    let mut source = ingest::open(path, Format::choose(hints, path)?, selection)?;
    let (mut rows, mut row) = (Vec::new(), Row::default());
    while source.next(&mut row)? {
        rows.push((row.key().map(<[u8]>::to_vec), row.fields().map(<[u8]>::to_vec).collect()));
    }
    let (done, total) = source.progress();
    assert!(done <= total);
    Ok(rows)
}

fn read_bytes(name: &str, content: impl AsRef<[u8]>, selection: &Selection) -> Result<Rows, StoreError> {
    let folder = tempfile::tempdir().unwrap();
    read(&write_file(folder.path(), name, content), selection)
}

/// Returns the message for a malformed file, without the folder.
fn message(name: &str, content: impl AsRef<[u8]>, selection: &Selection) -> String {
    let text = read_bytes(name, content, selection).unwrap_err().to_string();
    text.find(name).map_or(text.clone(), |at| text[at..].to_string())
}

fn keyed(key: &str, fields: &[&str]) -> (Option<Vec<u8>>, Vec<Vec<u8>>) {
    (Some(key.into()), fields.iter().map(|&field| field.into()).collect())
}

#[test]
fn csv_as_rfc_4180_has_it() {
    let content = "\u{feff}\"k\",skip,v\r\na,x,1\r\n\"b\"\"q\",\"x,\ny\",\"2\n3\"\r\n,,\r\n\r\n";
    let rows = read_bytes("data.csv", content, &columns(Some("k"), &["v"])).unwrap();
    assert_eq!(rows, [keyed("a", &["1"]), keyed("b\"q", &["2\n3"]), keyed("", &[""])]);
    let folder = tempfile::tempdir().unwrap();
    let bytes = write_file(folder.path(), "data.csv", b"v\n\xff\x00\n\"\"\n");
    let hints = FormatHints { encoding: Some(Encoding::Bytes), ..FormatHints::default() };
    let rows = read_as(&bytes, hints, &columns(None, &["v"])).unwrap();
    assert_eq!(rows, [(None, vec![vec![0xff, 0]]), (None, vec![vec![]])]);
}

#[test]
fn text_of_another_encoding_is_refused_until_it_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let selection = columns(Some("k"), &["v"]);
    for (name, content, encoding, key) in [
        ("latin1.csv", &b"k,v\ncaf\xe9,1\n"[..], "latin1", "caf\u{e9}"),
        ("shiftjis.csv", b"k,v\n\x93\x8c\x8b\x9e,1\n", "shift_jis", "\u{6771}\u{4eac}"),
        ("latin1.tsv", b"k\tv\ncaf\xe9\t1\n", "windows-1252", "caf\u{e9}"),
        ("latin1.jsonl", b"\n{\"k\": \"caf\xe9\", \"v\": 1}\n", "latin1", "caf\u{e9}"),
    ] {
        let path = write_file(folder.path(), name, content);
        let refusal = read(&path, &selection).unwrap_err().to_string();
        assert!(refusal.contains(&format!("{name}:2: its text is not UTF-8")), "{refusal}");
        assert!(refusal.contains("--encoding windows-1252"), "{refusal}");
        let hints = FormatHints { encoding: Some(encoding.parse().unwrap()), ..FormatHints::default() };
        assert_eq!(read_as(&path, hints, &selection).unwrap(), [keyed(key, &["1"])], "{name}");
    }
    let header = write_file(folder.path(), "header.csv", b"cl\xe9,v\na,1\n");
    let refusal = read(&header, &columns(Some("cl\u{e9}"), &["v"])).unwrap_err().to_string();
    assert!(refusal.contains("header.csv:1: its text is not UTF-8"), "{refusal}");
}

#[test]
fn quotes_in_tsv_are_characters_unless_it_is_said_that_they_are_quotes() {
    let folder = tempfile::tempdir().unwrap();
    let selection = columns(Some("k"), &["v"]);
    let swallowing = "k\tv\n1\t\"Hello\n2\tfoo\n3\tsays hi\"\n\"4\tb\"\"a\"r\n";
    let path = write_file(folder.path(), "data.tsv", swallowing);
    let rows = read(&path, &selection).unwrap();
    let expected = [("1", "\"Hello"), ("2", "foo"), ("3", "says hi\""), ("\"4", "b\"\"a\"r")];
    assert_eq!(rows, expected.map(|(key, value)| keyed(key, &[value])));
    let path = write_file(folder.path(), "data.tsv", "k\tv\n1\t\"Hello\n2\"\n");
    let hints = FormatHints { quotes: Some(Quotes::Rfc4180), ..FormatHints::default() };
    assert_eq!(read_as(&path, hints, &selection).unwrap(), [keyed("1", &["Hello\n2"])]);
}

#[test]
fn malformed_csv_names_the_line_and_a_remedy() {
    let selection = columns(Some("k"), &["v"]);
    for (content, expected) in [
        ("k,v\na,1\nb\n", "data.csv:3: it has 1 fields where the header has 2; put fields"),
        ("k,v\na,1\nb,2,3\n", "data.csv:3: it has 3 fields"),
        ("k,v\na,1\n\"b,2\nc,3\n", "data.csv:3: its quote is never closed"),
        ("k,v\n\"x\ny\",1\nb,a\"b\n", "data.csv:4: a quote inside an unquoted field"),
        ("k,v\na,\"1\"x\n", "data.csv:2: text after a closing quote"),
        ("k,v\ra,1\rb,2\r", "data.csv:1: a carriage return without a line feed"),
        ("", "data.csv: it is empty"),
        ("k;v\na;1\n", "data.csv:1: the header is one column, \"k;v\"; if its fields"),
        ("\u{feff}k\tv\na\t1\n", "data.csv:1: the header is one column"),
        ("kv\na\n", "data.csv:1: no column \"k\"; there are \"kv\""),
    ] {
        let message = message("data.csv", content, &selection);
        assert!(message.starts_with(expected), "{message}");
    }
}

#[test]
fn any_delimiter_stands_between_fields_and_commas_are_text_then() {
    let selection = columns(Some("k"), &["v"]);
    let tabs = "k\tv\na,b\t1;2\nc\t3\n";
    assert_eq!(
        read_bytes("data.tsv", tabs, &selection).unwrap(),
        [keyed("a,b", &["1;2"]), keyed("c", &["3"])]
    );
    let folder = tempfile::tempdir().unwrap();
    let path = write_file(folder.path(), "data.txt", "k;v\na,b;\"1;2\"\nc;\"3\n4\"\n");
    let hints = FormatHints { delimiter: Some(b';'), ..FormatHints::default() };
    let expected = [keyed("a,b", &["1;2"]), keyed("c", &["3\n4"])];
    assert_eq!(read_as(&path, hints, &selection).unwrap(), expected);
}

#[test]
fn separated_values_are_read_as_they_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let columns_of = |names: &[&str]| Header::Absent(names.iter().map(|&name| name.into()).collect());
    let comment = |prefix: &str| Some(prefix.to_owned());
    let read_lines = |name: &str, content: &str, delimiter, lines, selection: &Selection| {
        let path = write_file(folder.path(), name, content);
        let hints = FormatHints { delimiter, lines, ..FormatHints::default() };
        read_as(&path, hints, selection).map_err(|error| {
            let text = error.to_string();
            text.find(name).map_or(text.clone(), |at| text[at..].to_string())
        })
    };
    let plain = || Lines::PLAIN;
    let numbered = columns(Some("column1"), &["column2"]);
    let named = columns(Some("k"), &["v"]);
    for (name, content, delimiter, lines, selection, expected) in [
        (
            "a.csv",
            "A,3\nB,7\n",
            None,
            Lines { header: columns_of(&[]), ..plain() },
            &numbered,
            [("A", "3"), ("B", "7")],
        ),
        (
            "a.csv",
            "A,3\nB,7\n",
            None,
            Lines { header: columns_of(&["k", "v"]), ..plain() },
            &named,
            [("A", "3"), ("B", "7")],
        ),
        (
            "hashes.txt",
            "AD7:10\r\n0A8:4\r\n",
            Some(b':'),
            Lines { header: columns_of(&["k", "v"]), ..plain() },
            &named,
            [("AD7", "10"), ("0A8", "4")],
        ),
        (
            "a.csv",
            "# made\n\nk,v\na,1\n# more \"\nb,2 # not\n",
            None,
            Lines { comment: comment("#"), ..plain() },
            &named,
            [("a", "1"), ("b", "2 # not")],
        ),
        (
            "suffixes.dat",
            "// made\n\ncom,1\n\n  // more, \" \norg,2\n",
            None,
            Lines { header: columns_of(&["k", "v"]), comment: comment("//"), space: Space::Trim, ..plain() },
            &named,
            [("com", "1"), ("org", "2")],
        ),
        (
            "a.csv",
            "made by \"us\na, b, c\nk,v\na,1\nb,2\n",
            None,
            Lines { skip_rows: 2, ..plain() },
            &named,
            [("a", "1"), ("b", "2")],
        ),
        (
            "a.csv",
            " k ,\tv\n a , 1 \n \t\n \" b \" , \"2\n \" \n",
            None,
            Lines { space: Space::Trim, ..plain() },
            &named,
            [("a", "1"), (" b ", "2\n ")],
        ),
        (
            "a.tsv",
            "k\tv\n a\t1 \n\t\n",
            None,
            Lines { space: Space::Trim, ..plain() },
            &named,
            [("a", "1"), ("", "")],
        ),
        ("a.csv", "\nk,v\n\r\na,1\n\n\nb,2\n\n", None, plain(), &named, [("a", "1"), ("b", "2")]),
    ] {
        let expected = expected.map(|(key, value)| keyed(key, &[value]));
        assert_eq!(
            read_lines(name, content, delimiter, lines, selection).as_deref(),
            Ok(&expected[..]),
            "{content:?}"
        );
    }
    let single = columns(None, &["column1"]);
    let list = || Lines { header: columns_of(&[]), ..plain() };
    let skip = Lines { blank: Blank::Skip, ..list() };
    let of = |text: &str| (None, vec![text.as_bytes().to_vec()]);
    assert_eq!(read_lines("list.txt", "a\n\nb\n\n", None, skip, &single).unwrap(), [of("a"), of("b")]);
    assert_eq!(read_lines("list.txt", "a\n\"\"\n\n", None, list(), &single).unwrap(), [of("a"), of("")]);
    for (content, lines, selection, expected) in [
        (
            "a\n\nb\n",
            list(),
            &single,
            "list.txt:2: a blank line, which may be an empty value; leave blank lines out with --skip-blank",
        ),
        (
            "a,1\n#x\nb\n",
            Lines { comment: comment("#"), ..list() },
            &numbered,
            "list.txt:3: it has 1 fields where the first row has 2",
        ),
        (
            "a,1\n",
            Lines { header: columns_of(&["k"]), ..plain() },
            &columns(None, &["k"]),
            "list.txt:1: it has 2 fields where --columns names 1",
        ),
        ("a,1\n", list(), &named, "list.txt:1: no column \"k\"; there are \"column1\", \"column2\""),
        (
            "k,v\n#\n\nb,\"2\nx\"y\n",
            Lines { comment: comment("#"), ..plain() },
            &named,
            "list.txt:5: text after a closing quote",
        ),
        (
            "#\n",
            Lines { comment: comment("#"), ..list() },
            &single,
            "list.txt: it is empty; name its columns",
        ),
    ] {
        let message = read_lines("list.txt", content, None, lines, selection).unwrap_err();
        assert!(message.starts_with(expected), "{message}");
    }
    for (name, lines, part) in [
        ("a.jsonl", list(), "belong to the formats csv and tsv"),
        ("a.csv", Lines { comment: comment(""), ..plain() }, "--comment"),
        ("a.csv", Lines { comment: comment("#\n"), ..plain() }, "--comment"),
    ] {
        let message = Format::choose(FormatHints { lines, ..FormatHints::default() }, Path::new(name))
            .unwrap_err()
            .to_string();
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn wide_text_is_told_from_text() {
    let wide = |unit: fn(u16) -> [u8; 2], mark: &[u16]| -> Vec<u8> {
        mark.iter().copied().chain("k,v\na,1\n".encode_utf16()).flat_map(unit).collect()
    };
    let selection = columns(Some("k"), &["v"]);
    let folder = tempfile::tempdir().unwrap();
    for (content, encoding) in [
        (wide(u16::to_le_bytes, &[0xfeff]), "utf-16"),
        (wide(u16::to_be_bytes, &[0xfeff]), "utf-16"),
        (wide(u16::to_le_bytes, &[]), "utf-16le"),
        (wide(u16::to_be_bytes, &[]), "utf-16be"),
    ] {
        for name in ["data.csv", "data.jsonl"] {
            let message = message(name, &content, &selection);
            assert!(message.contains("--encoding utf-16") && message.contains("iconv"), "{message}");
        }
        let path = write_file(folder.path(), "data.csv", &content);
        let hints = FormatHints { encoding: Some(encoding.parse().unwrap()), ..FormatHints::default() };
        assert_eq!(read_as(&path, hints, &selection).unwrap(), [keyed("a", &["1"])]);
    }
}

#[test]
fn nulls_are_refused_empty_or_skipped_as_was_said() {
    let folder = tempfile::tempdir().unwrap();
    let lines = "{\"k\":\"a\",\"v\":null}\n{\"k\":\"b\",\"v\":\"1\"}\n";
    let jsonl = write_file(folder.path(), "data.jsonl", lines);
    let table = folder.path().join("data.parquet");
    let keys = Arc::new(StringArray::from(vec!["a", "b"])) as ArrayRef;
    let values = Arc::new(StringArray::from(vec![None, Some("1")])) as ArrayRef;
    parquet(&table, vec![("k", keys), ("v", values)], Compression::SNAPPY);
    for path in [&jsonl, &table] {
        let rows = |key: &str, value: &str, nulls| {
            read(path, &Selection { nulls, ..columns(Some(key), &[value]) })
                .map_err(|error| error.to_string())
        };
        assert!(rows("k", "v", Nulls::Refuse).unwrap_err().contains("--nulls"));
        assert_eq!(rows("k", "v", Nulls::Empty).unwrap(), [keyed("a", &[""]), keyed("b", &["1"])]);
        assert_eq!(rows("k", "v", Nulls::Skip).unwrap(), [keyed("b", &["1"])]);
        // A key must not be null.
        assert!(rows("v", "k", Nulls::Empty).unwrap_err().contains("\"v\" is null"));
        assert_eq!(rows("v", "k", Nulls::Skip).unwrap(), [keyed("1", &["b"])]);
    }
}

#[test]
fn jsonl_keeps_text_and_numbers_as_they_are() {
    let content = concat!(
        "{\"k\": \"a\", \"v\": \"x\\ny \\u00e9\", \"w\": 18446744073709551616.50}\n",
        "\n",
        "  {\"w\": [1, {\"b\" : \"c d\\\" e\"}], \"more\": null, \"v\": true, \"k\": 7}\r\n",
        "{\"k\":\"\",\"v\":\"\",\"w\":-0.0}",
    );
    let rows = read_bytes("data.jsonl", content, &columns(Some("k"), &["v", "w"])).unwrap();
    let expected = [
        keyed("a", &["x\ny é", "18446744073709551616.50"]),
        keyed("7", &["true", "[1,{\"b\":\"c d\\\" e\"}]"]),
        keyed("", &["", "-0.0"]),
    ];
    assert_eq!(rows, expected);
    let rows = read_bytes("data.jsonl", "{\"k\":\"a\"}\n", &columns(Some("k"), &["k"])).unwrap();
    assert_eq!(rows, [keyed("a", &["a"])]);
}

#[test]
fn malformed_jsonl_names_the_line_and_a_remedy() {
    let selection = columns(Some("k"), &["v"]);
    for (content, expected) in [
        ("{\"k\":1,\"v\":2}\n{\"k\":1,\"v\":\n", "data.jsonl:2: EOF while parsing"),
        ("{\"k\":1,\"v\":2} x\n", "data.jsonl:1: trailing characters"),
        ("[1,2]\n", "data.jsonl:1: invalid type: sequence, expected an object"),
        ("{\"k\":1,\"v\":null}\n", "data.jsonl:1: column \"v\" is null"),
        (
            "{\"k\":1,\"w\":2}\n",
            "data.jsonl:1: the row has no field \"v\"; it has \"k\", \"w\"; give every row",
        ),
        ("{\"k\":1,\"k\":2,\"v\":1}\n", "data.jsonl:1: two members are called \"k\""),
        ("{\"k\":1,\"v\":\"\\ud800\"}\n", "data.jsonl:1: "),
        ("{\"k\":1,\"v\":2}\n{\n", "data.jsonl:2: "),
        ("{\"k\":5.0,\"v\":2}\n", "data.jsonl:1: its key is 5.0, whose text nobody can be sure to repeat"),
        ("{\"k\":1e3,\"v\":2}\n", "data.jsonl:1: its key is 1e3"),
        ("{\"k\":[1],\"v\":2}\n", "data.jsonl:1: its key is a list or an object"),
    ] {
        let message = message("data.jsonl", content, &selection);
        assert!(message.starts_with(expected), "{message}");
    }
    // Deep nesting is ordinary text: no code recurses over it.
    let (open, close) = ("[".repeat(100_000), "]".repeat(100_000));
    let rows = read_bytes("data.jsonl", format!("{{\"k\":1,\"v\":{open} {close}}}\n"), &selection).unwrap();
    assert_eq!(rows, [keyed("1", &[&format!("{open}{close}")])]);
}

fn parquet(path: &Path, columns: Vec<(&str, ArrayRef)>, compression: Compression) {
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let properties = WriterProperties::builder().set_compression(compression).build();
    let mut writer =
        ArrowWriter::try_new(File::create(path).unwrap(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

fn typed_columns() -> Vec<(&'static str, ArrayRef)> {
    let binary: Vec<&[u8]> = vec![b"\xff\x00", b""];
    let fixed = FixedSizeBinaryArray::try_from_iter([[1u8, 2], [3, 0xfe]].iter()).unwrap();
    let categories: DictionaryArray<Int32Type> = ["red", "red"].into_iter().collect();
    vec![
        ("text", Arc::new(StringArray::from(vec!["a", "é"]))),
        ("large", Arc::new(LargeStringArray::from(vec!["b", ""]))),
        ("view", Arc::new(StringViewArray::from(vec!["c", "longer than twelve bytes"]))),
        ("binary", Arc::new(BinaryArray::from(binary))),
        ("fixed", Arc::new(fixed)),
        ("categories", Arc::new(categories)),
        ("integer", Arc::new(Int64Array::from(vec![-5, i64::MAX]))),
        ("float", Arc::new(Float64Array::from(vec![0.1, 2.0]))),
        ("bool", Arc::new(BooleanArray::from(vec![true, false]))),
    ]
}

#[test]
fn parquet_of_every_compression_and_type() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.parquet");
    let compressions = [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::GZIP(GzipLevel::default()),
        Compression::ZSTD(ZstdLevel::default()),
        Compression::LZ4_RAW,
        Compression::BROTLI(BrotliLevel::default()),
    ];
    for compression in compressions {
        parquet(&path, typed_columns(), compression);
        // The columns are selected in another order than in the file, and one of them twice.
        let values = ["text", "fixed", "large", "view", "categories", "integer", "float", "bool"];
        let rows = read(&path, &columns(Some("binary"), &values)).unwrap();
        let text = |text: &str| text.as_bytes().to_vec();
        let first = ["a", "\u{1}\u{2}", "b", "c", "red", "-5", "0.1", "true"].map(text).to_vec();
        assert_eq!(rows[0], (Some(vec![0xff, 0]), first));
        let mut second =
            ["é", "", "", "longer than twelve bytes", "red", "9223372036854775807", "2", "false"]
                .map(text)
                .to_vec();
        second[1] = vec![3, 0xfe];
        assert_eq!(rows[1], (Some(vec![]), second));
    }
    assert_eq!(read(&path, &columns(Some("text"), &["text"])).unwrap()[0], keyed("a", &["a"]));
}

#[test]
fn parquet_of_many_batches_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.parquet");
    let numbers = Arc::new(Int64Array::from_iter_values(0..30_000)) as ArrayRef;
    parquet(&path, vec![("n", numbers)], Compression::SNAPPY);
    let rows = read(&path, &columns(None, &["n"])).unwrap();
    assert_eq!(rows.len(), 30_000);
    assert!(rows.iter().enumerate().all(|(i, (_, fields))| fields[0] == i.to_string().as_bytes()));
}

#[test]
fn malformed_parquet_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.parquet");
    let nulls = Arc::new(StringArray::from(vec![Some("a"), None])) as ArrayRef;
    parquet(&path, vec![("v", nulls)], Compression::SNAPPY);
    let null = read(&path, &columns(None, &["v"])).unwrap_err();
    assert!(
        matches!(&null, StoreError::Null { place: Location::Row(_, 2), column } if column == "v"),
        "{null}"
    );
    let error = read(&path, &columns(None, &["w"])).unwrap_err().to_string();
    assert!(error.contains("no column \"w\"; there are \"v\""), "{error}");

    parquet(&path, typed_columns(), Compression::SNAPPY);
    let good = std::fs::read(&path).unwrap();
    let selection = columns(Some("binary"), &["text", "float"]);
    for length in [0, 3, 8, good.len() / 2, good.len() - 1] {
        let message = message("data.parquet", &good[..length], &selection);
        assert!(message.contains("cannot be read as Parquet"), "{message}");
    }
}

fn npy(header: &str, data: &[u8]) -> Vec<u8> {
    let header = format!("{header:<117}\n");
    [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), data].concat()
}

#[test]
fn damaged_parquet_is_rows_or_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.parquet");
    parquet(&path, typed_columns(), Compression::UNCOMPRESSED);
    let good = std::fs::read(&path).unwrap();
    let selection = columns(Some("binary"), &["text", "large", "categories", "float"]);
    let mut refused = 0;
    for at in 0..good.len() {
        let mut flipped = good.clone();
        flipped[at] ^= 1 << (at % 8);
        if let Err(error) = read_bytes("data.parquet", flipped, &selection) {
            assert!(error.to_string().contains("data.parquet"), "byte {at}: {error}");
            refused += 1;
        }
    }
    assert!(refused > 0, "no flipped bit was found");
}

#[test]
fn npy_rows_are_their_bytes() {
    let content = npy("{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3), }", b"abcdefghijkl");
    let rows = read_bytes("data.npy", &content, &Selection::default()).unwrap();
    assert_eq!(rows, [(None, vec![b"abcdef".to_vec()]), (None, vec![b"ghijkl".to_vec()])]);
    let content = npy("{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }", b"abc");
    assert_eq!(read_bytes("data.npy", &content, &Selection::default()).unwrap().len(), 3);
}

#[test]
fn npy_of_other_byte_orders_and_of_text_is_converted() {
    let rows = |descr: &str, data: &[u8]| {
        let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': (2,), }}");
        let rows = read_bytes("data.npy", npy(&header, data), &Selection::default());
        rows.map(|rows| rows.into_iter().map(|(_, mut fields)| fields.remove(0)).collect::<Vec<_>>())
    };
    assert_eq!(rows(">i4", b"\0\0\x01\x02\0\0\0\x03").unwrap(), [b"\x02\x01\0\0", b"\x03\0\0\0"]);
    assert_eq!(rows(">c4", b"abcdefgh").unwrap(), [b"badc", b"fehg"]);
    assert_eq!(rows("|u1", b"ab").unwrap(), [b"a", b"b"]);
    let text = ['\u{e9}', 'z', '\0', 'a', '\0', '\0'].map(u32::from);
    let [little, big] = [u32::to_le_bytes, u32::to_be_bytes].map(|bytes| text.map(bytes).concat());
    for (descr, data) in [("<U3", little), (">U3", big)] {
        assert_eq!(rows(descr, &data).unwrap(), ["\u{e9}z".as_bytes(), b"a"]);
    }
    let error = rows("<U1", &[0, 0xd8, 0, 0, b'a', 0, 0, 0]).unwrap_err().to_string();
    assert!(error.contains("row 1") && error.contains("no character"), "{error}");
}

#[test]
fn malformed_npy_is_refused_with_a_remedy() {
    let selection = Selection::default();
    let good = npy("{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3), }", b"abcdefghijkl");
    for (content, expected) in [
        (good[..good.len() - 1].to_vec(), "11 bytes where its shape says 12"),
        ([&good[..], b"x"].concat(), "13 bytes"),
        (good[..60].to_vec(), "cut off"),
        (b"PK\x03\x04 an npz".to_vec(), "zip data cannot be read"),
        (Vec::new(), "numpy.save"),
        (npy("{'descr': '<i2', 'fortran_order': True, 'shape': (2, 3), }", b"abcdefghijkl"), "ascontiguous"),
        (npy("{'descr': '<i2', 'fortran_order': False, 'shape': (2, 0), }", b""), "no bytes"),
        (npy("{'descr': '|S2000000', 'fortran_order': False, 'shape': (1,), }", &[0; 2_000_000]), "limit"),
    ] {
        let message = message("data.npy", content, &selection);
        assert!(message.starts_with("data.npy") && message.contains(expected), "{message}");
    }
    let message = message("data.npy", good, &columns(Some("k"), &["v"]));
    assert!(message.contains("no named columns"), "{message}");
}

#[test]
fn raw_rows_have_a_fixed_size() {
    let rows = read_bytes("data.raw", b"abcdefgh", &Selection::default()).unwrap();
    assert_eq!(rows, [(None, vec![b"abcd".to_vec()]), (None, vec![b"efgh".to_vec()])]);
    let message = message("data.raw", b"abcdefg", &Selection::default());
    assert!(message.contains("7 bytes are not a multiple of --record-bytes 4"), "{message}");
}

#[test]
fn every_format_builds_a_table() {
    let folder = tempfile::tempdir().unwrap();
    let cases: [(&str, Vec<u8>); 2] = [
        ("keyed.csv", b"k,v\na,1\nb,two\n".to_vec()),
        ("keyed.jsonl", b"{\"k\":\"a\",\"v\":1}\n{\"k\":\"b\",\"v\":\"two\"}\n".to_vec()),
    ];
    let check = |path: &Path| {
        let mut options = options(path, Some("k"), &["v"]);
        options.overwrite = spirea_store::Overwrite::Replace;
        let mut lookups = LookUps::new(&try_build(&options).unwrap());
        assert_eq!(lookups.key(b"a").unwrap(), Some(b"1".to_vec()));
        assert_eq!(lookups.key(b"b").unwrap(), Some(b"two".to_vec()));
        assert_eq!(lookups.key(b"c").unwrap(), None);
    };
    for (name, content) in cases {
        check(&write_file(folder.path(), name, content));
    }
    let path = folder.path().join("keyed.parquet");
    let column = |cells: Vec<&str>| Arc::new(StringArray::from(cells)) as ArrayRef;
    let keyed = vec![("k", column(vec!["a", "b"])), ("v", column(vec!["1", "two"]))];
    parquet(&path, keyed, Compression::SNAPPY);
    check(&path);
    for (name, content) in [
        ("plain.raw", b"abcdefgh".to_vec()),
        ("plain.npy", npy("{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }", b"abcdefgh")),
    ] {
        let mut options = options(&write_file(folder.path(), name, content), None, &[]);
        options.overwrite = spirea_store::Overwrite::Replace;
        let snapshot = try_build(&options).unwrap();
        assert_eq!(snapshot.manifest().table.fields, ["value"]);
        let mut lookups = LookUps::new(&snapshot);
        assert_eq!(lookups.index(0).unwrap(), Some(b"abcd".to_vec()));
        assert_eq!(lookups.index(1).unwrap(), Some(b"efgh".to_vec()));
    }
}

proptest! {
    #[test]
    fn any_bytes_are_rows_or_an_error_that_names_the_file(content: Vec<u8>, text in "[ab\",\r\n{}:\\[\\]0nul\\\\]{0,60}") {
        let selection = columns(Some("a"), &["b"]);
        for content in [content, [b"a,b\n", text.as_bytes()].concat()] {
            for name in ["data.csv", "data.jsonl", "data.parquet", "data.npy", "data.raw"] {
                let columns = name.contains("csv") || name.contains("jsonl") || name.contains("parquet");
                let unnamed = Selection::default();
                if let Err(error) = read_bytes(name, &content, if columns { &selection } else { &unnamed }) {
                    prop_assert!(error.to_string().contains(name), "{}", error);
                }
            }
        }
    }

    #[test]
    fn what_a_csv_writer_writes_is_read_back(
        table in proptest::collection::vec(("[a\",\r\n é]{0,8}", proptest::collection::vec(any::<u8>(), 0..20)), 0..20),
    ) {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(["k", "v"]).unwrap();
        for (key, value) in &table {
            writer.write_record([key.as_bytes(), value]).unwrap();
        }
        let folder = tempfile::tempdir().unwrap();
        let path = write_file(folder.path(), "data.csv", writer.into_inner().unwrap());
        let hints = FormatHints { encoding: Some(Encoding::Bytes), ..FormatHints::default() };
        let rows = read_as(&path, hints, &columns(Some("k"), &["v"])).unwrap();
        let expected: Rows = table.into_iter().map(|(key, value)| (Some(key.into_bytes()), vec![value])).collect();
        prop_assert_eq!(rows, expected);
    }
}
