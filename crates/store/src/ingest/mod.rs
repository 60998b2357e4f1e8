//! Readers of tables: one row at a time, in bounded memory.

pub mod csv;
pub mod jsonl;
pub mod npy;
#[cfg(feature = "parquet")]
pub mod parquet;
pub mod raw;

use std::fs::File;
use std::path::Path;

use spirea_protocols::table::join_fields;

use crate::error::IoContext;
use crate::{Location, StoreError};

/// The longest line of a text format: an unclosed quote shall not read the whole file into memory.
pub(crate) const MAX_LINE_BYTES: usize = 64 << 20;

/// A format of input files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// Comma-separated values with a header, RFC 4180.
    Csv,
    /// One JSON object a line.
    Jsonl,
    /// Apache Parquet.
    Parquet,
    /// A NumPy array of one or two dimensions in C order: row i is value i.
    Npy,
    /// Values of a fixed number of bytes, one after another.
    Raw {
        /// Bytes of a value.
        record_bytes: usize,
    },
}

impl Format {
    /// The format called `name` (`csv`, `jsonl`, `parquet`, `npy`, `raw`), or without a name the one of the
    /// file's extension. `record_bytes` belongs to `raw` and alone implies it.
    ///
    /// # Errors
    /// [`StoreError::BadOption`] that lists the formats.
    pub fn choose(name: Option<&str>, record_bytes: Option<usize>, input: &Path) -> Result<Self, StoreError> {
        let bad = |detail: String| Err(StoreError::BadOption(detail));
        let extension = input.extension().and_then(|extension| extension.to_str()).map(str::to_lowercase);
        let format = match (name, record_bytes) {
            (Some(name), _) => name,
            (None, Some(_)) => "raw",
            (None, None) => extension.as_deref().unwrap_or(""),
        };
        let format = match (format, record_bytes) {
            ("raw", Some(record_bytes)) if record_bytes > 0 => Self::Raw { record_bytes },
            ("raw", _) => return bad("the format raw needs --record-bytes of at least 1".into()),
            (_, Some(_)) => return bad("--record-bytes belongs to the format raw".into()),
            ("csv", None) => Self::Csv,
            ("jsonl" | "ndjson", None) => Self::Jsonl,
            ("parquet" | "pq", None) => Self::Parquet,
            ("npy", None) => Self::Npy,
            (other, None) => {
                let formats = "csv, jsonl, parquet, npy, or raw with --record-bytes N";
                return bad(match name {
                    Some(_) => format!("no format is called {other:?}; there are {formats}"),
                    None => format!(
                        "{}: its extension names no format; give --format: {formats}",
                        input.display()
                    ),
                });
            }
        };
        Ok(format)
    }

    /// Whether it has named columns.
    pub fn has_columns(self) -> bool {
        matches!(self, Self::Csv | Self::Jsonl | Self::Parquet)
    }
}

/// The columns that make a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// The column of keys, or `None` for a table by position.
    pub key: Option<String>,
    /// The columns of values; none for a format without columns.
    pub values: Vec<String>,
}

impl Selection {
    /// Name of the single field of a format without columns.
    const UNNAMED_FIELD: &str = "value";

    /// Names of a value's fields.
    pub fn fields(&self) -> Vec<String> {
        match self.values.as_slice() {
            [] => vec![Self::UNNAMED_FIELD.into()],
            values => values.to_vec(),
        }
    }

    fn check(&self, format: Format) -> Result<(), StoreError> {
        let bad = |detail: &str| Err(StoreError::BadOption(detail.into()));
        if !format.has_columns() {
            return match (&self.key, self.values.is_empty()) {
                (None, true) => Ok(()),
                _ => {
                    bad("this format has no named columns: drop --key and --value, the table is by position")
                }
            };
        }
        if self.values.is_empty() {
            return bad("name at least one column of values with --value");
        }
        for (i, column) in self.values.iter().enumerate() {
            if self.values[..i].contains(column) {
                return bad(&format!("the column {column:?} is named twice in --value; name it once"));
            }
        }
        Ok(())
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
}

/// Opens a table.
///
/// # Errors
/// [`StoreError::BadOption`] if the columns do not suit the format, [`StoreError::NoSuchColumn`] that lists the
/// columns there are, [`StoreError::Malformed`] for a file of another format, [`StoreError::Io`].
pub fn open(path: &Path, format: Format, selection: &Selection) -> Result<Box<dyn RowSource>, StoreError> {
    selection.check(format)?;
    let file = File::open(path).at("open", path)?;
    let metadata = file.metadata().at("read", path)?;
    if metadata.is_dir() {
        let detail = "it is a folder; name one file";
        return Err(StoreError::malformed(Location::File(path.into()), detail));
    }
    let bytes = metadata.len();
    Ok(match format {
        Format::Csv => Box::new(csv::CsvRows::new(file, bytes, path, selection)?),
        Format::Jsonl => Box::new(jsonl::JsonlRows::new(file, bytes, path, selection)),
        #[cfg(feature = "parquet")]
        Format::Parquet => Box::new(parquet::ParquetRows::new(file, path, selection)?),
        #[cfg(not(feature = "parquet"))]
        Format::Parquet => {
            return Err(StoreError::BadOption(
                "this build reads no Parquet: enable the feature parquet".into(),
            ));
        }
        Format::Npy => Box::new(npy::open(file, bytes, path)?),
        Format::Raw { record_bytes } => Box::new(raw::FixedRows::of_file(file, bytes, path, record_bytes)?),
    })
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
