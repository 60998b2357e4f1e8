//! Small tables, by key and by position.

use spirea_protocols::keyword::{Bucket, Copies, KeyHash};
use spirea_protocols::layout::Widths;
use spirea_protocols::proof::Proofs;
use spirea_protocols::rows::push_row;
use spirea_protocols::{PlaceSalt, Salt, Table, TableKind};

/// A table with its sealed records.
pub struct Sealed {
    pub table: Table,
    pub records: Vec<Vec<u8>>,
}

/// Size of a table.
#[derive(Clone, Copy)]
pub struct Size {
    pub values: u64,
    pub value_bytes: usize,
}

/// Returns the key of a value.
pub fn key(number: u64) -> Vec<u8> {
    format!("key {number:04}").into_bytes()
}

/// Returns a value of the maximum length, or one byte shorter.
pub fn value(number: u64, size: Size) -> Vec<u8> {
    let bytes = size.value_bytes - number as usize % 2;
    (0..bytes).map(|i| (number as usize * 7 + i) as u8).collect()
}

/// Arrangement of a table's values in records.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Spread {
    /// Buckets of equal width, or one row for each record.
    Even,
    /// Buckets with individual widths.
    Wide,
    /// Records of two rows each.
    Several,
    /// Buckets of equal width, with three copies of each entry.
    Copied,
}

/// Makes a table of `kind`, with `proof_levels` levels of proofs if given.
pub fn sealed(kind: TableKind, spread: Spread, size: Size, proof_levels: Option<u32>) -> Sealed {
    let (salt, places) = ([5; 32], (kind == TableKind::Keyword).then_some([6; 32]));
    let of_keys = kind == TableKind::Keyword;
    // A record has one row in an even table by position, and two values in all other tables. With
    // individual widths, some records are a little wider.
    let records = if of_keys || spread != Spread::Even { size.values.div_ceil(2) } else { size.values };
    let widths = (0..records).map(|i| 1 + u8::from(i + 1 < records && i % 3 == 1));
    let widths = (spread == Spread::Wide).then(|| Widths::new(widths.collect()).unwrap());
    let mut table = Table {
        kind,
        entries: size.values,
        records,
        payload_bytes: 1,
        salt: Salt::new(salt),
        places: places.map(PlaceSalt::new),
        copies: if spread == Spread::Copied { Copies::Three } else { Copies::One },
        widths,
        rows_per_record: (spread == Spread::Several).then_some(2),
        max_value_bytes: None,
        fields: vec!["value".into()],
        types: Vec::new(),
        key_form: None,
        key_queries: None,
        proofs: proof_levels.map(|levels| Proofs { levels, ..Proofs::blank(records, Salt::new([7; 32])) }),
    };
    let boundaries = table.boundaries();
    let mut buckets = vec![Bucket::default(); records as usize];
    let mut rows = vec![Vec::new(); records as usize];
    for i in 0..size.values {
        let value = value(i, size);
        match kind {
            TableKind::Keyword => {
                let tag = KeyHash::new(&Salt::new(salt), &key(i)).tag;
                for bucket in boundaries.of_entry(&tag) {
                    buckets[bucket as usize].push(&tag, &value);
                }
            }
            TableKind::Index => push_row(&mut rows[boundaries.of_row(i) as usize], Some(&value)),
        }
    }
    let payloads: Vec<_> = if of_keys { buckets.iter().map(Bucket::payload).collect() } else { rows };
    table.payload_bytes = payloads.iter().map(Vec::len).max().unwrap_or_default();
    let leaf = |(index, payload): (u64, &Vec<u8>)| table.leaf(index, payload);
    let leaves = if table.proofs.is_some() { (0..).zip(&payloads).map(leaf).collect() } else { Vec::new() };
    let tree = table.prove(leaves);
    let seal = |(index, payload): (u64, &Vec<u8>)| match &tree {
        Some(tree) => table.seal_proven(index, payload, tree),
        None => table.seal(index, payload),
    };
    let records = (0..).zip(&payloads).map(seal).collect();
    Sealed { table, records }
}
