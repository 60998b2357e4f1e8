//! Changes from files and lines: accepted input, and refusals with their places.

use std::path::Path;

use spirea_protocols::delta::index_key;
use spirea_protocols::{Table, TableKind};
use spirea_specimens::snapshots::write_file;
use spirea_store::changes::{After, Cursor, Input};
use spirea_store::ingest::{Files, FormatHints, Nulls};
use spirea_store::{Changes, StoreError};

fn table(kind: TableKind, fields: &[&str]) -> Table {
    let fields = fields.iter().map(|&field| field.into()).collect();
    Table { fields, ..spirea_specimens::table(kind, 3, 40) }
}

fn input(path: &Path) -> Input {
    let files = Files::find(&[path.into()], &FormatHints::default()).unwrap();
    Input { files, key: "key".into(), nulls: Nulls::Refuse }
}

fn set(puts: &[(&[u8], &[u8])], deletes: &[&[u8]]) -> Changes {
    let mut changes = Changes::new();
    puts.iter().for_each(|&(key, value)| changes.put(key, value));
    deletes.iter().for_each(|&key| changes.delete(key));
    changes
}

#[test]
fn files_and_lines_say_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let puts = write_file(folder.path(), "puts.csv", "note,key\nfirst,alpha\n,beta\n");
    let deletes = write_file(folder.path(), "deletes.jsonl", "{\"key\": 17, \"why\": \"old\"}\n");
    let table = table(TableKind::Keyword, &["note"]);
    let changes = Changes::read(&table, Some(&input(&puts)), Some(&input(&deletes))).unwrap();
    assert_eq!(changes, set(&[(b"alpha", b"first"), (b"beta", b"")], &[b"17"]));
    let lines = br#"{"key": "alpha", "value": "first"}

        {"value": "", "key": "beta"}
        {"key": 17, "deleted": true}"#;
    assert_eq!(Changes::read_lines(&table, &lines[..], Path::new("body")).unwrap(), changes);
    let again = changes.to_lines(&table).unwrap();
    assert_eq!(Changes::read_lines(&table, &again[..], Path::new("body")).unwrap(), changes);
    let marked = [b"\xef\xbb\xbf", &again[..]].concat();
    assert_eq!(Changes::read_lines(&table, &marked[..], Path::new("body")).unwrap(), changes);
    let bytes = set(&[(b"k", &[0xff])], &[]).to_lines(&table).unwrap_err().to_string();
    assert!(bytes.contains("key \"k\"") && bytes.contains("no text"), "{bytes}");
    let number = br#"{"key": "n", "value": {"a": [1,  1.50]}, "deleted": false}"#;
    let changes = Changes::read_lines(&table, &number[..], Path::new("body")).unwrap();
    assert_eq!(changes, set(&[(b"n", br#"{"a":[1,1.50]}"#)], &[]));
}

#[test]
fn several_fields_and_rows() {
    let folder = tempfile::tempdir().unwrap();
    let puts = write_file(folder.path(), "puts.csv", "key,b,a\n2,two,one\n");
    let table = table(TableKind::Index, &["a", "b"]);
    let changes = Changes::read(&table, Some(&input(&puts)), None).unwrap();
    let joined = table.join_fields(&[b"one", b"two"]);
    assert_eq!(changes, set(&[(&index_key(2), &joined)], &[]));
    let lines = br#"{"key": 2, "value": {"b": "two", "a": "one"}}"#;
    assert_eq!(Changes::read_lines(&table, &lines[..], Path::new("body")).unwrap(), changes);
    changes.check(&table).unwrap();
    let again = changes.to_lines(&table).unwrap();
    assert_eq!(Changes::read_lines(&table, &again[..], Path::new("body")).unwrap(), changes);
    // Text that looks like JSON stays text.
    let quoted =
        set(&[(&index_key(0), &table.join_fields(&[b"{\"x\": \"\n\"}", b"null"]))], &[&index_key(1)]);
    let again = quoted.to_lines(&table).unwrap();
    assert_eq!(Changes::read_lines(&table, &again[..], Path::new("body")).unwrap(), quoted);
}

#[test]
fn lines_have_the_cursors_before_and_behind_the_changes() {
    let table = table(TableKind::Keyword, &["note"]);
    let cursor = |text: &str| Cursor::try_from(text.to_owned()).unwrap();
    let read = |lines: &str| Changes::read_lines(&table, lines.as_bytes(), Path::new("body"));
    let mut expected = set(&[(b"a", b"1")], &[b"b"]);
    expected.set_after(Some(cursor("16")));
    expected.set_cursor(cursor("17 \n\u{2713}"));
    let lines = "\n{\"after\": \"16\"}\n{\"key\": \"a\", \"value\": \"1\", \"cursor\": \"one\"}\n{\"key\": \"b\", \"deleted\": true}\n{\"cursor\": \"17 \\n\u{2713}\"}";
    assert_eq!(read(lines).unwrap(), expected);
    let again = expected.to_lines(&table).unwrap();
    assert_eq!(read(str::from_utf8(&again).unwrap()).unwrap(), expected);
    // With `after` null, the changes must be the first of a stream. Without `after`, they may
    // follow any cursor.
    let [first, any] = ["{\"after\": null}", ""].map(|lines| read(lines).unwrap());
    assert_eq!((first.after(), any.after()), (&After::Exactly(None), &After::Any));
    for (lines, part) in [
        ("{\"key\": \"a\", \"deleted\": true}\n{\"after\": \"1\"}", "body:2: \"after\""),
        ("{\"cursor\": \"1\"}\n{\"key\": \"a\", \"deleted\": true}", "body:2: no cursor follows"),
        ("{\"cursor\": null}", "body:1: it is neither"),
        ("{\"cursor\": \"1\", \"value\": 1}", "body:1: it is neither"),
        ("{\"cursor\": 1}", "body:1: invalid type"),
    ] {
        let error = read(lines).unwrap_err().to_string();
        assert!(error.starts_with(part), "{error}");
    }
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    let keyed = table(TableKind::Keyword, &["note"]);
    let pair = table(TableKind::Keyword, &["a", "b"]);
    let rows = table(TableKind::Index, &["note"]);
    let long = format!(r#"{{"key": 1, "value": "{}"}}"#, "v".repeat((1 << 20) + 1));
    for (table, lines, parts) in [
        (
            &keyed,
            "{\"key\": \"a\", \"value\": 1}\n{\"key\": \"a\", \"deleted\": true}",
            ["body:2", "body:1 already"],
        ),
        (&keyed, "{\"key\": \"a\"}", ["body:1", "neither"]),
        (&keyed, "{\"key\": \"a\", \"value\": 1, \"deleted\": true}", ["body:1", "neither"]),
        (&keyed, "{\"key\": null, \"value\": 1}", ["body:1", "null"]),
        (&keyed, "\n{\"kee\": 1}", ["body:2", "kee"]),
        (&keyed, "[]", ["body:1", "write"]),
        (&keyed, &long, ["body:1", "1048577 bytes"]),
        (&pair, "{\"key\": 1, \"value\": \"x\"}", ["body:1", "object of a, b"]),
        (&pair, "{\"key\": 1, \"value\": {\"a\": 1}}", ["body:1", "lacks the field \"b\""]),
        (&pair, "{\"key\": 1, \"value\": {\"a\": 1, \"b\": 1, \"c\": 1}}", ["body:1", "no field \"c\""]),
        (&rows, "{\"key\": \"x\", \"value\": 1}", ["body:1", "not the number of a row"]),
        (&rows, "{\"key\": -1, \"value\": 1}", ["body:1", "not the number of a row"]),
    ] {
        let error = Changes::read_lines(table, lines.as_bytes(), Path::new("body")).unwrap_err().to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    }
    let folder = tempfile::tempdir().unwrap();
    let puts = write_file(folder.path(), "puts.csv", "note,key\nfirst,alpha\nsecond,beta\n");
    let deletes = write_file(folder.path(), "deletes.csv", "key\ngamma\nbeta\n");
    let error = Changes::read(&keyed, Some(&input(&puts)), Some(&input(&deletes))).unwrap_err().to_string();
    assert!(error.contains("deletes.csv:3") && error.contains("puts.csv:3"), "{error}");
    let other = write_file(folder.path(), "other.csv", "key,text\na,b\n");
    let error = Changes::read(&keyed, Some(&input(&other)), None).unwrap_err();
    assert!(matches!(error, StoreError::NoSuchColumn { .. }), "{error}");
}
