//! Reads changes from files of any format for tables.

use std::collections::HashMap;

use spirea_protocols::delta::index_key;
use spirea_protocols::{Table, TableKind};

use super::{Changes, check_value};
use crate::forms::in_form;
use crate::ingest::{Files, Nulls, Row, RowSource, Selection};
use crate::{Location, StoreError};

/// Files of changes. For a table by position, the key column holds row numbers, from 0.
#[derive(Clone, Debug)]
pub struct Input {
    /// The files.
    pub files: Files,
    /// Column of the keys; the columns of the values are the table's fields.
    pub key: String,
    /// Treatment of rows with nulls.
    pub nulls: Nulls,
}

impl Changes {
    /// Reads changes of `table`: a file of keys with new values, a file of keys to delete, or both.
    ///
    /// # Errors
    /// [`StoreError::Malformed`] with the line or row of a key that is repeated or is not a row
    /// number; [`StoreError::Oversize`]; those of [`Files::open`] and of its readers.
    pub fn read(table: &Table, put: Option<&Input>, delete: Option<&Input>) -> Result<Self, StoreError> {
        let mut reader = Reader::new(table);
        for (input, fields) in [(put, Some(&table.fields)), (delete, None)] {
            let Some(input) = input else { continue };
            if !input.files.format().has_columns() {
                let detail = "changes need a column of keys: give them as CSV, JSONL, Arrow or Parquet";
                return Err(StoreError::BadOption(detail.into()));
            }
            // From a file of deletions, only the keys are read.
            let values = fields.cloned().unwrap_or_default();
            let selection = Selection { key: Some(input.key.clone()), values, nulls: input.nulls };
            let mut source = input.files.open(&selection)?;
            let mut row = Row::default();
            while source.next(&mut row)? {
                let value = fields.map(|_| row.value());
                reader.add(row.key().unwrap_or_default(), value, &*source)?;
            }
        }
        Ok(reader.changes)
    }
}

/// Changes read so far, with their places.
pub(super) struct Reader<'t> {
    table: &'t Table,
    pub(super) changes: Changes,
    places: HashMap<Vec<u8>, Location>,
}

impl<'t> Reader<'t> {
    pub(super) fn new(table: &'t Table) -> Self {
        Self { table, changes: Changes::new(), places: HashMap::new() }
    }

    /// Adds the last row read from a source.
    fn add(&mut self, key: &[u8], value: Option<Vec<u8>>, source: &dyn RowSource) -> Result<(), StoreError> {
        self.add_at(key, value, source.place())
    }

    /// Adds a change found at `place`; for a table by position, the key is the row number as text.
    pub(super) fn add_at(
        &mut self,
        key: &[u8],
        value: Option<Vec<u8>>,
        place: Location,
    ) -> Result<(), StoreError> {
        let key = checked(self.table, key, value.as_deref(), &place)?;
        if let Some(first) = self.places.insert(key.clone(), place.clone()) {
            let key = super::key_text(self.table.kind, &key);
            let detail = format!("{key} is changed in {first} already; keep one of the two");
            return Err(StoreError::malformed(place, detail));
        }
        match value {
            Some(value) => self.changes.put(key, value),
            None => self.changes.delete(key),
        }
        Ok(())
    }
}

/// Checks a change found at `place`, and returns its key in the form in which the table stores
/// keys. For a table by position, `key` is the row number as text.
pub(super) fn checked(
    table: &Table,
    key: &[u8],
    value: Option<&[u8]>,
    place: &Location,
) -> Result<Vec<u8>, StoreError> {
    let malformed = |detail: String| StoreError::malformed(place.clone(), detail);
    let key = match table.kind {
        TableKind::Keyword => in_form(table.key_form.as_ref(), key).map_err(malformed)?.into_owned(),
        TableKind::Index => {
            let row = str::from_utf8(key).ok().and_then(|text| text.parse().ok());
            let row = row.ok_or_else(|| {
                malformed(format!(
                    "\"{}\" is not the number of a row, such as 17: the table is looked up by position",
                    key.escape_ascii()
                ))
            })?;
            index_key(row).to_vec()
        }
    };
    let Some(value) = value else { return Ok(key) };
    let (bytes, most) = (value.len(), table.value_limit());
    if bytes > most {
        let what = format!("the value of {}", super::key_text(table.kind, &key));
        return Err(StoreError::Oversize { place: place.clone(), what, bytes, most });
    }
    check_value(table, value).map_err(malformed)?;
    Ok(key)
}
