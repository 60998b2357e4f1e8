//! Where buckets lie, for who builds a table or changes it.

use std::ops::Range;

use super::Table;
use super::keyword::EntryPlace;
use super::layout::Widths;

/// Which record has which entries, in a few steps that depend on what is asked for: for who knows the entries. A client
/// asks [`Table::bucket`].
#[derive(Clone, Debug)]
pub struct Boundaries {
    records: u64,
    widths: Option<WidthEnds>,
}

#[derive(Clone, Debug)]
struct WidthEnds {
    units: u64,
    /// Of each bucket, in units.
    places: Vec<u64>,
    /// Of each bucket, in rows.
    rows: Vec<u64>,
}

impl Boundaries {
    /// Those of `records` records with `entries` entries.
    pub fn new(records: u64, entries: u64, widths: Option<&Widths>) -> Self {
        let widths = widths.map(|widths| WidthEnds {
            units: widths.units(),
            places: widths.ends().collect(),
            rows: widths.row_ends(entries).collect(),
        });
        Self { records, widths }
    }

    /// The record that has the entry at a place.
    pub fn of_place(&self, place: EntryPlace) -> u64 {
        match &self.widths {
            Some(ends) => behind(&ends.places, place.part(ends.units)),
            None => place.part(self.records),
        }
    }

    /// The record that has a row.
    pub fn of_row(&self, row: u64) -> u64 {
        match &self.widths {
            Some(ends) => behind(&ends.rows, row),
            None => row,
        }
    }

    /// The rows that a record has.
    pub fn rows(&self, record: u64) -> Range<u64> {
        match &self.widths {
            Some(ends) => {
                let end = |record: u64| ends.rows[record as usize];
                record.checked_sub(1).map_or(0, end)..end(record)
            }
            None => record..record + 1,
        }
    }
}

/// How many ends a number is not below.
fn behind(ends: &[u64], number: u64) -> u64 {
    ends.partition_point(|&end| end <= number) as u64
}

impl Table {
    /// Where its buckets lie.
    pub fn boundaries(&self) -> Boundaries {
        Boundaries::new(self.records, self.entries, self.widths.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyword::{KeyHash, TAG_BYTES};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn who_builds_a_table_and_who_asks_it_agree_on_the_bucket(
            widths in proptest::collection::vec(1u8.., 1..60), tags: Vec<[u8; TAG_BYTES]>, more in 0u64..500, uneven: bool,
        ) {
            let widths = Widths::new(widths).unwrap();
            let (records, entries) = (widths.count() as u64, widths.units() + more);
            let table = Table {
                kind: crate::TableKind::Keyword,
                entries,
                records,
                payload_bytes: 8,
                salt: [0; 32],
                places: Some([1; 32]),
                widths: uneven.then(|| widths.clone()),
                max_value_bytes: None,
                fields: vec!["value".into()],
                proofs: None,
            };
            table.validate().unwrap();
            let boundaries = table.boundaries();
            for tag in tags {
                let bucket = boundaries.of_place(EntryPlace::new(&[1; 32], &tag));
                prop_assert_eq!(table.bucket(&KeyHash { tag }), Some(bucket));
            }
            if uneven {
                for row in 0..entries {
                    let (bucket, rank) = widths.row(row, entries);
                    prop_assert_eq!(boundaries.of_row(row), bucket);
                    prop_assert_eq!(boundaries.rows(bucket).start + rank, row);
                    prop_assert!(boundaries.rows(bucket).contains(&row));
                }
            } else {
                for record in 0..records {
                    prop_assert_eq!(boundaries.of_row(record), record);
                    prop_assert_eq!(boundaries.rows(record), record..record + 1);
                }
            }
        }
    }
}
