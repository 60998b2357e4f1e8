//! Concatenates the rows of several files, with additional columns from the names of their folders.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use spirea_protocols::table::FieldType;

use super::open::{Place, open_as};
use super::{Column, Format, Row, RowSource, Selection};
use crate::{Location, StoreError};

/// A file of a table.
#[derive(Clone, Debug)]
pub(super) struct TableFile {
    pub place: Place,
    /// Name in messages.
    pub name: PathBuf,
    /// Length in bytes, as far as known.
    pub bytes: u64,
    /// Columns from the names of its folders.
    pub partitions: Vec<Partition>,
}

/// A column with the same value in all rows of a file, such as that of the folder `year=2024`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Partition {
    pub column: String,
    /// Value; `None` is a null.
    pub value: Option<String>,
}

impl TableFile {
    /// Opens the rows of the file. Copies are written to the folder `scratch`.
    ///
    /// # Errors
    /// Those of [`super::open`].
    pub fn open(
        &self,
        format: &Format,
        selection: &Selection,
        scratch: &Path,
    ) -> Result<Box<dyn RowSource>, StoreError> {
        open_as(&self.place, &self.name, format.clone(), selection, scratch)
    }

    /// True if the folders of both files give the same columns.
    pub fn has_partitions_of(&self, other: &Self) -> bool {
        let columns = |file: &Self| {
            let mut columns: Vec<_> =
                file.partitions.iter().map(|partition| partition.column.clone()).collect();
            columns.sort_unstable();
            columns
        };
        columns(self) == columns(other)
    }
}

/// Rows of several files, with one file open at a time.
pub(super) struct ListRows {
    files: Arc<[TableFile]>,
    format: Format,
    scratch: PathBuf,
    selection: Selection,
    /// Columns that the files themselves have.
    inner: Selection,
    /// Source of each cell of a row.
    origins: Vec<Origin>,
    /// Columns of the first file that names its columns, and the position of this file.
    columns: Option<(Vec<Column>, usize)>,
    own_columns: Option<Selection>,
    /// Types of the value columns; empty if the files have no types.
    types: Vec<FieldType>,
    /// File being read; `None` after the last one.
    current: Option<Box<dyn RowSource>>,
    /// Number of files that have been read to their end.
    done: usize,
    /// Bytes of the files that have been read to their end, plus 1 for each of these files.
    done_bytes: u64,
    total_bytes: u64,
    row: Row,
}

/// Source of a cell.
enum Origin {
    /// Cell with this number in a file's row.
    File(usize),
    /// Partition with this name.
    Partition(String),
}

impl ListRows {
    /// Opens the rows of `files`, all of this format and with the same partitions. Copies are
    /// written to the folder `scratch`.
    ///
    /// # Errors
    /// Those of [`super::open`].
    pub fn open(
        files: Arc<[TableFile]>,
        format: Format,
        selection: &Selection,
        scratch: &Path,
    ) -> Result<Self, StoreError> {
        let is_partition = |column: &String| {
            format.has_columns() && files[0].partitions.iter().any(|partition| partition.column == *column)
        };
        let inner = Selection {
            key: selection.key.clone().filter(|column| !is_partition(column)),
            values: selection.values.iter().filter(|column| !is_partition(column)).cloned().collect(),
            nulls: selection.nulls,
        };
        let mut cells = 0..;
        let origin = |column: String| match is_partition(&column) {
            true => Origin::Partition(column),
            false => Origin::File(cells.next().expect("numbers do not end")),
        };
        let origins = selection.columns().into_iter().map(origin).collect();
        let total_bytes = files.iter().map(|file| file.bytes + 1).sum();
        let mut rows = Self {
            files,
            format,
            scratch: scratch.into(),
            selection: selection.clone(),
            inner,
            origins,
            columns: None,
            own_columns: None,
            types: Vec::new(),
            current: None,
            done: 0,
            done_bytes: 0,
            total_bytes,
            row: Row::default(),
        };
        rows.open_next()?;
        if let Some(current) = &rows.current {
            rows.own_columns = current.own_columns();
            rows.types = rows.types_with_partitions(&current.types());
        }
        Ok(rows)
    }

    /// Returns the types of the value columns, given the types in the first file.
    /// [`ListRows::check`] ensures that the other files have the same types.
    fn types_with_partitions(&self, of_file: &[FieldType]) -> Vec<FieldType> {
        if of_file.is_empty() {
            return Vec::new();
        }
        let (keys, keys_in_file) =
            [&self.selection, &self.inner].map(|columns| usize::from(columns.key.is_some())).into();
        let kind = |origin: &Origin| match origin {
            Origin::File(cell) => of_file[cell - keys_in_file],
            Origin::Partition(_) => FieldType::Text,
        };
        self.origins[keys..].iter().map(kind).collect()
    }

