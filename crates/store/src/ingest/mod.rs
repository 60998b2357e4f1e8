//! Readers of tables: row by row, in bounded memory.

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
mod memory;
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
pub use memory::RowList;
pub use open::open_stream;
use spirea_protocols::table::{FieldType, join_fields};
pub use text::Encoding;

use crate::{Location, StoreError};

/// Maximum length of a line of a text format: an unclosed quote must not make a reader load the
/// whole file into memory.
pub(crate) const MAX_LINE_BYTES: usize = 64 << 20;

/// True if this name stands for standard input: `-`.
pub fn is_standard_input(input: &Path) -> bool {
    input == Path::new("-")
}

/// Treatment of a row in which a column is null: `null` in JSON, or null in Arrow and Parquet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Nulls {
    /// The table is refused; the error names the row.
    #[default]
    Refuse,
    /// A null among the values is an empty value; a null for a key is refused.
    Empty,
    /// The row is skipped.
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

/// Selection of the columns that make a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Column of keys, or `None` for a table by position.
    pub key: Option<String>,
    /// Columns of values; empty for a set, which is a table of keys alone, and for a format without
    /// columns.
    pub values: Vec<String>,
    /// Treatment of rows with nulls.
    pub nulls: Nulls,
}

impl Selection {
    /// Name of the single field of a format without columns.
    const UNNAMED_FIELD: &str = "value";

    /// Returns the names of a value's fields.
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

    /// True if a row is kept although cell number `cell` is null.
    ///
    /// # Errors
    /// [`StoreError::Null`] if the null is refused.
    fn takes_null(&self, cell: usize, place: impl FnOnce() -> Location) -> Result<bool, StoreError> {
        match self.nulls {
            Nulls::Skip => Ok(false),
            Nulls::Empty if cell >= usize::from(self.key.is_some()) => Ok(true),
            _ => Err(StoreError::Null { place: place(), column: self.columns()[cell].clone() }),
        }
    }

    /// Returns all columns: the key's first, if there is one.
    fn columns(&self) -> Vec<String> {
        self.key.iter().chain(&self.values).cloned().collect()
    }
}

/// A row, whose buffers are reused for the next row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    cells: Vec<Vec<u8>>,
    keyed: bool,
}

impl Row {
    /// Returns the key, if the table has keys.
    pub fn key(&self) -> Option<&[u8]> {
        self.keyed.then(|| self.cells[0].as_slice())
    }

    /// Returns the value's fields.
    pub fn fields(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.cells[usize::from(self.keyed)..].iter().map(Vec::as_slice)
    }

    /// Returns the joined fields, as a table stores them.
    pub fn value(&self) -> Vec<u8> {
        join_fields(&self.fields().collect::<Vec<_>>())
    }

    /// Clears `cells` cells for the next row.
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
    /// Name; empty for the only column of a format without names.
    pub name: String,
    /// Type, if the format has types.
    pub kind: Option<String>,
}

/// Opens a table in a file or a pipe, possibly compressed; `-` is standard input.
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
    /// [`StoreError::Malformed`], [`StoreError::Null`] or [`StoreError::NoSuchColumn`] with the
    /// place, [`StoreError::Io`] if the file cannot be read.
    fn next(&mut self, row: &mut Row) -> Result<bool, StoreError>;

    /// Returns the place of the last row read.
    fn place(&self) -> Location;

    /// Returns the work done and the total, in any unit.
    fn progress(&self) -> (u64, u64);

    /// Returns the types of the value columns, in the order of the selection; empty if the format
    /// has no types.
    fn types(&self) -> Vec<FieldType> {
        Vec::new()
    }

    /// Returns the columns of a file that names them before its first row; empty otherwise.
    fn columns(&self) -> Vec<Column> {
        Vec::new()
    }

    /// If the selection names no columns, returns the columns that the table itself names.
    fn own_columns(&self) -> Option<Selection> {
        None
    }
}

/// A table outside of files, which can be read repeatedly from its first row.
pub trait RowTable: fmt::Debug + Send + Sync {
    /// Returns the name in messages.
    fn name(&self) -> &Path;

    /// Opens the rows.
    ///
    /// # Errors
    /// Those of [`open`].
    fn open(&self, selection: &Selection) -> Result<Box<dyn RowSource + '_>, StoreError>;
}

/// Returns the positions of `wanted` among `columns`.
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
