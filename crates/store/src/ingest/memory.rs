//! Rows in memory.

use std::fmt;
use std::path::{Path, PathBuf};

use super::{Row, RowSource, RowTable, Selection, positions};
use crate::{Location, StoreError};

/// A table of rows in memory, whose cells are bytes.
pub struct RowList {
    name: PathBuf,
    columns: Vec<String>,
    rows: Vec<Vec<Vec<u8>>>,
}

impl RowList {
    /// Creates a table of `rows`, with a cell for each of the `columns`. Messages call it `name`.
    ///
    /// # Errors
    /// [`StoreError::Malformed`] for the first row with another number of cells.
    pub fn new(
        name: impl Into<PathBuf>,
        columns: Vec<String>,
        rows: Vec<Vec<Vec<u8>>>,
    ) -> Result<Self, StoreError> {
        let name = name.into();
        if let Some(i) = rows.iter().position(|row| row.len() != columns.len()) {
            let (cells, expected) = (rows[i].len(), columns.len());
            let detail = format!("the row has {cells} cells, and the table {expected} columns");
            return Err(StoreError::malformed(Location::Row(name, i as u64 + 1), detail));
        }
        Ok(Self { name, columns, rows })
    }

    /// Returns the names of the columns.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }
}

/// Shows the size only: a table can be large.
impl fmt::Debug for RowList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, columns, rows } = self;
        f.debug_struct("RowList")
            .field("name", name)
            .field("columns", columns)
            .field("rows", &rows.len())
            .finish()
    }
}

impl RowTable for RowList {
    fn name(&self) -> &Path {
        &self.name
    }

    fn open(&self, selection: &Selection) -> Result<Box<dyn RowSource + '_>, StoreError> {
        selection.check(true)?;
        let place = Location::File(self.name.clone());
        let places = positions(&place, &self.columns, &selection.columns())?;
        Ok(Box::new(ListedRows { table: self, places, keyed: selection.key.is_some(), done: 0 }))
    }
}

/// Selected cells of the rows of a list.
struct ListedRows<'t> {
    table: &'t RowList,
    places: Vec<usize>,
    keyed: bool,
    done: usize,
}

impl RowSource for ListedRows<'_> {
    fn next(&mut self, row: &mut Row) -> Result<bool, StoreError> {
        let Some(cells) = self.table.rows.get(self.done) else { return Ok(false) };
        let wanted = row.reset(self.places.len(), self.keyed);
        for (cell, &place) in wanted.iter_mut().zip(&self.places) {
            cell.extend_from_slice(&cells[place]);
        }
        self.done += 1;
        Ok(true)
    }

    fn place(&self) -> Location {
        Location::Row(self.table.name.clone(), self.done as u64)
    }

    fn progress(&self) -> (u64, u64) {
        (self.done as u64, self.table.rows.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &[&[&str]]) -> Result<RowList, StoreError> {
        let cells = |row: &&[&str]| row.iter().map(|cell| cell.as_bytes().to_vec()).collect();
        let columns = ["key", "colour", "size"].map(String::from).to_vec();
        RowList::new("the rows", columns, rows.iter().map(cells).collect())
    }

    fn selection(key: Option<&str>, values: &[&str]) -> Selection {
        let values = values.iter().map(|&value| value.into()).collect();
        Selection { key: key.map(Into::into), values, ..Selection::default() }
    }

    #[test]
    fn a_selection_has_its_columns_in_its_own_order() {
        let table = table(&[&["a", "red", "1"], &["b", "", "22"]]).unwrap();
        let selection = selection(Some("key"), &["size", "colour"]);
        for _ in 0..2 {
            let (mut rows, mut row, mut found) =
                (table.open(&selection).unwrap(), Row::default(), Vec::new());
            while rows.next(&mut row).unwrap() {
                let fields: Vec<_> = row.fields().map(<[u8]>::to_vec).collect();
                found.push((row.key().unwrap().to_vec(), fields, rows.place().to_string()));
            }
            let expected = [("a", ["1", "red"], "the rows: row 1"), ("b", ["22", ""], "the rows: row 2")];
            let expected = expected.map(|(key, fields, place)| {
                (
                    key.as_bytes().to_vec(),
                    fields.map(|field| field.as_bytes().to_vec()).to_vec(),
                    place.into(),
                )
            });
            assert_eq!(found, expected);
            assert_eq!(rows.progress(), (2, 2));
        }
    }

    #[test]
    fn a_row_of_another_length_is_refused_with_its_place() {
        let error = table(&[&["a", "red", "1"], &["b", "blue"]]).unwrap_err();
        assert_eq!(error.to_string(), "the rows: row 2: the row has 2 cells, and the table 3 columns");
    }

    #[test]
    fn a_selection_must_fit_the_columns() {
        let table = table(&[]).unwrap();
        let error = |selection: Selection| table.open(&selection).map(drop).unwrap_err();
        assert!(matches!(error(selection(None, &["shape"])), StoreError::NoSuchColumn { .. }));
        assert!(matches!(error(selection(None, &[])), StoreError::BadOption(_)));
    }
}
