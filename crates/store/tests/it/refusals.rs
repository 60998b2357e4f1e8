//! Refusals, with messages that name the place and the remedy.

use std::path::Path;

use spirea_protocols::registry::Choice;
use spirea_specimens::snapshots::{columns, options, try_build, write_file};
use spirea_store::Protocol;
use spirea_store::ingest::{Encoding, Files, Format, FormatHints, Quotes, Separated};
use spirea_store::manifest::MAX_MANIFEST_BYTES;
use spirea_store::{BuildOptions, ExpectedRows, Input, Overwrite, Snapshot, StoreError};

/// Returns the error of building from `content`, and its message without the folder's path.
fn refusal(content: impl AsRef<[u8]>, key: Option<&str>, values: &[&str]) -> (StoreError, String) {
    let folder = tempfile::tempdir().unwrap();
    let input = write_file(folder.path(), "data.csv", content);
    let error = try_build(&options(&input, key, values)).unwrap_err();
    assert_only(folder.path(), &["data.csv"]);
    let message = error.to_string().replace(&format!("{}/", folder.path().display()), "");
    (error, message)
}

fn assert_only(folder: &Path, names: &[&str]) {
    let mut found: Vec<_> =
        folder.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    found.sort();
    assert_eq!(found, names);
}

#[test]
fn duplicate_keys_are_named_with_all_their_lines() {
    let rows: String = (1..=500).map(|i| format!("k{},v\n", if i == 401 { 17 } else { i })).collect();
    let (error, message) = refusal(format!("key,value\n{rows}"), Some("key"), &["value"]);
    let StoreError::DuplicateKeys { keys, others: 0, .. } = error else { panic!("{error}") };
    assert_eq!(keys[0].rows, [17, 401]);
    assert_eq!(
        message,
        "data.csv: duplicate keys: \"k17\" in lines 18, 402; keep one row of each, or take one with --on-duplicate first or last"
    );
    let (error, message) = refusal("key,value\na,1\nb,1\nb,1\na,2\na,3\n", Some("key"), &["value"]);
    assert!(matches!(&error, StoreError::DuplicateKeys { keys, others: 0, .. } if keys.len() == 2));
    let keys = "\"b\" in lines 3, 4; \"a\" in lines 2, 5, 6";
    assert_eq!(
        message,
        format!(
            "data.csv: duplicate keys: {keys}; keep one row of each, or take one with --on-duplicate first or last"
        )
    );
    // The message names at most 20 keys and counts the others. It shortens long keys.
    let key = |i: usize| format!("{i}\u{1b}{}", "x".repeat(100));
    let rows: String = (0..100).map(|i| format!("{},v\n", key(i % 50))).collect();
    let (error, message) = refusal(format!("key,value\n{rows}"), Some("key"), &["value"]);
    assert!(matches!(&error, StoreError::DuplicateKeys { keys, others: 30, .. } if keys.len() == 20));
    assert!(message.contains("…") && message.contains("; and 30 more keys;"), "{message}");
    assert!(message.len() < 3000 && !message.contains(char::is_control), "{message}");
}

#[test]
fn oversize_values_name_the_row() {
    let long = "x".repeat((1 << 20) + 1);
    let (error, message) = refusal(format!("key,value\na,1\nb,{long}\n"), Some("key"), &["value"]);
    assert!(matches!(error, StoreError::Oversize { bytes: 1_048_577, .. }));
    assert!(message.starts_with("data.csv:3: the value has 1048577 bytes"), "{message}");
}

#[test]
fn a_value_above_the_limit_that_the_build_is_given_is_named_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let input = write_file(folder.path(), "data.csv", format!("key,value\na,1\nb,{}\n", "x".repeat(300)));
    let mut options = options(&input, Some("key"), &["value"]);
    options.max_value = Some(299);
    let message = try_build(&options).unwrap_err().to_string();
    for part in ["data.csv:3", "the value has 300 bytes, above the limit of 299", "--max-value"] {
        assert!(message.contains(part), "{message}");
    }
    options.max_value = Some((1 << 20) + 1);
    let message = try_build(&options).unwrap_err().to_string();
    assert!(message.contains("--max-value is 1048577 bytes"), "{message}");
    options.max_value = Some(300);
    assert_eq!(try_build(&options).unwrap().manifest().table.max_value_bytes, Some(300));
}

