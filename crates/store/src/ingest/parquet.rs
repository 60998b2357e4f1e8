//! Apache Parquet. Strings and binary columns are their bytes; other types their text as Arrow displays it.

use std::collections::BTreeSet;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, StringArray};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{ArrowError, DataType};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};

use super::{Row, RowSource, Selection, positions};
use crate::{Location, StoreError};

/// Bytes that a batch of rows aims at.
const BATCH_BYTES: u64 = 4 << 20;

/// Rows of a Parquet file.
pub struct ParquetRows {
    reader: ParquetRecordBatchReader,
    path: PathBuf,
    /// The batch being read: a column for each cell, of strings or bytes.
    columns: Vec<ArrayRef>,
    /// For each cell, its column in a batch.
    cells: Vec<usize>,
    selection: Selection,
    in_batch: usize,
    done: u64,
    rows: u64,
}

impl ParquetRows {
    /// Rows of a file.
    ///
    /// # Errors
    /// [`StoreError::NoSuchColumn`] that lists the columns, [`StoreError::Malformed`] if it is not Parquet.
    pub fn new(file: File, path: &Path, selection: &Selection) -> Result<Self, StoreError> {
        let place = Location::File(path.into());
        let malformed = |error: &dyn std::fmt::Display| {
            let detail = format!("it cannot be read as Parquet: {error}; write it again");
            StoreError::malformed(place.clone(), detail)
        };
        let builder = unpanicked(|| ParquetRecordBatchReaderBuilder::try_new(file))
            .map_err(|cause| malformed(&cause))?;
        let columns: Vec<_> = builder.schema().fields().iter().map(|field| field.name().clone()).collect();
        let wanted = positions(&place, &columns, &selection.columns())?;
        let projected = BTreeSet::from_iter(wanted.iter().copied());
        let cells = wanted.iter().map(|column| projected.range(..column).count()).collect();
        let metadata = builder.metadata();
        let rows = u64::try_from(metadata.file_metadata().num_rows()).unwrap_or(0);
        let bytes: u64 = metadata
            .row_groups()
            .iter()
            .map(|group| u64::try_from(group.total_byte_size()).unwrap_or(0))
            .fold(0, u64::saturating_add);
        let batch = (BATCH_BYTES / (bytes / rows.max(1)).max(1)).clamp(1, 4096);
        let mask = ProjectionMask::roots(builder.parquet_schema(), projected);
        let reader = builder.with_projection(mask).with_batch_size(batch as usize).build();
        let reader = reader.map_err(|error| malformed(&error))?;
        let (path, selection) = (path.into(), selection.clone());
        Ok(Self { reader, path, columns: Vec::new(), cells, selection, in_batch: 0, done: 0, rows })
    }

    fn malformed(&self, cause: &str) -> StoreError {
        let detail = format!("the rows from here cannot be read: {cause}; write the file again");
        StoreError::malformed(Location::Row(self.path.clone(), self.done + 1), detail)
    }

    fn next_batch(&mut self) -> Result<bool, StoreError> {
        let (reader, cells) = (&mut self.reader, &self.cells);
        let columns = unpanicked(|| -> Result<_, ArrowError> {
            for batch in reader {
                let batch: RecordBatch = batch?;
                if batch.num_rows() > 0 {
                    return cells.iter().map(|&column| as_bytes(batch.column(column))).collect();
                }
            }
            Ok(Vec::new())
        });
        self.columns = columns.map_err(|cause| self.malformed(&cause))?;
        self.in_batch = 0;
        Ok(!self.columns.is_empty())
    }
}

/// The result or the cause of failure of `read`. Files whose headers are damaged make the parser panic.
fn unpanicked<T, E: std::fmt::Display>(read: impl FnOnce() -> Result<T, E>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(_) => Err("the file is damaged".into()),
    }
}

impl RowSource for ParquetRows {
    fn next(&mut self, row: &mut Row) -> Result<bool, StoreError> {
        loop {
            let exhausted = self.columns.first().is_none_or(|column| self.in_batch == column.len());
            if exhausted && !self.next_batch()? {
                return match self.done == self.rows {
                    true => Ok(false),
                    false => Err(self.malformed(&format!("the file says it has {} rows", self.rows))),
                };
            }
            self.done += 1;
            let is_taken = self.fill(row)?;
            self.in_batch += 1;
            if is_taken {
                return Ok(true);
            }
        }
    }

    fn place(&self) -> Location {
        Location::Row(self.path.clone(), self.done)
    }

    fn progress(&self) -> (u64, u64) {
        (self.done, self.rows)
    }
}

impl ParquetRows {
    /// Fills a row from the batch; `false` if it is left out.
    fn fill(&self, row: &mut Row) -> Result<bool, StoreError> {
        let cells = row.reset(self.columns.len(), self.selection.key.is_some());
        for (i, (cell, column)) in cells.iter_mut().zip(&self.columns).enumerate() {
            if !column.is_null(self.in_batch) {
                cell.extend_from_slice(bytes_at(column, self.in_batch));
            } else if !self.selection.takes_null(i, || self.place())? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The column as one of the types that [`bytes_at`] knows.
fn as_bytes(column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    match column.data_type() {
        DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => Ok(Arc::clone(column)),
        DataType::Dictionary(_, values) => as_bytes(&arrow_cast::cast(column, values)?),
        _ => {
            let options = FormatOptions::default();
            let text = ArrayFormatter::try_new(column, &options)?;
            let cell = |row| match column.is_null(row) {
                true => Ok(None),
                false => text.value(row).try_to_string().map(Some),
            };
            let cells = (0..column.len()).map(cell).collect::<Result<Vec<_>, _>>()?;
            Ok(Arc::new(StringArray::from(cells)))
        }
    }
}

fn bytes_at(column: &ArrayRef, row: usize) -> &[u8] {
    match column.data_type() {
        DataType::Utf8 => column.as_string::<i32>().value(row).as_bytes(),
        DataType::LargeUtf8 => column.as_string::<i64>().value(row).as_bytes(),
        DataType::Utf8View => column.as_string_view().value(row).as_bytes(),
        DataType::Binary => column.as_binary::<i32>().value(row),
        DataType::LargeBinary => column.as_binary::<i64>().value(row),
        DataType::BinaryView => column.as_binary_view().value(row),
        DataType::FixedSizeBinary(_) => column.as_fixed_size_binary().value(row),
        other => unreachable!("{other} was turned into text"),
    }
}
