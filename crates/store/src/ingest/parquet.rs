//! Apache Parquet, read as Arrow batches.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, FieldRef};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use spirea_protocols::table::FieldType;

use super::arrow::{Cells, types_of, unpanicked};
use super::typed::kind_of;
use super::{Column, Row, RowSource, Selection, positions};
use crate::{Location, StoreError};

/// Target size of a batch of rows, in bytes.
const BATCH_BYTES: u64 = 4 << 20;

/// Rows of a Parquet file.
pub struct ParquetRows {
    reader: ParquetRecordBatchReader,
    path: PathBuf,
    /// Batch being read.
    batch: Cells,
    /// Position in a batch of the column of each cell.
    columns: Vec<usize>,
    types: Vec<FieldType>,
    /// Columns of the file.
    schema: Vec<Column>,
    selection: Selection,
    done: u64,
    rows: u64,
}

impl ParquetRows {
    /// Opens the rows of a file.
    ///
    /// # Errors
    /// [`StoreError::NoSuchColumn`] with a list of the columns, [`StoreError::Malformed`] if the
    /// file is not Parquet or a column's type has no text form.
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
        let types = types_of(builder.schema(), &wanted, selection)
            .map_err(|detail| StoreError::malformed(place.clone(), detail))?;
        let column = |field: &FieldRef| Column { name: field.name().clone(), kind: Some(kind_of(field)) };
        let schema = builder.schema().fields().iter().map(column).collect();
        let projected = BTreeSet::from_iter(wanted.iter().copied());
        let columns = wanted.iter().map(|column| projected.range(..column).count()).collect();
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
        Ok(Self { reader, path, batch: Cells::default(), columns, types, schema, selection, done: 0, rows })
    }

    fn malformed(&self, cause: &str) -> StoreError {
        let detail = format!("the rows from here cannot be read: {cause}; write the file again");
        StoreError::malformed(Location::Row(self.path.clone(), self.done + 1), detail)
    }

    /// Loads the next batch that has rows; `false` at the end.
    fn next_batch(&mut self) -> Result<bool, StoreError> {
        let (reader, columns) = (&mut self.reader, &self.columns);
        let cells = unpanicked(|| -> Result<_, ArrowError> {
            for batch in reader {
                let batch: RecordBatch = batch?;
                if batch.num_rows() > 0 {
                    return Cells::of(&batch, columns).map(Some);
                }
            }
            Ok(None)
        });
        let cells = cells.map_err(|cause| self.malformed(&cause))?;
        let more = cells.is_some();
        self.batch = cells.unwrap_or_default();
        Ok(more)
    }
}

impl RowSource for ParquetRows {
    fn next(&mut self, row: &mut Row) -> Result<bool, StoreError> {
        loop {
            if self.batch.is_exhausted() && !self.next_batch()? {
                return match self.done == self.rows {
                    true => Ok(false),
                    false => Err(self.malformed(&format!("the file says it has {} rows", self.rows))),
                };
            }
            self.done += 1;
            let (path, done) = (&self.path, self.done);
            if self.batch.next(row, &self.selection, || Location::Row(path.clone(), done))? {
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

    fn types(&self) -> Vec<FieldType> {
        self.types.clone()
    }

    fn columns(&self) -> Vec<Column> {
        self.schema.clone()
    }
}
