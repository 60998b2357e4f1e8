//! Readers of tables: one row at a time, in bounded memory.

#[cfg(feature = "arrow")]
pub mod arrow;
#[cfg(feature = "compression")]
mod compression;
pub mod csv;
mod files;
mod format;
#[cfg(feature = "arrow-ipc")]
pub mod ipc;
pub mod json;
pub mod jsonl;
mod list;
mod names;
pub mod npy;
#[cfg(not(feature = "object-store"))]
#[path = "no_objects.rs"]
mod objects;
#[cfg(feature = "object-store")]
mod objects;
mod open;
#[cfg(feature = "parquet")]
pub mod parquet;
pub mod raw;
pub mod text;
#[cfg(feature = "arrow")]
mod typed;

use std::fmt;
use std::path::Path;

pub use files::Files;
pub use format::{Blank, Format, FormatHints, Header, Lines, Quotes, Separated, Space};
pub use open::open_stream;
use spirea_protocols::table::{FieldType, join_fields};
pub use text::Encoding;

use crate::{Location, StoreError};

/// The longest line of a text format: an unclosed quote shall not read the whole file into memory.
pub(crate) const MAX_LINE_BYTES: usize = 64 << 20;

/// Whether this name stands for standard input: `-`.
pub fn is_standard_input(input: &Path) -> bool {
    input == Path::new("-")
}

/// What becomes of a row of which a column is null: `null` in JSON, or null in Arrow and Parquet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Nulls {
    /// The table is refused, with the row named.
    #[default]
    Refuse,
    /// A null among the values is an empty value; a null for a key is refused.
    Empty,
    /// The row is left out.
    Skip,
}

impl std::str::FromStr for Nulls {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "refuse" => Ok(Self::Refuse),
            "empty" => Ok(Self::Empty),
            "skip" => Ok(Self::Skip),
            _ => Err("nulls are refused, taken as empty or skipped: refuse, empty or skip".into()),
        }
    }
}

/// The columns that make a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// The column of keys, or `None` for a table by position.
    pub key: Option<String>,
    /// The columns of values: none for a set, which is a table of keys alone, and none for a format without columns.
    pub values: Vec<String>,
    /// What becomes of rows with nulls.
    pub nulls: Nulls,
}

impl Selection {
    /// Name of the single field of a format without columns.
    const UNNAMED_FIELD: &str = "value";

    /// Names of a value's fields.
    pub fn fields(&self) -> Vec<String> {
        match (&self.key, self.values.as_slice()) {
            (None, []) => vec![Self::UNNAMED_FIELD.into()],
            (_, values) => values.to_vec(),
        }
    }

    fn check(&self, has_columns: bool) -> Result<(), StoreError> {
        let bad = |detail: &str| Err(StoreError::BadOption(detail.into()));
        if !has_columns {
            return match (&self.key, self.values.is_empty()) {
                (None, true) => Ok(()),
                _ => {
                    bad("this format has no named columns: drop --key and --value, the table is by position")
                }
            };
        }
        if self.values.is_empty() && self.key.is_none() {
            return bad(
                "name the columns of the values with --value, or the column of the keys with --key: without --value they are a set",
            );
        }
        for (i, column) in self.values.iter().enumerate() {
            if self.values[..i].contains(column) {
                return bad(&format!("the column {column:?} is named twice in --value; name it once"));
            }
        }
        Ok(())
    }

    /// Whether a row is taken of which the cell number `cell` is null.
    ///
    /// # Errors
    /// [`StoreError::Null`] if that is refused.
    fn takes_null(&self, cell: usize, place: impl FnOnce() -> Location) -> Result<bool, StoreError> {
        match self.nulls {
            Nulls::Skip => Ok(false),
            Nulls::Empty if cell >= usize::from(self.key.is_some()) => Ok(true),
            _ => Err(StoreError::Null { place: place(), column: self.columns()[cell].clone() }),
        }
    }

    /// All columns: the key's first, if there is one.
    fn columns(&self) -> Vec<String> {
        self.key.iter().chain(&self.values).cloned().collect()
    }
}

/// A row; its buffers are used again for the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    cells: Vec<Vec<u8>>,
    keyed: bool,
}

impl Row {
    /// The key, if the table has keys.
    pub fn key(&self) -> Option<&[u8]> {
        self.keyed.then(|| self.cells[0].as_slice())
    }

    /// The value's fields.
    pub fn fields(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.cells[usize::from(self.keyed)..].iter().map(Vec::as_slice)
    }

    /// The fields joined, as a table stores them.
    pub fn value(&self) -> Vec<u8> {
        join_fields(&self.fields().collect::<Vec<_>>())
    }

    /// Empties `cells` cells to be filled.
    fn reset(&mut self, cells: usize, keyed: bool) -> &mut [Vec<u8>] {
        self.keyed = keyed;
        self.cells.resize_with(cells, Vec::new);
        self.cells.iter_mut().for_each(Vec::clear);
        &mut self.cells
    }
}

/// A column of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name; empty for the only column of a format without names.
    pub name: String,
    /// Its type, of a format that has types.
    pub kind: Option<String>,
}

/// Opens a table in a file or a pipe, whose content may be compressed; `-` is standard input.
///
/// # Errors
/// Those of [`Files::open`].
pub fn open(path: &Path, format: Format, selection: &Selection) -> Result<Box<dyn RowSource>, StoreError> {
    Files::one(path, format).open(selection)
}

/// A table that is read once, row by row.
pub trait RowSource {
    /// Reads the next row; `false` at the end.
    ///
    /// # Errors
    /// [`StoreError::Malformed`], [`StoreError::Null`] or [`StoreError::NoSuchColumn`] that name the place,
    /// [`StoreError::Io`] if the file cannot be read.
    fn next(&mut self, row: &mut Row) -> Result<bool, StoreError>;

    /// Where the row last read stands.
    fn place(&self) -> Location;

    /// Work done and in total, in any unit.
    fn progress(&self) -> (u64, u64);

    /// Types of the columns of values, in the order of the selection; none if the format has no types.
    fn types(&self) -> Vec<FieldType> {
        Vec::new()
    }

    /// The columns of a file that tells them before its first row; none otherwise.
    fn columns(&self) -> Vec<Column> {
        Vec::new()
    }

    /// The columns of a table that names them itself, if the selection named none.
    fn own_columns(&self) -> Option<Selection> {
        None
    }
}

/// A table outside of files, which can be read again from its first row.
pub trait RowTable: fmt::Debug + Send + Sync {
    /// What it is called in messages.
    fn name(&self) -> &Path;

    /// Its rows.
    ///
    /// # Errors
    /// Those of [`open`].
    fn open(&self, selection: &Selection) -> Result<Box<dyn RowSource + '_>, StoreError>;
}

/// The positions of `wanted` among `columns`.
fn positions(place: &Location, columns: &[String], wanted: &[String]) -> Result<Vec<usize>, StoreError> {
    let position = |column: &String| {
        let mut found = columns.iter().enumerate().filter(|(_, name)| *name == column);
        match (found.next(), found.next()) {
            (Some((position, _)), None) => Ok(position),
            (Some(_), Some(_)) => {
                let detail = format!("two columns are called {column:?}; rename one");
                Err(StoreError::malformed(place.clone(), detail))
            }
            (None, _) => Err(StoreError::NoSuchColumn {
                place: place.clone(),
                column: column.clone(),
                columns: columns.to_vec(),
            }),
        }
    };
    wanted.iter().map(position).collect()
}
