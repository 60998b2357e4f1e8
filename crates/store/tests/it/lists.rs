//! Tables of several files: lists, folders, patterns, and columns from folder names.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array, Int64Array, LargeStringArray, RecordBatch, StringArray};
use arrow_ipc::writer::StreamWriter;
use flate2::Compression;
use flate2::read::GzEncoder;
use parquet::arrow::ArrowWriter;
use spirea_specimens::LookUps;
use spirea_specimens::snapshots::{BACKEND, columns, options, try_build, write_file};
use spirea_store::ingest::{Files, FormatHints, Nulls, Row, Selection};
use spirea_store::{BuildOptions, Duplicates, Input, Silent, StoreError, build};

/// Writes files into a new folder, creating their parent folders.
fn folder_with(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    folder
}

/// Finds the files of these inputs in a folder.
fn find(folder: &Path, inputs: &[&str]) -> Result<Files, String> {
    let inputs: Vec<PathBuf> = inputs.iter().map(|input| folder.join(input)).collect();
    Files::find(&inputs, &FormatHints::default()).map_err(|error| explain(folder, error))
}

/// Returns the text of an error without the folder's path.
fn explain(folder: &Path, error: StoreError) -> String {
    error.to_string().replace(&format!("{}/", folder.display()), "")
}

/// Reads the rows of these inputs, each as its cells joined by `,`.
fn read(folder: &Path, inputs: &[&str], selection: &Selection) -> Result<Vec<String>, String> {
    let explain = |error| explain(folder, error);
    let mut source = find(folder, inputs)?.open(selection).map_err(explain)?;
    let (mut rows, mut row) = (Vec::new(), Row::default());
    while source.next(&mut row).map_err(explain)? {
        let (done, total) = source.progress();
        assert!(done <= total, "{done} of {total}");
        let cells = row.key().into_iter().chain(row.fields());
        rows.push(cells.map(|cell| String::from_utf8_lossy(cell).into_owned()).collect::<Vec<_>>().join(","));
    }
    let (done, total) = source.progress();
    assert!(done == total && total > 0, "{done} of {total}");
    assert!(!source.next(&mut row).map_err(explain)?);
    Ok(rows)
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut compressed = Vec::new();
    std::io::copy(&mut GzEncoder::new(content, Compression::fast()), &mut compressed).unwrap();
    compressed
}

