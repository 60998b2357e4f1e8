//! Writes records, in order, in the layout of a protocol.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use spirea_protocols::grid::{Grid, Spread};
use spirea_protocols::parameters::Stored;

use super::matrix::MatrixWriter;
use crate::StoreError;
use crate::error::IoContext;
use crate::files::reserve;

/// A database being written.
pub(crate) enum RecordWriter {
    /// A matrix of bytes.
    Panels(MatrixWriter),
    /// Units, one after another.
    Units(UnitWriter),
}

impl RecordWriter {
    /// Creates a database in a new file at `path`.
    pub(crate) fn create(stored: Stored, path: &Path) -> Result<Self, StoreError> {
        match stored {
            Stored::Panels { layout, grid, spread } => {
                Ok(Self::Panels(MatrixWriter::create(layout, grid, spread, path)?))
            }
            Stored::Units { grid } => Ok(Self::Units(UnitWriter::create(stored, grid, path)?)),
        }
    }

    /// Adds the next record.
    pub(crate) fn push(&mut self, record: &[u8]) -> Result<(), StoreError> {
        match self {
            Self::Panels(writer) => writer.push(record),
            Self::Units(writer) => writer.push(record),
        }
    }

    /// Writes the buffered rest.
    pub(crate) fn finish(self) -> Result<(), StoreError> {
        match self {
            Self::Panels(writer) => writer.finish(),
            Self::Units(mut writer) => writer.flush(),
        }
    }
}

/// Writer of units, which buffers the records of a unit or the parts of a record.
pub(crate) struct UnitWriter {
    stored: Stored,
    grid: Grid,
    file: File,
    path: PathBuf,
    /// Buffered pieces of the file with their offsets.
    pending: Vec<(u64, Vec<u8>)>,
    next_record: u64,
}

impl UnitWriter {
    fn create(stored: Stored, grid: Grid, path: &Path) -> Result<Self, StoreError> {
        let file = File::create_new(path).at("create", path)?;
        reserve(&file, stored.bytes()).at("write", path)?;
        Ok(Self { stored, grid, file, path: path.into(), pending: Vec::new(), next_record: 0 })
    }

    fn push(&mut self, record: &[u8]) -> Result<(), StoreError> {
        assert_eq!(record.len(), self.grid.record_bytes);
        for run in self.grid.runs(Spread::Rows, self.next_record) {
            let offset = self.stored.offset(self.next_record, run.bytes.start);
            let piece = &record[run.bytes];
            match self.pending.last_mut() {
                // Records of one unit are adjacent.
                Some((start, bytes)) if *start + bytes.len() as u64 == offset => {
                    bytes.extend_from_slice(piece)
                }
                _ => self.pending.push((offset, piece.to_vec())),
            }
        }
        self.next_record += 1;
        if self.pending.iter().map(|(_, bytes)| bytes.len()).sum::<usize>() >= 1 << 20 {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        for (offset, bytes) in self.pending.drain(..) {
            self.file.write_all_at(&bytes, offset).at("write", &self.path)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn every_byte_of_a_unit_lies_where_the_parameters_say(
            records in 1u64..300, record_bytes in 1usize..3000, unit_rows in 1usize..500, columns in 1usize..9,
        ) {
            let grid = Grid { records, record_bytes, unit_rows, groups: 1, columns };
            let groups = records.div_ceil(grid.records_per_unit() as u64).div_ceil(columns as u64) as usize;
            let stored = Stored::Units { grid: Grid { groups, ..grid } };
            let record = |index: u64| -> Vec<u8> {
                let mut bytes = vec![0; record_bytes];
                blake3::Hasher::new().update(&index.to_le_bytes()).finalize_xof().fill(&mut bytes);
                bytes
            };
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("units");
            let mut writer = RecordWriter::create(stored, &path).unwrap();
            let mut expected = vec![0; stored.bytes() as usize];
            for index in 0..records {
                let record = record(index);
                writer.push(&record).unwrap();
                for (byte, value) in record.into_iter().enumerate() {
                    expected[stored.offset(index, byte) as usize] = value;
                }
            }
            writer.finish().unwrap();
            prop_assert!(std::fs::read(&path).unwrap() == expected);
        }
    }
}
