//! Positions of records: units of bytes in columns and groups.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use spirea_math::Divisor;

use crate::ProtocolError;
use crate::oblivious::equal;

/// Arrangement of the parts of a record that is larger than a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// Parts lie in one group of neighbouring columns: each part needs a separate query.
    Columns,
    /// Parts lie below each other in one column: one query selects all parts.
    Rows,
}

/// Maximum length of a matrix's side. Clients compute products of a side and small factors. Clients
/// with words of 32 bits therefore have a lower maximum.
pub(crate) const MAX_SIDE: u128 = if usize::BITS < 64 { 1 << 24 } else { 1 << 40 };

/// Layout of a database's records in a matrix of bytes.
///
/// A *unit* is selected by one query: `unit_rows` bytes down a column. A column has `groups` units
/// (times the parts of a record, if they are spread over rows). Small records share a unit; each
/// part of a large record takes a unit. Units fill a column before the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grid {
    /// Number of records.
    pub records: u64,
    /// Bytes of a record.
    pub record_bytes: usize,
    /// Bytes of a unit.
    pub unit_rows: usize,
    /// Units in a column, for each part.
    pub groups: usize,
    /// Columns.
    pub columns: usize,
}

/// Position of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordPlace {
    /// Its first column.
    pub column: usize,
    /// Its group.
    pub group: usize,
    /// Its first byte in the unit.
    pub offset: usize,
}

/// A piece of a record that is contiguous in a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The column.
    pub column: usize,
    /// The first row.
    pub row: usize,
    /// Range of the record's bytes.
    pub bytes: Range<usize>,
}

impl Grid {
    /// Returns the number of units that a record takes.
    pub fn parts(&self) -> usize {
        self.record_bytes.div_ceil(self.unit_rows)
    }

    /// Returns the number of records that share a unit.
    pub fn records_per_unit(&self) -> usize {
        (self.unit_rows / self.record_bytes).max(1)
    }

    /// Returns the number of rows of the matrix.
    pub fn rows(&self, spread: Spread) -> usize {
        match spread {
            Spread::Columns => self.groups * self.unit_rows,
            Spread::Rows => self.groups * self.unit_rows * self.parts(),
        }
    }

    /// Sets the fewest columns for these records, unit and groups, rounded up to a multiple of
    /// `multiple`.
    pub(crate) fn fit_columns(mut self, spread: Spread, multiple: usize) -> Option<Self> {
        let units = self.records.div_ceil(self.records_per_unit() as u64);
        let columns = u128::from(units.div_ceil(self.groups as u64)) * self.columns_of_record(spread) as u128;
        self.columns = usize::try_from(columns.next_multiple_of(multiple as u128)).ok()?;
        Some(self)
    }

    /// Returns the number of neighbouring columns that a record takes.
    pub(crate) fn columns_of_record(&self, spread: Spread) -> usize {
        match spread {
            Spread::Columns => self.parts(),
            Spread::Rows => 1,
        }
    }

    /// Returns the position of record `index`. The index is a client's secret, so no division
    /// instruction takes it.
    pub fn place(&self, spread: Spread, index: u64) -> RecordPlace {
        let (unit, within) = Divisor::new(self.records_per_unit() as u64).divide(index);
        let (column, group) = Divisor::new(self.groups as u64).divide(unit);
        RecordPlace {
            column: column as usize * self.columns_of_record(spread),
            group: group as usize,
            offset: within as usize * self.record_bytes,
        }
    }

    /// Extracts the record that begins at `offset` of a unit from the decoded units of its parts,
    /// concatenated.
    ///
    /// All records of the unit are read and the others masked, so neither time nor memory accesses
    /// depend on the record.
    pub(crate) fn record_of(&self, units: &[u8], offset: usize) -> Vec<u8> {
        let mut record = vec![0; self.record_bytes];
        // A record of several units shares none of its units.
        let candidates = units.chunks_exact(self.record_bytes).take(self.records_per_unit());
        for (candidate, start) in candidates.zip((0u64..).step_by(self.record_bytes)) {
            let mask = equal(start, offset as u64) as u8;
            record.iter_mut().zip(candidate).for_each(|(byte, &other)| *byte |= other & mask);
        }
        record
    }

    /// Returns the first row of part `part` of the units of `group`.
    pub fn row(&self, spread: Spread, part: usize, group: usize) -> usize {
        match spread {
            Spread::Columns => group * self.unit_rows,
            Spread::Rows => (part * self.groups + group) * self.unit_rows,
        }
    }