fn parquet(columns: Vec<(&str, ArrayRef)>) -> Vec<u8> {
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

fn arrow(columns: Vec<(&str, ArrayRef)>) -> Vec<u8> {
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

#[test]
fn rows_come_from_lists_folders_and_patterns_in_order() {
    let folder = folder_with(&[
        ("z.csv", b"k,v\nz,1\n"),
        ("a.csv", b"v,k\n2,a\n"),
        ("data/b/1.csv", b"k,v\nb1,3\n"),
        ("data/b.csv.gz", &gzip(b"k,v\nb,4\n")),
        ("data/B.csv", b"k,v\nB,5\nC,6\n"),
        ("data/.hidden.csv", b"no"),
        ("data/_SUCCESS", b""),
        ("data/_log/1.json", b"no"),
        ("data/.hidden/1.csv", b"no"),
        ("[x].csv", b"k,v\nx,7\n"),
        ("empty/_nothing", b""),
    ]);
    let at = folder.path();
    let selection = columns(Some("k"), &["v"]);
    let rows = |inputs: &[&str]| read(at, inputs, &selection);
    assert_eq!(rows(&["z.csv", "a.csv"]).unwrap(), ["z,1", "a,2"]);
    // In byte order, `.` precedes `/`, and capitals precede small letters.
    assert_eq!(rows(&["data"]).unwrap(), ["B,5", "C,6", "b,4", "b1,3"]);
    assert_eq!(rows(&["a.csv", "data/"]).unwrap(), ["a,2", "B,5", "C,6", "b,4", "b1,3"]);
    assert_eq!(rows(&["[az].csv"]).unwrap(), ["a,2", "z,1"]);
    assert_eq!(rows(&["data/*.csv*", "?.csv"]).unwrap(), ["B,5", "C,6", "b,4", "a,2", "z,1"]);
    // A pattern also matches folders, and finds each file once.
    assert_eq!(rows(&["data/**"]).unwrap(), ["B,5", "C,6", "b,4", "b1,3"]);
    assert_eq!(
        rows(&["data/.hid*.csv"]).unwrap_err(),
        "data/.hidden.csv:1: no column \"k\"; there are \"no\""
    );
    // A file with this very name takes precedence over the pattern.
    assert_eq!(rows(&["[x].csv"]).unwrap(), ["x,7"]);

    assert_eq!(rows(&["nothing*"]).unwrap_err(), "nothing*: no file matches this pattern");
    assert!(rows(&["empty"]).unwrap_err().starts_with("empty: the folder has no files"));
    assert!(rows(&["a.csv", "nothing.csv"]).unwrap_err().starts_with("nothing.csv: cannot open"));
    let error = Files::find(&["-".into(), at.join("a.csv")], &FormatHints::default()).unwrap_err();
    assert!(error.to_string().contains("standard input (-) is a table of its own"), "{error}");
    assert!(Files::find(&[], &FormatHints::default()).is_err());
    fs::write(at.join("data/other.jsonl"), "{}").unwrap();
    let error = rows(&["data"]).unwrap_err();
    assert!(
        error.starts_with("data/other.jsonl: its extension names another format than that of data/B.csv"),
        "{error}"
    );
    fs::remove_file(at.join("data/other.jsonl")).unwrap();
    std::os::unix::fs::symlink("..", at.join("data/b/up")).unwrap();
    assert!(rows(&["data"]).unwrap_err().starts_with("data/b/up: the folder lies in itself"));
}

#[test]
fn one_file_of_many_is_open_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    for i in 0..2000 {
        write_file(folder.path(), &format!("{i:04}.csv"), format!("k\n{i}\n"));
    }
    let selection = columns(None, &["k"]);
    let mut source = find(folder.path(), &["."]).unwrap().open(&selection).unwrap();
    let is_ours = |link: std::io::Result<fs::DirEntry>| {
        fs::read_link(link.unwrap().path()).is_ok_and(|path| path.starts_with(folder.path()))
    };
    let (mut row, mut rows) = (Row::default(), 0);
    while source.next(&mut row).unwrap() {
        assert_eq!(row.value(), rows.to_string().as_bytes());
        assert!(fs::read_dir("/proc/self/fd").unwrap().map(is_ours).filter(|&ours| ours).count() <= 1);
        rows += 1;
    }
    assert_eq!(rows, 2000);
}

#[test]
fn folders_give_columns() {
    let folder = folder_with(&[
        ("t/year=2024/month=05/a.csv", b"k,v,year\na,1,no\n"),
        ("t/year=2025/month=__HIVE_DEFAULT_PARTITION__/a.csv", b"year,k,v\nno,b,2\n"),
        ("t/month=%C3%A9%2F1/year=/a.csv", b"k,v,year\nc,3,no\n"),
        ("u/_part=1/1.jsonl", b"{\"v\": 1}"),
        ("u/_part=2/1.jsonl", b"{\"v\": null}\n{\"v\": 2}"),
        ("w/x=1/a.csv", b"k\n1\n"),
        ("w/y=1/a.csv", b"k\n1\n"),
        ("x/%FF=1/a.csv", b"k\n1\n"),
        ("y/a=1/a=2/a.csv", b"k\n1\n"),
    ]);
    let at = folder.path();
    let of = |key: Option<&str>, values: &[&str], nulls| Selection { nulls, ..columns(key, values) };
    let all = |nulls| of(Some("k"), &["month", "v", "year"], nulls);
    let expected = ["c,é/1,3,", "a,05,1,2024", "b,,2,2025"];
    assert_eq!(read(at, &["t"], &all(Nulls::Empty)).unwrap(), expected);
    assert_eq!(read(at, &["t"], &all(Nulls::Skip)).unwrap(), expected[..2]);
    let error = read(at, &["t"], &all(Nulls::Refuse)).unwrap_err();
    let place = "t/year=2025/month=__HIVE_DEFAULT_PARTITION__/a.csv:2: column \"month\" is null";
    assert!(error.starts_with(place), "{error}");
    assert_eq!(read(at, &["t/year=20*"], &columns(Some("year"), &["k"])).unwrap(), ["2024,a", "2025,b"]);
    assert_eq!(
        read(at, &["t/year=2024/month=05/a.csv"], &columns(Some("k"), &["year"])).unwrap(),
        ["a,2024"]
    );
    assert_eq!(read(at, &["u"], &of(Some("_part"), &["v"], Nulls::Skip)).unwrap(), ["1,1", "2,2"]);

    let selection = columns(None, &["k"]);
    for (input, part) in [
        ("w", "w/y=1/a.csv: its folders give other columns than those of w/x=1/a.csv"),
        ("x", "x/%FF=1/a.csv: its folder \"%FF=1\" is no text in UTF-8"),
        ("y", "y/a=1/a=2/a.csv: two of its folders give the column \"a\""),
    ] {
        let error = read(at, &[input], &selection).unwrap_err();
        assert!(error.starts_with(part), "{error}");
    }
}

#[test]
fn files_of_other_columns_or_types_are_refused() {
    let text = |text: &str| -> ArrayRef { Arc::new(StringArray::from(vec![text])) };
    let large = |text: &str| -> ArrayRef { Arc::new(LargeStringArray::from(vec![text])) };
    let (int, long): (ArrayRef, ArrayRef) =
        (Arc::new(Int32Array::from(vec![1])), Arc::new(Int64Array::from(vec![2])));
    let array = |descr: &str, bytes: &[u8]| {
        let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': (1,), }}");
        [b"\x93NUMPY\x01\0\x46\0", format!("{header:<69}\n").as_bytes(), bytes].concat()
    };
    let folder = folder_with(&[
        ("a.csv", b"k,v\na,1\n"),
        ("b.csv", b"k,w\nb,2\n"),
        ("c.csv", b"k,v,w\nc,3,4\n"),
        ("d.csv", b"k,v\nd,4\nd\n"),
        ("a.json", b"[\"a\"]"),
        ("b.json", b"{\"b\": 1}"),
        ("a.jsonl", b"{\"k\": 1, \"v\": 1}"),
        ("b.jsonl", b"{\"v\": 2, \"k\": 2}\n{\"k\": 3}"),
        ("a.arrow", &arrow(vec![("k", text("a")), ("v", int.clone()), ("w", int.clone())])),
        ("b.arrow", &arrow(vec![("w", long.clone()), ("v", int.clone()), ("k", large("b"))])),
        ("c.arrow", &arrow(vec![("k", text("c")), ("v", long.clone()), ("w", int.clone())])),
        ("a.parquet", &parquet(vec![("k", text("a")), ("v", int.clone()), ("w", int.clone())])),
        ("b.parquet", &parquet(vec![("w", long.clone()), ("v", int.clone()), ("k", large("b"))])),
        ("c.parquet", &parquet(vec![("k", text("c")), ("v", long), ("w", int)])),
        ("a.npy", &array("<i4", b"abcd")),
        ("b.npy", &array(">i4", b"dcba")),
        ("c.npy", &array("<f4", b"abcd")),
    ]);
    let at = folder.path();
    let table = columns(Some("k"), &["v"]);
    for (inputs, selection, error) in [
        (["a.csv", "b.csv"], &table, "b.csv:1: no column \"v\"; there are \"k\", \"w\""),
        (["a.csv", "b.csv"], &columns(Some("k"), &[]), "b.csv: it has no column \"v\", as there is in a.csv"),
        (["a.csv", "c.csv"], &table, "c.csv: it has a column \"w\", which is not in a.csv"),
        (["a.csv", "d.csv"], &table, "d.csv:3: it has 1 fields"),
        (
            ["a.json", "b.json"],
            &Selection::default(),
            "b.json: it has a column \"value\", which is not in a.json",
        ),
        (["a.jsonl", "b.jsonl"], &table, "b.jsonl:2: the row has no field \"v\"; it has \"k\""),
        (
            ["a.parquet", "c.parquet"],
            &table,
            "c.parquet: its column \"v\" is of type Int64, and of type Int32 in a.parquet",
        ),
        (
            ["a.arrow", "c.arrow"],
            &table,
            "c.arrow: its column \"v\" is of type Int64, and of type Int32 in a.arrow",
        ),
        (
            ["a.npy", "c.npy"],
            &Selection::default(),
            "c.npy: its rows are of type f4 in 4 bytes, and of type i4 in 4 bytes in a.npy",
        ),
    ] {
        let said = read(at, &inputs, selection).unwrap_err();
        assert!(said.starts_with(error), "{said}");
    }
    // These files can be combined: they have the same text in two types, the same numbers in two
    // byte orders, or an unread column of different types.
    assert_eq!(read(at, &["a.parquet", "b.parquet"], &table).unwrap(), ["a,1", "b,1"]);
    assert_eq!(read(at, &["a.arrow", "b.arrow"], &table).unwrap(), ["a,1", "b,1"]);
    assert_eq!(read(at, &["a.npy", "b.npy"], &Selection::default()).unwrap(), ["abcd", "abcd"]);
}

#[test]
fn keys_of_several_files_are_those_of_one_table() {
    let folder = folder_with(&[("d/1.csv", b"k,v\na,1\nb,2\n"), ("d/2.csv", b"k,v\nc,3\na,4\n")]);
    let at = folder.path();
    let out = at.join("table");
    let input = |inputs: &[&str]| Input::Files(find(at, inputs).unwrap());
    let from = |inputs: &[&str], key| BuildOptions {
        out: out.clone(),
        input: input(inputs),
        ..options(&at.join("d/1.csv"), key, &["v"])
    };
    let refused = |inputs: &[&str]| explain(at, try_build(&from(inputs, Some("k"))).unwrap_err());
    assert!(refused(&["d"]).starts_with("d: duplicate keys: \"a\" in d/1.csv:2, d/2.csv:3; keep one row"));
    assert!(refused(&["d/1.csv", "d/2.csv"]).starts_with("d/1.csv and 1 more inputs: duplicate keys: \"a\""));
    for (duplicates, inputs, expected) in [
        (Duplicates::First, ["d/1.csv", "d/2.csv"], "1"),
        (Duplicates::Last, ["d/1.csv", "d/2.csv"], "4"),
        (Duplicates::First, ["d/2.csv", "d/1.csv"], "4"),
    ] {
        let out = at.join(format!("{duplicates:?}-{expected}").to_lowercase());
        let options = BuildOptions { duplicates, out, ..from(&inputs, Some("k")) };
        let snapshot = build(&options, &BACKEND, &Silent).unwrap();
        let mut look_ups = LookUps::new(&snapshot);
        assert_eq!(look_ups.fields(b"a"), [expected]);
        assert_eq!(look_ups.fields(b"c"), ["3"]);
    }
    // Without a key, rows are numbered across all files.
    let snapshot = try_build(&from(&["d/2.csv", "d/1.csv"], None)).unwrap();
    let mut look_ups = LookUps::new(&snapshot);
    for (row, value) in ["3", "4", "1", "2"].into_iter().enumerate() {
        assert_eq!(look_ups.index(row as u64).unwrap().as_deref(), Some(value.as_bytes()));
    }
}
