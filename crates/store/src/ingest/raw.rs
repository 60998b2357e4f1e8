//! Values of a fixed number of bytes, one after another.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use spirea_protocols::table::MAX_VALUE_BYTES;

use super::{Row, RowSource};
use crate::error::IoContext;
use crate::{Location, StoreError};

/// Rows of a fixed number of bytes.
pub struct FixedRows<R = File> {
    reader: BufReader<R>,
    path: PathBuf,
    row_bytes: usize,
    rows: u64,
    done: u64,
}

impl FixedRows {
    /// Creates the rows of `record_bytes` bytes in a file of `bytes` bytes.
    ///
    /// # Errors
    /// [`StoreError::Malformed`] if the file does not consist of whole rows,
    /// [`StoreError::Oversize`].
    pub fn of_file(file: File, bytes: u64, path: &Path, record_bytes: usize) -> Result<Self, StoreError> {
        if record_bytes == 0 || !bytes.is_multiple_of(record_bytes as u64) {
            let detail = format!("its {bytes} bytes are not a multiple of --record-bytes {record_bytes}");
            return Err(StoreError::malformed(Location::File(path.into()), detail));
        }
        Self::new(file, path, record_bytes, bytes / record_bytes as u64)
    }
}

impl<R: Read> FixedRows<R> {
    /// Creates `rows` rows of `row_bytes` bytes from the reader's position; messages call the file
    /// `path`.
    ///
    /// # Errors
    /// [`StoreError::Oversize`].
    pub fn new(reader: R, path: &Path, row_bytes: usize, rows: u64) -> Result<Self, StoreError> {
        if row_bytes > MAX_VALUE_BYTES {
            return Err(StoreError::Oversize {
                place: Location::Row(path.into(), 1),
                what: "the value".into(),
                bytes: row_bytes,
                most: MAX_VALUE_BYTES,
            });
        }
        let reader = BufReader::with_capacity(1 << 18, reader);
        Ok(Self { reader, path: path.into(), row_bytes, rows, done: 0 })
    }
}

impl<R: Read> RowSource for FixedRows<R> {
    fn next(&mut self, row: &mut Row) -> Result<bool, StoreError> {
        if self.done == self.rows {
            return Ok(false);
        }
        let cell = &mut row.reset(1, false)[0];
        cell.resize(self.row_bytes, 0);
        self.reader.read_exact(cell).at("read", &self.path)?;
        self.done += 1;
        Ok(true)
    }

    fn place(&self) -> Location {
        Location::Row(self.path.clone(), self.done)
    }

    fn progress(&self) -> (u64, u64) {
        (self.done, self.rows)
    }
}
