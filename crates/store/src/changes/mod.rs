//! Changes of a table: keys with their new values, and keys that have none any more.

mod file;
mod read;
mod stream;

use std::collections::BTreeMap;

use spirea_protocols::delta::{Change, index_key};
use spirea_protocols::{Table, TableKind};

pub use read::Input;

use crate::StoreError;
use crate::forms::{check_types, in_form};

/// A set of changes: at most one of each key. A row of a table that is looked up by position goes by its
/// [`index_key`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    by_key: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
}

impl Changes {
    /// No changes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives a key a value, in place of what the set said of it. With several fields a value is what
    /// [`Table::join_fields`] makes of them.
    pub fn put(&mut self, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) {
        self.by_key.insert(key.into(), Some(value.into()));
    }

    /// Takes a key's value away, in place of what the set said of it.
    pub fn delete(&mut self, key: impl Into<Vec<u8>>) {
        self.by_key.insert(key.into(), None);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// The changes with their keys, in the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], Change<'_>)> {
        self.by_key.iter().map(|(key, value)| (key.as_slice(), change(value.as_ref())))
    }

    /// What the set says of a key.
    pub fn get(&self, key: &[u8]) -> Option<Change<'_>> {
        self.by_key.get(key).map(|value| change(value.as_ref()))
    }

    /// Adds later changes, which go before those that there are.
    pub fn extend(&mut self, later: Self) {
        self.by_key.extend(later.by_key);
    }

    /// Those that `compacted`, an earlier state of the same set, does not have; `None` if a key of it is missing
    /// here, so that it is not an earlier state.
    pub(crate) fn since(&self, compacted: &Self) -> Option<Self> {
        if compacted.by_key.keys().any(|key| !self.by_key.contains_key(key)) {
            return None;
        }
        let rest = self.by_key.iter().filter(|(key, value)| compacted.by_key.get(*key) != Some(value));
        Some(Self { by_key: rest.map(|(key, value)| (key.clone(), value.clone())).collect() })
    }

    /// Checks that these could be changes of `table`: the sizes and fields of values, and rows that begin where those
    /// of the table end and leave none out.
    ///
    /// # Errors
    /// [`StoreError::BadChange`] that names the key.
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

    /// The rows after those of a table by position, in order.
    fn added_rows(&self, table: &Table) -> Vec<u64> {
        let row = |key: &Vec<u8>| key.as_slice().try_into().map(u64::from_le_bytes).ok();
        let mut rows: Vec<u64> =
            self.by_key.keys().filter_map(row).filter(|&row| row >= table.entries).collect();
        rows.sort_unstable();
        rows
    }

    /// Rows of a table by position with these changes.
    pub(crate) fn rows_of(&self, table: &Table) -> u64 {
        table.entries + self.added_rows(table).len() as u64
    }
}

/// Checks that a value has the fields of a table, of their types.
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

/// A key as messages show it.
fn key_text(kind: TableKind, key: &[u8]) -> String {
    match (kind, key.try_into().map(u64::from_le_bytes)) {
        (TableKind::Index, Ok(row)) => format!("row {row}"),
        _ => format!("key \"{}\"", key.escape_ascii()),
    }
}
