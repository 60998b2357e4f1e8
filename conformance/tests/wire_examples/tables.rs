//! Examples of records, tables and their changes.

use spirea_normalise::{form, normalised};
use spirea_protocols::delta::{self, Change};
use spirea_protocols::grid::{self, Grid, Spread};
use spirea_protocols::keyword::{Bucket, Copies, EntryPlace, KeyHash};
use spirea_protocols::layout::Widths;
use spirea_protocols::proof::Proofs;
use spirea_protocols::rows::push_row;
use spirea_protocols::table::{KeyStep, Table, TableKind, join_fields};
use spirea_protocols::{PlaceSalt, Salt};

use super::{COUNTED, Example};

/// Returns the examples by name.
pub fn examples() -> Vec<Example> {
    vec![
        ("record", record()),
        ("proof", proof()),
        ("fields", fields()),
        ("keys", keys()),
        ("bucket", bucket()),
        ("widths", widths()),
        ("copies", copies()),
        ("rows-per-record", rows_per_record()),
        ("key-forms", key_forms()),
        ("rows", rows()),
        ("changes", changes()),
        ("places", places()),
    ]
}

/// Returns an index table of `records` records with `payload_bytes` bytes of payload.
fn table(records: u64, payload_bytes: usize, proofs: Option<Proofs>) -> Table {
    Table {
        salt: Salt::new(COUNTED),
        proofs,
        ..spirea_specimens::table(TableKind::Index, records, payload_bytes)
    }
}

fn record() -> Vec<String> {
    let payload = Table::index_payload(b"first");
    vec![
        "salt: 00..1f".into(),
        "payload bytes: 8".into(),
        format!("payload: {}", hex::encode(&payload)),
        format!("record 3: {}", hex::encode(table(10, 8, None).seal(3, &payload))),
    ]
}

fn proof() -> Vec<String> {
    let mut table = table(3, 4, Some(Proofs { levels: 1, ..Proofs::blank(3, Salt::new([0x55; 32])) }));
    let payloads = [[0; 4], [1; 4], [2; 4]];
    let leaves = (0..).zip(&payloads).map(|(i, payload)| table.leaf(i, payload)).collect();
    let tree = table.prove(leaves).unwrap();
    let proof = |i: usize| {
        let record = table.seal_proven(i as u64, &payloads[i], &tree);
        hex::encode(&record[4..20])
    };
    let record = table.seal_proven(1, &payloads[1], &tree);
    let proofs = table.proofs.as_ref().unwrap();
    let roots: Vec<_> = proofs.roots.iter().map(hex::encode).collect();
    let text = serde_json::to_value(proofs).unwrap()["roots"].as_str().unwrap().to_owned();
    vec![
        "salt: 00..1f".into(),
        "salt of the proofs: 32 bytes 55".into(),
        format!("payloads of records 0 to 2: {}", payloads.map(hex::encode).join(", ")),
        "levels: 1".into(),
        format!("roots: {text}, which is {}", roots.join(", ")),
        format!("proof of record 1: {}", proof(1)),
        format!("record 1: {}", hex::encode(record)),
        format!("proof of record 2: {}", proof(2)),
    ]
}

fn fields() -> Vec<String> {
    let value = join_fields(&[b"alpha", &[0; 80]]);
    vec!["fields: alpha and 80 zero bytes".into(), format!("value: {}", hex::encode(value))]
}

fn keys() -> Vec<String> {
    let of = |key: &str| {
        let tag = KeyHash::new(&Salt::new(COUNTED), key.as_bytes()).tag;
        let place = EntryPlace::new(&PlaceSalt::new([0x44; 32]), &tag);
        // The upper 40 bits of a place are its bucket among 2^40.
        let (upper, record) = (place.part(1 << 40), place.part(1000));
        format!("{key}: tag {}, place {upper:010x}..., record {record}", hex::encode(tag))
    };
    vec!["salt: 00..1f".into(), "places: 32 bytes 44".into(), "records: 1000".into(), of("alpha"), of("beta")]
}

fn bucket() -> Vec<String> {
    let mut bucket = Bucket::default();
    bucket.push(&[0xaa; 12], &[1, 2]);
    bucket.push(&[0xbb; 12], &[]);
    let (a, b) = (hex::encode([0xaa; 12]), hex::encode([0xbb; 12]));
    vec![
        format!("entries: {a} with 0102, {b} with nothing"),
        format!("payload: {}", hex::encode(bucket.payload())),
    ]
}

