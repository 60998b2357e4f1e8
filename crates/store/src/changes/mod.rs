//! Changes of a table: new values of keys, and deleted keys.

mod cursor;
mod file;
mod grouping;
mod lines;
mod read;

use std::collections::BTreeMap;

use spirea_protocols::delta::{Change, index_key};
use spirea_protocols::{Table, TableKind};

pub use cursor::{After, Cursor, LongCursor};
pub use grouping::{Group, Grouping, Lines};
pub use read::Input;

pub(crate) use cursor::named;

use crate::StoreError;
use crate::forms::{check_types, in_form};

/// A set of changes, at most one for each key. The key of a row of a table by position is its
/// [`index_key`].
///
/// Changes of a stream also have the cursors before and after them. These are not part of
/// [`Changes::to_bytes`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    by_key: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    after: After,
    cursor: Option<Cursor>,
}

impl Changes {
    /// Creates an empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a key's value, replacing the set's former change of that key. With several fields, the
    /// value is the result of [`Table::join_fields`].
    pub fn put(&mut self, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) {
        self.by_key.insert(key.into(), Some(value.into()));
    }

    /// Deletes a key's value, replacing the set's former change of that key.
    pub fn delete(&mut self, key: impl Into<Vec<u8>>) {
        self.by_key.insert(key.into(), None);
    }

    /// Returns the number of changes.
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// True if there are no changes.
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// Returns the changes with their keys, in the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], Change<'_>)> {
        self.by_key.iter().map(|(key, value)| (key.as_slice(), change(value.as_ref())))
    }

    /// Sets the cursor that the current version must have for these changes to be applied.
    pub fn set_after(&mut self, cursor: Option<Cursor>) {
        self.after = After::Exactly(cursor);
    }

    /// Returns the cursor that these changes follow.
    pub fn after(&self) -> &After {
        &self.after
    }

    /// Sets the producer's position after these changes, which the version stores.
    pub fn set_cursor(&mut self, cursor: Cursor) {
        self.cursor = Some(cursor);
    }

    /// Returns the producer's position after these changes, if the producer gave it.
    pub fn cursor(&self) -> Option<&Cursor> {
        self.cursor.as_ref()
    }

    /// Returns the change of a key.
    pub fn get(&self, key: &[u8]) -> Option<Change<'_>> {
        self.by_key.get(key).map(|value| change(value.as_ref()))
    }

    /// Adds later changes, which override existing ones, and their cursor.
    pub fn extend(&mut self, later: Self) {
        self.by_key.extend(later.by_key);
        self.cursor = later.cursor.or(self.cursor.take());
    }

    /// Returns the changes that are not in `compacted`, an earlier state of this set. Returns
    /// `None` if a key of `compacted` is missing in this set: then `compacted` is not an earlier
    /// state.
    pub(crate) fn since(&self, compacted: &Self) -> Option<Self> {
        if compacted.by_key.keys().any(|key| !self.by_key.contains_key(key)) {
            return None;
        }
        let rest = self.by_key.iter().filter(|(key, value)| compacted.by_key.get(*key) != Some(value));
        let by_key = rest.map(|(key, value)| (key.clone(), value.clone())).collect();
        Some(Self { by_key, ..Self::default() })
    }

    /// Checks that these changes are possible for `table`: sizes and fields of values, and new rows
    /// that directly follow the table's rows without gaps.
    ///
    /// # Errors
    /// [`StoreError::BadChange`] with the key.
    pub fn check(&self, table: &Table) -> Result<(), StoreError> {
        let refuse = |key: &[u8], detail: String| {
            Err(StoreError::BadChange { key: key_text(table.kind, key), detail })
        };
        for (key, value) in &self.by_key {
            let Some(value) = value else { continue };
            let (bytes, most) = (value.len(), table.value_limit());
            if bytes > most {
                let detail = format!(
                    "its value has {bytes} bytes, above the table's limit of {most}: split it over several keys, or build the table with a larger --max-value"
                );
                return refuse(key, detail);
            }
            if let Err(detail) = check_value(table, value) {
                return refuse(key, detail);
            }
        }
        for key in self.by_key.keys().filter(|_| table.key_form.is_some()) {
            match in_form(table.key_form.as_ref(), key) {
                Ok(in_form) if *in_form == **key => {}
                Ok(in_form) => {
                    let detail = format!("the table has it in another form: \"{}\"", in_form.escape_ascii());
                    return refuse(key, detail);
                }
                Err(detail) => return refuse(key, detail),
            }
        }
        if table.kind == TableKind::Index {
            if let Some(key) = self.by_key.keys().find(|key| key.len() != index_key(0).len()) {
                return refuse(key, "it is not the index of a row".into());
            }
            for (expected, row) in (table.entries..).zip(self.added_rows(table)) {
                if row != expected {
                    return refuse(
                        &index_key(row),
                        format!("the table has no row {expected}, which comes before: add rows in order"),
                    );
                }
            }
        }
        Ok(())
    }

    /// For a table by position, returns the numbers of the rows added after its last row, in
    /// ascending order.
    fn added_rows(&self, table: &Table) -> Vec<u64> {
        let row = |key: &Vec<u8>| key.as_slice().try_into().map(u64::from_le_bytes).ok();
        let mut rows: Vec<u64> =
            self.by_key.keys().filter_map(row).filter(|&row| row >= table.entries).collect();
        rows.sort_unstable();
        rows
    }

    /// Returns the number of rows of a table by position with these changes.
    pub(crate) fn rows_of(&self, table: &Table) -> u64 {
        table.entries + self.added_rows(table).len() as u64
    }
}

/// Checks that a value has the fields of a table, with their types.
///
/// # Errors
/// The fault.
fn check_value(table: &Table, value: &[u8]) -> Result<(), String> {
    let fields = table
        .split_fields(value)
        .map_err(|_| format!("its value has not the fields of the table: {}", table.fields.join(", ")))?;
    check_types(&table.fields, &table.types, fields.iter().map(Vec::as_slice))
}

fn change(value: Option<&Vec<u8>>) -> Change<'_> {
    value.map_or(Change::Delete, |value| Change::Put(value))
}

/// Formats a key for messages.
fn key_text(kind: TableKind, key: &[u8]) -> String {
    match (kind, key.try_into().map(u64::from_le_bytes)) {
        (TableKind::Index, Ok(row)) => format!("row {row}"),
        _ => format!("key \"{}\"", key.escape_ascii()),
    }
}