#[test]
fn empty_inputs_and_missing_columns() {
    let (error, _) = refusal("key,value\n", None, &["value"]);
    assert!(matches!(error, StoreError::Empty { .. }));
    let (_, message) = refusal("", Some("key"), &["value"]);
    assert!(message.contains("it is empty"), "{message}");
    let (error, message) = refusal("key,value,more\na,1,2\n", Some("id"), &["value"]);
    assert!(matches!(error, StoreError::NoSuchColumn { .. }));
    assert_eq!(message, "data.csv:1: no column \"id\"; there are \"key\", \"value\", \"more\"");
    let (_, message) = refusal("key,value,value\na,1,2\n", Some("key"), &["value"]);
    assert!(message.contains("two columns are called \"value\""), "{message}");
}

fn named(protocol: &str, set: &str, ring: Option<&str>) -> Protocol {
    Protocol::Named(Choice {
        protocol: protocol.into(),
        set: Some(set.into()),
        ring: ring.map(Into::into),
        ..Choice::default()
    })
}

#[test]
fn options_out_of_range() {
    let folder = tempfile::tempdir().unwrap();
    let input = write_file(folder.path(), "data.csv", "key,value\na,1\n");
    let good = options(&input, Some("key"), &["value"]);
    type Change = (fn(&mut BuildOptions), &'static str);
    let broken: [Change; 10] = [
        (|o| o.name = Some("Upper".into()), "--name"),
        (|o| o.out.set_file_name("Upper_case"), "--name"),
        (|o| o.out = "..".into(), "--name"),
        (|o| o.protocol = named("garlic", "module-1280", None), "there are simple, double"),
        (|o| o.protocol = named("simple", "toy", None), "module-1280, paper, module-1536"),
        (|o| o.protocol = named("hybrid", "paper", Some("onion-32")), "paper, fast"),
        (|o| o.selection = columns(None, &[]), "--value"),
        (|o| o.selection = columns(None, &["value", "value"]), "named twice"),
        (
            |o| o.input = Input::Files(Files::one("data.csv", Format::Raw { record_bytes: 1 })),
            "no named columns",
        ),
        (|o| o.input = Input::Files(Files::one("other.csv", Format::CSV)), "other.csv: cannot open"),
    ];
    for (change, part) in broken {
        let mut options = good.clone();
        change(&mut options);
        let message = try_build(&options).unwrap_err().to_string();
        assert!(message.contains(part), "{message}");
        assert_only(folder.path(), &["data.csv"]);
    }
}

#[test]
fn formats_are_chosen_by_extension_or_name() {
    let choose = |name, record_bytes, path: &str| {
        Format::choose(FormatHints { name, record_bytes, ..FormatHints::default() }, Path::new(path))
    };
    let delimited = |name, delimiter, path: &str| {
        let hints = FormatHints { name, delimiter: Some(delimiter), ..FormatHints::default() };
        Format::choose(hints, Path::new(path))
    };
    assert_eq!(choose(None, None, "a.tsv").unwrap(), Format::TSV);
    assert_eq!(choose(Some("tsv"), None, "-").unwrap(), Format::TSV);
    let separated =
        |delimiter, quotes, encoding| Format::Csv(Separated { encoding, ..Separated::by(delimiter, quotes) });
    let bars = separated(b'|', Quotes::Rfc4180, Encoding::Utf8);
    assert_eq!(delimited(None, b'|', "a.txt").unwrap(), bars);
    let written = |name, quotes, encoding| {
        Format::choose(FormatHints { name, quotes, encoding, ..FormatHints::default() }, Path::new("a.tsv"))
    };
    let quoted = separated(b'\t', Quotes::Rfc4180, Encoding::Bytes);
    assert_eq!(written(None, Some(Quotes::Rfc4180), Some(Encoding::Bytes)).unwrap(), quoted);
    let latin1 = "latin1".parse().unwrap();
    assert_eq!(written(Some("jsonl"), None, Some(latin1)).unwrap(), Format::Jsonl { encoding: latin1 });
    for (name, quotes, encoding, part) in [
        ("jsonl", Some(Quotes::Rfc4180), None, "--quote"),
        ("jsonl", None, Some(Encoding::Bytes), "JSON is text"),
        ("npy", None, Some(latin1), "--encoding"),
        ("parquet", None, Some(Encoding::Bytes), "--bytes"),
    ] {
        let message = written(Some(name), quotes, encoding).unwrap_err().to_string();
        assert!(message.contains(part), "{message}");
    }
    for (name, delimiter) in [(Some("jsonl"), b';'), (None, b'"'), (Some("tsv"), b';')] {
        assert!(delimited(name, delimiter, "a.csv").is_err());
    }
    assert_eq!(choose(None, None, "a.CSV").unwrap(), Format::CSV);
    assert_eq!(choose(None, None, "a.ndjson").unwrap(), Format::JSONL);
    assert_eq!(choose(Some("parquet"), None, "a.csv").unwrap(), Format::Parquet);
    assert_eq!(choose(None, Some(16), "a").unwrap(), Format::Raw { record_bytes: 16 });
    for (name, record_bytes, path, part) in [
        (None, None, "a.xls", "--format"),
        (None, None, "a", "--format"),
        (None, None, "-", "standard input"),
        (Some("xls"), None, "a.csv", "there are csv"),
        (Some("raw"), None, "a", "--record-bytes"),
        (Some("raw"), Some(0), "a", "--record-bytes"),
        (Some("csv"), Some(4), "a.csv", "raw"),
    ] {
        let message = choose(name, record_bytes, path).unwrap_err().to_string();
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn only_a_snapshot_is_replaced_and_only_when_asked() {
    let folder = tempfile::tempdir().unwrap();
    let input = write_file(folder.path(), "data.csv", "key,value\na,1\n");
    let mut options = options(&input, Some("key"), &["value"]);
    let first = try_build(&options).unwrap();
    let message = try_build(&options).unwrap_err().to_string();
    assert!(message.contains("--overwrite"), "{message}");
    options.overwrite = Overwrite::Replace;
    options.seed = Some([9; 32]);
    let second = try_build(&options).unwrap();
    assert_ne!(first.version(), second.version());
    assert_eq!(Snapshot::open(&options.out).unwrap().version(), second.version());
    assert_only(folder.path(), &["data.csv", "table"]);
    // A failing build keeps the old snapshot.
    write_file(folder.path(), "data.csv", "key,value\na,1\na,2\n");
    try_build(&options).unwrap_err();
    assert_eq!(Snapshot::open(&options.out).unwrap().version(), second.version());
    // A folder with any other content is not touched.
    write_file(folder.path(), "data.csv", "key,value\na,1\n");
    write_file(&options.out, "notes.txt", "mine");
    let message = try_build(&options).unwrap_err().to_string();
    assert!(message.contains("notes.txt"), "{message}");
    assert!(options.out.join("notes.txt").exists());
    let file = write_file(folder.path(), "plain", "a file");
    options.out = file.clone();
    assert!(matches!(try_build(&options), Err(StoreError::Exists { .. })));
    assert_eq!(std::fs::read(file).unwrap(), b"a file");
}

#[test]
fn folders_that_are_no_snapshots() {
    let folder = tempfile::tempdir().unwrap();
    let message = Snapshot::open(folder.path()).unwrap_err().to_string();
    assert!(message.contains("not a complete snapshot"), "{message}");
    let message = Snapshot::open(folder.path().join("none")).unwrap_err().to_string();
    assert!(message.contains("there is no such snapshot: check the path"), "{message}");
    write_file(folder.path(), "manifest.json", vec![b' '; MAX_MANIFEST_BYTES as usize + 1]);
    let message = Snapshot::open(folder.path()).unwrap_err().to_string();
    assert!(message.contains("longer than"), "{message}");
}

#[test]
fn another_number_of_rows_than_was_expected_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let input = write_file(folder.path(), "data.csv", "v\na\nb\nc\n");
    for (said, refusal) in [
        ("3", None),
        ("2..", None),
        ("1..3", None),
        ("4", Some("data.csv: it has 3 rows, and not 4, as --expect-rows says")),
        ("4..", Some("not at least 4,")),
        ("0..2", Some("not 0 to 2,")),
    ] {
        let expected_rows = Some(said.parse().unwrap());
        let options =
            BuildOptions { expected_rows, overwrite: Overwrite::Replace, ..options(&input, None, &["v"]) };
        let error = try_build(&options).err().map(|error| error.to_string());
        assert_eq!(error.is_some(), refusal.is_some(), "{said}: {error:?}");
        assert!(error.unwrap_or_default().contains(refusal.unwrap_or_default()));
    }
    for wrong in ["", "many", "-1", "3..2", "..3"] {
        assert!(wrong.parse::<ExpectedRows>().unwrap_err().contains("4000..6000"), "{wrong}");
    }
}