fn widths() -> Vec<String> {
    const WIDTHS: [u8; 4] = [3, 1, 4, 2];
    let widths = Widths::new(WIDTHS.to_vec()).unwrap();
    let text = serde_json::to_string(&widths).unwrap();
    let of_keys = Table {
        places: Some(PlaceSalt::new([0x44; 32])),
        widths: Some(widths.clone()),
        ..spirea_specimens::table(TableKind::Keyword, 4, 8)
    };
    let of_rows = Table { entries: 25, kind: TableKind::Index, places: None, ..of_keys.clone() }.boundaries();
    let key = |key: &str| {
        let hash = KeyHash::new(&Salt::new(COUNTED), key.as_bytes());
        let unit = EntryPlace::new(&PlaceSalt::new([0x44; 32]), &hash.tag).part(widths.units());
        format!("{key}: unit {unit}, record {}", of_keys.buckets(&hash).unwrap()[0])
    };
    let row = |row: u64| {
        let record = of_rows.of_row(row);
        format!("row {row} of 25: record {record}, number {}", row - of_rows.rows(record).start)
    };
    let said = format!("widths: {}, which is {}", text.trim_matches('"'), hex::encode(WIDTHS));
    [
        vec!["salt: 00..1f".into(), "places: 32 bytes 44".into(), said, key("alpha"), key("beta")],
        [0, 9, 10, 24].map(row).into(),
    ]
    .concat()
}

fn copies() -> Vec<String> {
    let places = Some([0x44; 32]);
    let table = Table {
        places: places.map(PlaceSalt::new),
        copies: Copies::Three,
        ..spirea_specimens::table(TableKind::Keyword, 4, 8)
    };
    let key = |key: &str| {
        let hash = KeyHash::new(&Salt::new(COUNTED), key.as_bytes());
        let places = EntryPlace::of_copies(&PlaceSalt::new([0x44; 32]), &hash.tag, table.copies);
        let upper = places.map(|place| format!("{:010x}...", place.part(1 << 40)));
        let [records, held] =
            [table.buckets(&hash).unwrap().to_vec(), table.boundaries().of_entry(&hash.tag)].map(listed);
        format!("{key}: places {}, records {records}, held by {held}", upper.collect::<Vec<_>>().join(" "))
    };
    let said = ["salt: 00..1f", "places: 32 bytes 44", "records: 4", "copies: 3"].map(String::from);
    said.into_iter().chain(["alpha", "beta", "gamma"].map(key)).collect()
}

fn listed(records: Vec<u64>) -> String {
    records.iter().map(u64::to_string).collect::<Vec<_>>().join(" ")
}

fn rows_per_record() -> Vec<String> {
    let table = Table { entries: 20, rows_per_record: Some(7), ..table(3, 8, None) };
    table.validate().unwrap();
    let boundaries = table.boundaries();
    let row = |row: u64| {
        let record = boundaries.of_row(row);
        format!("row {row}: record {record}, number {}", row - boundaries.rows(record).start)
    };
    let lines = [0, 6, 7, 19].map(row);
    [vec!["entries: 20, records: 3, rows per record: 7".into()], lines.into()].concat()
}

fn key_forms() -> Vec<String> {
    use KeyStep::{Domain, E164, Hex, Lower, Nfc, Trim};
    let of = |steps: &[KeyStep], key: &str| {
        let names = steps.iter().map(|step| serde_json::to_value(step).unwrap().as_str().unwrap().to_owned());
        let names = names.collect::<Vec<_>>().join(", ");
        match normalised(&form(steps.to_vec(), None).unwrap(), key.as_bytes()) {
            Ok(in_form) => format!("{names}: {} is {}", hex::encode(key), hex::encode(&in_form[..])),
            Err(_) => format!("{names}: {} has no form", hex::encode(key)),
        }
    };
    vec![
        of(&[Trim, Nfc, Lower], " Zoe\u{308}@X"),
        of(&[Lower, Nfc], "I\u{316}\u{307}"),
        of(&[Domain], "Example.COM."),
        of(&[E164], "+41446681800"),
        of(&[Hex], "0xAB"),
        of(&[Hex], "g"),
    ]
}

fn rows() -> Vec<String> {
    let mut payload = Vec::new();
    let values = [Some(&b"first"[..]), None, Some(b""), Some(&[1, 2])];
    values.into_iter().for_each(|value| push_row(&mut payload, value));
    vec![
        "rows: first, a deleted one, an empty one, 0102".into(),
        format!("payload: {}", hex::encode(payload)),
    ]
}

fn changes() -> Vec<String> {
    vec![
        format!("key of row 258: {}", hex::encode(delta::index_key(258))),
        format!("put of first: {}", hex::encode(Change::Put(b"first").to_bytes())),
        format!("delete: {}", hex::encode(Change::Delete.to_bytes())),
    ]
}

fn places() -> Vec<String> {
    let of = |record_bytes: usize, spread: Spread, word: &str| {
        let grid = Grid { records: 60, record_bytes, unit_rows: 256, groups: 3, columns: 60 };
        let (grid::RecordPlace { column, group, offset }, parts) = (grid.place(spread, 17), grid.parts());
        let parts = format!("{parts} part{}", if parts > 1 { "s" } else { "" });
        format!(
            "records of {record_bytes} bytes, unit 256, 3 groups, {word}, record 17: column {column}, group {group}, offset {offset}, {parts}"
        )
    };
    vec![
        of(100, Spread::Columns, "across"),
        of(600, Spread::Columns, "across"),
        of(600, Spread::Rows, "down"),
    ]
}