    /// Opens the next file, if there is one.
    fn open_next(&mut self) -> Result<(), StoreError> {
        // Closes the last file before the next one is opened.
        self.current = None;
        let Some(file) = self.files.get(self.done) else { return Ok(()) };
        let source = file.open(&self.format, &self.inner, &self.scratch)?;
        let columns = source.columns();
        match &self.columns {
            Some((first, number)) if !columns.is_empty() => {
                self.check(first, &columns).map_err(|difference| {
                    let detail = format!("{difference} {}", self.files[*number].name.display());
                    StoreError::malformed(Location::File(file.name.clone()), detail)
                })?;
            }
            None if !columns.is_empty() => self.columns = Some((columns, self.done)),
            _ => {}
        }
        self.current = Some(source);
        Ok(())
    }

    /// Checks that a file has the same columns as the first one, in any order, with the same types
    /// for columns that are read.
    ///
    /// # Errors
    /// The difference; the caller appends the first file's name.
    fn check(&self, first: &[Column], columns: &[Column]) -> Result<(), String> {
        let find = |columns: &[Column], name: &str| columns.iter().position(|column| column.name == name);
        if let Some(lacking) = first.iter().find(|column| find(columns, &column.name).is_none()) {
            return Err(format!("it has no column {:?}, as there is in", lacking.name));
        }
        if let Some(more) = columns.iter().find(|column| find(first, &column.name).is_none()) {
            return Err(format!("it has a column {:?}, which is not in", more.name));
        }
        let is_read = |column: &&Column| {
            let (name, Selection { key, values, .. }) = (&column.name, &self.inner);
            !self.format.has_columns() || key.as_ref() == Some(name) || values.contains(name)
        };
        for column in columns.iter().filter(is_read) {
            let former = &first[find(first, &column.name).expect("it was found before")];
            if let (Some(kind), Some(wanted)) = (&column.kind, &former.kind)
                && kind != wanted
            {
                let what = match column.name.is_empty() {
                    true => "its rows are".to_owned(),
                    false => format!("its column {:?} is", column.name),
                };
                return Err(format!("{what} of type {kind}, and of type {wanted} in"));
            }
        }
        Ok(())
    }

    /// Fills a row from the file's row and the partitions; `false` if the row is skipped.
    fn fill(&mut self, row: &mut Row) -> Result<bool, StoreError> {
        let partitions = &self.files[self.done].partitions;
        let cells = row.reset(self.origins.len(), self.selection.key.is_some());
        for (i, (cell, origin)) in cells.iter_mut().zip(&self.origins).enumerate() {
            let column = match origin {
                Origin::File(inner) => {
                    std::mem::swap(cell, &mut self.row.cells[*inner]);
                    continue;
                }
                Origin::Partition(column) => column,
            };
            let found = partitions.iter().find(|partition| partition.column == *column);
            match found.and_then(|partition| partition.value.as_ref()) {
                Some(value) => cell.extend_from_slice(value.as_bytes()),
                None if self.selection.takes_null(i, || self.place())? => {}
                None => return Ok(false),
            }
        }
        Ok(true)
    }
}

impl RowSource for ListRows {
    fn next(&mut self, row: &mut Row) -> Result<bool, StoreError> {
        let has_partitions = self.origins.iter().any(|origin| matches!(origin, Origin::Partition(_)));
        while let Some(current) = &mut self.current {
            let into = if has_partitions { &mut self.row } else { &mut *row };
            if !current.next(into)? {
                self.done_bytes += self.files[self.done].bytes + 1;
                self.done += 1;
                self.open_next()?;
            } else if !has_partitions || self.fill(row)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn place(&self) -> Location {
        match &self.current {
            Some(current) => current.place(),
            None => Location::File(self.files[self.done - 1].name.clone()),
        }
    }

    fn progress(&self) -> (u64, u64) {
        let (Some(current), Some(file)) = (&self.current, self.files.get(self.done)) else {
            return (self.done_bytes, self.total_bytes);
        };
        // Each format counts in its own units.
        let (done, total) = current.progress();
        let bytes = u128::from(file.bytes) * u128::from(done.min(total)) / u128::from(total.max(1));
        (self.done_bytes + bytes as u64, self.total_bytes)
    }

    fn columns(&self) -> Vec<Column> {
        self.columns.as_ref().map(|(columns, _)| columns.clone()).unwrap_or_default()
    }

    fn types(&self) -> Vec<FieldType> {
        self.types.clone()
    }

    fn own_columns(&self) -> Option<Selection> {
        self.own_columns.clone()
    }
}