    /// Returns the pieces of record `index`, in the order of its bytes.
    pub fn runs(&self, spread: Spread, index: u64) -> impl Iterator<Item = Run> + use<> {
        let (grid, RecordPlace { column, group, offset }) = (*self, self.place(spread, index));
        (0..self.parts()).map(move |part| {
            let start = part * grid.unit_rows;
            Run {
                column: if spread == Spread::Columns { column + part } else { column },
                row: grid.row(spread, part, group) + offset,
                bytes: start..grid.record_bytes.min(start + grid.unit_rows),
            }
        })
    }

    /// Checks a grid read from untrusted bytes: no member is zero, nothing overflows, and all
    /// records fit.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] that names the member out of range.
    pub fn validate(&self, spread: Spread) -> Result<(), ProtocolError> {
        const MAX_PARTS: usize = 1 << 20;
        let wrong = |detail: String| Err(ProtocolError::malformed("parameters", detail));
        let Self { records, record_bytes, unit_rows, groups, columns } = *self;
        if [record_bytes, unit_rows, groups, columns].contains(&0) || records == 0 {
            return wrong("records, record_bytes, unit_rows, groups and columns must be at least 1".into());
        }
        if self.parts() > MAX_PARTS {
            return wrong(format!("a record must take at most {MAX_PARTS} units"));
        }
        // Each factor is below 2^64 and there are few parts, but the product of all three may
        // exceed 128 bits.
        let rows = (groups as u128 * unit_rows as u128).checked_mul(self.parts() as u128);
        if rows.is_none_or(|rows| rows > MAX_SIDE) || columns as u128 > MAX_SIDE {
            return wrong("the matrix is larger than any this software holds".into());
        }
        let units = (columns / self.columns_of_record(spread)) as u128 * groups as u128;
        let capacity = units * self.records_per_unit() as u128;
        if u128::from(records) > capacity {
            return wrong(format!("the matrix holds {capacity} records, not {records}"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sides_beyond_the_longest_are_refused() {
        let side = MAX_SIDE as usize;
        let grid = Grid { records: 1, record_bytes: 8, unit_rows: 8, groups: side / 8, columns: side };
        grid.validate(Spread::Columns).unwrap();
        let parts = Grid { record_bytes: 16, groups: side / 16, ..grid };
        parts.validate(Spread::Rows).unwrap();
        for longer in [
            Grid { groups: side / 8 + 1, ..grid },
            Grid { unit_rows: 9, ..grid },
            Grid { columns: side + 1, ..grid },
            Grid { record_bytes: 17, ..parts },
        ] {
            assert!(longer.validate(Spread::Rows).is_err(), "{longer:?}");
        }
    }

    proptest! {
        #[test]
        fn a_grid_holds_the_records_that_have_a_place_and_no_more(
            record_bytes in 1usize..30, unit_rows in 1usize..30, groups in 1usize..6, columns in 1usize..12,
        ) {
            for spread in [Spread::Columns, Spread::Rows] {
                let grid = Grid { records: 1, record_bytes, unit_rows, groups, columns };
                // Places records in order until a record would lie beyond the last column.
                let width = grid.columns_of_record(spread);
                let fits = |index: &u64| grid.place(spread, *index).column + width <= columns;
                let records = (0..).take_while(fits).count() as u64;
                for (records, valid) in [(records, records > 0), (records + 1, false)] {
                    prop_assert_eq!(Grid { records, ..grid }.validate(spread).is_ok(), valid);
                }
            }
        }

        #[test]
        fn records_fit_and_do_not_overlap(
            records in 1u64..200, record_bytes in 1usize..50, unit_rows in 1usize..40, groups in 1usize..9,
        ) {
            for spread in [Spread::Columns, Spread::Rows] {
                let grid = Grid { records, record_bytes, unit_rows, groups, columns: 0 };
                let grid = grid.fit_columns(spread, 4).unwrap();
                grid.validate(spread).unwrap();
                let mut taken = HashSet::new();
                for index in 0..records {
                    let mut length = 0;
                    for Run { column, row, bytes } in grid.runs(spread, index) {
                        prop_assert_eq!(bytes.start, length);
                        length = bytes.end;
                        for i in 0..bytes.len() {
                            prop_assert!(column < grid.columns && row + i < grid.rows(spread));
                            prop_assert!(taken.insert((column, row + i)));
                        }
                    }
                    prop_assert_eq!(length, record_bytes);
                }
                let more = Grid { records: u64::MAX, ..grid };
                prop_assert!(more.validate(spread).is_err());
            }
        }

        #[test]
        fn any_grid_is_checked_without_overflow(
            records: u64, record_bytes: usize, unit_rows: usize, groups: usize, columns: usize,
        ) {
            let grid = Grid { records, record_bytes, unit_rows, groups, columns };
            let _ = (grid.validate(Spread::Columns), grid.validate(Spread::Rows));
        }
    }
}
