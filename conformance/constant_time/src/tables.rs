//! Small tables, by key and by position.

use spirea_protocols::keyword::{Bucket, EntryPlace, KeyHash};
use spirea_protocols::proof::Proofs;
use spirea_protocols::{Table, TableKind};

/// A table with its sealed records.
pub struct Sealed {
    pub table: Table,
    pub records: Vec<Vec<u8>>,
}

/// How large a table is.
#[derive(Clone, Copy)]
pub struct Size {
    pub values: u64,
    pub value_bytes: usize,
}

/// The key of a value.
pub fn key(number: u64) -> Vec<u8> {
    format!("key {number:04}").into_bytes()
}

/// A value: as long as they get, or shorter.
pub fn value(number: u64, size: Size) -> Vec<u8> {
    let bytes = size.value_bytes - number as usize % 2;
    (0..bytes).map(|i| (number as usize * 7 + i) as u8).collect()
}

/// A table of `kind`; one with proofs has some levels of them.
pub fn sealed(kind: TableKind, size: Size, proof_levels: Option<u32>) -> Sealed {
    let (salt, places) = ([5; 32], (kind == TableKind::Keyword).then_some([6; 32]));
    let payloads: Vec<Vec<u8>> = match places {
        None => (0..size.values).map(|i| Table::index_payload(&value(i, size))).collect(),
        Some(places) => {
            let count = size.values.div_ceil(2);
            let mut buckets = vec![Bucket::default(); count as usize];
            for i in 0..size.values {
                let hash = KeyHash::new(&salt, &key(i));
                let bucket = EntryPlace::new(&places, &hash.tag).bucket(count);
                buckets[bucket as usize].push(&hash.tag, &value(i, size));
            }
            buckets.iter().map(Bucket::payload).collect()
        }
    };
    let records = payloads.len() as u64;
    let mut table = Table {
        kind,
        entries: size.values,
        records,
        payload_bytes: payloads.iter().map(Vec::len).max().unwrap_or_default(),
        salt,
        places,
        fields: vec!["value".into()],
        proofs: proof_levels.map(|levels| Proofs { levels, ..Proofs::blank(records) }),
    };
    let leaves = (0..).zip(&payloads).map(|(index, payload)| table.leaf(index, payload)).collect();
    let tree = table.prove(leaves);
    let seal = |(index, payload): (u64, &Vec<u8>)| match &tree {
        Some(tree) => table.seal_proven(index, payload, tree),
        None => table.seal(index, payload),
    };
    let records = (0..).zip(&payloads).map(seal).collect();
    Sealed { table, records }
}
