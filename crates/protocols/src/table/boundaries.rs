//! Bucket boundaries, for building and changing a table.

use std::ops::Range;

use super::Table;
use super::keyword::{Copies, EntryPlace, TAG_BYTES};
use crate::PlaceSalt;

/// Map between entries and records. Its time and memory accesses depend on the entry, so clients
/// use [`Table::buckets`] instead.
#[derive(Clone, Debug)]
pub struct Boundaries {
    records: u64,
    entries: u64,
    /// Hash key of places, if the table has keys.
    places: Option<PlaceSalt>,
    copies: Copies,
    /// Rows in each record, if the table has no widths.
    rows_in_record: u64,
    widths: Option<WidthEnds>,
}

#[derive(Clone, Debug)]
struct WidthEnds {
    units: u64,
    /// End of each bucket, in units.
    places: Vec<u64>,
    /// End of each bucket, in rows.
    rows: Vec<u64>,
}

impl Boundaries {
    /// Returns the record with the entry at a place.
    pub fn of_place(&self, place: EntryPlace) -> u64 {
        match &self.widths {
            Some(ends) => behind(&ends.places, place.part(ends.units)),
            None => place.part(self.records),
        }
    }

    /// Returns true if the copy at this place of the entry with this tag is the one that its record
    /// holds: a record holds one copy of an entry, the first.
    ///
    /// # Panics
    /// If the table has no keys.
    pub fn is_held(&self, place: EntryPlace, tag: &[u8; TAG_BYTES]) -> bool {
        self.copies == Copies::One || {
            let record = self.of_place(place);
            self.places_of(tag).find(|&copy| self.of_place(copy) == record) == Some(place)
        }
    }

    /// Returns the records with the entry of this tag, each once. The entry is counted in the first
    /// of them, that of its first place.
    ///
    /// # Panics
    /// If the table has no keys.
    pub fn of_entry(&self, tag: &[u8; TAG_BYTES]) -> Vec<u64> {
        let mut records = Vec::with_capacity(self.copies.number());
        for place in self.places_of(tag) {
            let record = self.of_place(place);
            if !records.contains(&record) {
                records.push(record);
            }
        }
        records
    }

    fn places_of(&self, tag: &[u8; TAG_BYTES]) -> impl Iterator<Item = EntryPlace> + use<> {
        let places = self.places.as_ref().expect("the table has keys");
        EntryPlace::of_copies(places, tag, self.copies)
    }

    /// Returns the record with a row.
    pub fn of_row(&self, row: u64) -> u64 {
        match &self.widths {
            Some(ends) => behind(&ends.rows, row),
            None => row / self.rows_in_record,
        }
    }

    /// Returns the rows of a record.
    pub fn rows(&self, record: u64) -> Range<u64> {
        match &self.widths {
            Some(ends) => {
                let end = |record: u64| ends.rows[record as usize];
                record.checked_sub(1).map_or(0, end)..end(record)
            }
            None => {
                let first = record * self.rows_in_record;
                first..(first + self.rows_in_record).min(self.entries)
            }
        }
    }
}

/// Returns the number of `ends` that are at most `number`.
fn behind(ends: &[u64], number: u64) -> u64 {
    ends.partition_point(|&end| end <= number) as u64
}

impl Table {
    /// Returns the boundaries of its buckets.
    pub fn boundaries(&self) -> Boundaries {
        let widths = self.widths.as_ref().map(|widths| WidthEnds {
            units: widths.units(),
            places: widths.ends().collect(),
            rows: widths.row_ends(self.entries).collect(),
        });
        let Self { records, entries, places, copies, .. } = *self;
        Boundaries { records, entries, places, copies, rows_in_record: self.rows_in_record(), widths }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyword::KeyHash;
    use crate::layout::Widths;
    use crate::{Salt, TableKind};
    use proptest::prelude::*;

    fn table(kind: TableKind, entries: u64, records: u64) -> Table {
        Table {
            kind,
            entries,
            records,
            payload_bytes: 8,
            salt: Salt::new([0; 32]),
            places: (kind == TableKind::Keyword).then_some(PlaceSalt::new([1; 32])),
            copies: Copies::One,
            widths: None,
            rows_per_record: None,
            max_value_bytes: None,
            fields: vec!["value".into()],
            types: Vec::new(),
            key_form: None,
            key_queries: None,
            proofs: None,
        }
    }

    proptest! {
        #[test]
        fn who_builds_a_table_and_who_asks_it_agree_on_the_bucket(
            widths in proptest::collection::vec(1u8.., 1..60), tags: Vec<[u8; TAG_BYTES]>, more in 0u64..500, uneven: bool, copied: bool,
        ) {
            let widths = Widths::new(widths).unwrap();
            let (records, entries) = (widths.count() as u64, widths.units() + more);
            let table = Table {
                widths: uneven.then(|| widths.clone()),
                copies: if copied { Copies::Three } else { Copies::One },
                ..table(TableKind::Keyword, entries, records)
            };
            table.validate().unwrap();
            let boundaries = table.boundaries();
            for tag in tags {
                let places = EntryPlace::of_copies(&PlaceSalt::new([1; 32]), &tag, table.copies);
                let buckets: Vec<u64> = places.map(|place| boundaries.of_place(place)).collect();
                let asked = table.buckets(&KeyHash { tag }).unwrap();
                prop_assert_eq!(&asked[..], &buckets[..]);
                let holders = boundaries.of_entry(&tag);
                prop_assert_eq!(holders[0], buckets[0]);
                prop_assert!(buckets.iter().all(|bucket| holders.contains(bucket)));
                let distinct: std::collections::HashSet<_> = buckets.iter().collect();
                prop_assert_eq!(holders.len(), distinct.len());
                let places = EntryPlace::of_copies(&PlaceSalt::new([1; 32]), &tag, table.copies);
                prop_assert_eq!(places.filter(|&place| boundaries.is_held(place, &tag)).count(), holders.len());
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

        #[test]
        fn rows_of_records_with_as_many_each_follow_one_another(entries in 1u64..300, rows in 2u32..20) {
            let records = entries.div_ceil(rows.into());
            let table = Table { rows_per_record: Some(rows), ..table(TableKind::Index, entries, records) };
            table.validate().unwrap();
            let boundaries = table.boundaries();
            let all = (0..table.records).flat_map(|record| boundaries.rows(record).map(move |row| (row, record)));
            prop_assert!(all.eq((0..entries).map(|row| (row, boundaries.of_row(row)))));
            for (records, rows) in [(table.records + 1, rows), (table.records, 0), (entries, 1), (table.records, 4097)] {
                let wrong = Table { records, rows_per_record: Some(rows), ..table.clone() };
                prop_assert!(wrong.validate().is_err());
            }
            let places = Some([1; 32]);
            let keyed = Table { kind: TableKind::Keyword, places: places.map(PlaceSalt::new), ..table };
            prop_assert!(keyed.validate().is_err());
        }
    }
}
