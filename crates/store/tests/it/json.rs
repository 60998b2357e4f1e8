//! JSON files with a single value.

use spirea_specimens::LookUps;
use spirea_specimens::snapshots::{columns, options, try_build, write_file};
use spirea_store::ingest::{self, Format, FormatHints, Nulls, Row, Selection};

fn read(content: &str, selection: &Selection) -> Result<Vec<String>, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = write_file(folder.path(), "a.json", content);
    let format = Format::choose(FormatHints::default(), &path).unwrap();
    let explain = |error: spirea_store::StoreError| {
        let text = error.to_string();
        text.find("a.json").map_or(text.clone(), |at| text[at..].to_string())
    };
    let mut source = ingest::open(&path, format, selection).map_err(explain)?;
    let (mut rows, mut row) = (Vec::new(), Row::default());
    while source.next(&mut row).map_err(explain)? {
        let cells = row.key().into_iter().chain(row.fields());
        rows.push(cells.map(|cell| String::from_utf8_lossy(cell).into_owned()).collect::<Vec<_>>().join("="));
    }
    let (done, total) = source.progress();
    assert!(done <= total);
    Ok(rows)
}

#[test]
fn arrays_and_objects_are_read_element_by_element() {
    let unnamed = Selection::default();
    let named = columns(Some("k"), &["v"]);
    let skip = Selection { nulls: Nulls::Skip, ..columns(Some("k"), &["v"]) };
    for (content, selection, expected) in [
        (
            "[{\"k\":\"a,]\",\"v\":[1, {\"x\": \"}\\\"\"}]},\n {\"v\":2.50,\"k\":7}\n]\n",
            &named,
            &["a,]=[1,{\"x\":\"}\\\"\"}]", "7=2.50"][..],
        ),
        ("[{\"k\":\"a\",\"v\":null},{\"k\":\"b\",\"v\":1}]", &skip, &["b=1"]),
        ("\u{feff} [\"a\" , 7,\"\\u00e9\"]", &unnamed, &["a", "7", "\u{e9}"]),
        ("[\"a\"]", &columns(Some("key"), &[]), &["a"]),
        ("{\"a\": 1, \"b\" : \"two\",\n\"c\":{\"x\": 1}}", &unnamed, &["a=1", "b=two", "c={\"x\":1}"]),
        ("{\"a\": 1}", &columns(Some("key"), &[]), &["a"]),
        ("[]", &unnamed, &[]),
        ("[ ]\n", &named, &[]),
        ("{}", &unnamed, &[]),
    ] {
        let expected: Vec<String> = expected.iter().map(|&row| row.into()).collect();
        assert_eq!(read(content, selection), Ok(expected), "{content}");
    }
    for (content, selection, expected) in [
        (
            "{\"k\":\"a\"}\n{\"k\":\"b\"}\n",
            &unnamed,
            "a.json:2: text after the end of the JSON; for one object a line",
        ),
        ("\n\"a\"", &unnamed, "a.json:2: it is neither an array nor an object"),
        ("", &unnamed, "a.json:1: it is neither"),
        ("[\"a\",\n\"b\"", &unnamed, "a.json:2: it is cut off"),
        ("[\"a\",", &unnamed, "a.json:1: it is cut off"),
        ("[\"a\",\n]", &unnamed, "a.json:2: a comma without an element"),
        ("[\"a\" \"b\"]", &unnamed, "a.json:1: it is not JSON"),
        ("[\"a\", 1.5]", &unnamed, "a.json:1: its key is 1.5"),
        ("[\"a\",\n\n {\"k\": 1}]", &unnamed, "a.json:3: its key is a list or an object"),
        ("[null]", &unnamed, "a.json:1: column \"key\" is null"),
        ("[{\"k\":1,\n\"w\":2}]", &named, "a.json:1: the row has no field \"v\"; it has \"k\", \"w\""),
        ("[{\"k\":1,\"v\":2},\n\"x\"]", &named, "a.json:2: invalid type"),
        ("{\"a\":1}", &named, "a.json:1: no column \"k\"; there are \"key\", \"value\""),
        ("{\"a\":1,\"b\"}", &unnamed, "a.json:1: it is not JSON"),
        ("[{\"k\":1}]", &unnamed, "name the columns"),
    ] {
        let message = read(content, selection).unwrap_err();
        assert!(message.starts_with(expected), "{message}");
    }
}

#[test]
fn an_array_of_keys_is_a_set_and_an_object_a_table_of_its_members() {
    let folder = tempfile::tempdir().unwrap();
    let set = write_file(folder.path(), "set.json", "[\"example.org\", \"example.net\"]");
    let snapshot = try_build(&options(&set, None, &[])).unwrap();
    assert!(snapshot.manifest().table.fields.is_empty());
    let mut look_ups = LookUps::new(&snapshot);
    assert_eq!(look_ups.key(b"example.net").unwrap(), Some(Vec::new()));
    let folder = tempfile::tempdir().unwrap();
    let table = write_file(folder.path(), "table.json", "{\"a\": 1, \"b\": \"two\"}");
    let snapshot = try_build(&options(&table, None, &[])).unwrap();
    assert_eq!(snapshot.manifest().table.fields, ["value"]);
    assert_eq!(LookUps::new(&snapshot).fields(b"b"), ["two"]);
}
