//! Writes records, in order, as the matrix of SimplePIR in panel layout.
//!
//! Records lie down the columns and the layout goes by panels of rows, so a record's bytes are scattered. A
//! group of columns at a time is gathered in memory, column after column, and then turned into the layout:
//! one contiguous run for each panel. Memory is one group, whatever the size of the matrix.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rayon::iter::{IntoParallelIterator, ParallelIterator};
use spirea_backend::{PANEL_ROWS, PanelLayout, QUAD, QUAD_BYTES};
use spirea_protocols::simple::Params;

use crate::StoreError;
use crate::error::IoContext;

/// Bytes that a group of columns aims at.
const GROUP_BYTES: usize = 32 << 20;

/// A matrix being written.
pub(super) struct MatrixWriter {
    layout: PanelLayout,
    records_per_column: u64,
    record_columns: usize,
    record_bytes: usize,
    file: File,
    path: PathBuf,
    /// The columns of the group, one after another.
    group: Vec<u8>,
    group_columns: usize,
    first_column: usize,
    next_record: u64,
}

impl MatrixWriter {
    /// A matrix in a new file at `path`.
    pub(super) fn create(params: &Params, path: &Path) -> Result<Self, StoreError> {
        Self::with_group(params, path, GROUP_BYTES)
    }

    fn with_group(params: &Params, path: &Path, group_bytes: usize) -> Result<Self, StoreError> {
        let layout = params.layout();
        let file = File::create_new(path).at("create", path)?;
        reserve(&file, layout.bytes() as u64).at("write", path)?;
        // Whole quads and whole records; a small matrix shall not be held in memory as a whole either.
        let unit = QUAD * params.record_columns();
        let bytes = group_bytes.min(layout.bytes() / 16);
        let group_columns = (bytes / layout.rows() / unit * unit).max(unit).min(layout.columns());
        Ok(Self {
            layout,
            records_per_column: params.records_per_column() as u64,
            record_columns: params.record_columns(),
            record_bytes: params.record_bytes,
            file,
            path: path.into(),
            group: vec![0; group_columns * layout.rows()],
            group_columns,
            first_column: 0,
            next_record: 0,
        })
    }

    /// Adds the next record.
    pub(super) fn push(&mut self, record: &[u8]) -> Result<(), StoreError> {
        assert_eq!(record.len(), self.record_bytes);
        let column = (self.next_record / self.records_per_column) as usize * self.record_columns;
        let row = (self.next_record % self.records_per_column) as usize * self.record_bytes;
        if column >= self.first_column + self.group_columns {
            self.flush()?;
        }
        // A record that takes several columns fills each but the last, so it is contiguous here too.
        let start = (column - self.first_column) * self.layout.rows() + row;
        self.group[start..start + record.len()].copy_from_slice(record);
        self.next_record += 1;
        Ok(())
    }

    /// Writes the group and goes on to the next.
    fn flush(&mut self) -> Result<(), StoreError> {
        let columns = self.group_columns.min(self.layout.columns() - self.first_column);
        let (layout, group) = (self.layout, &self.group);
        (0..layout.panels())
            .into_par_iter()
            .try_for_each_init(
                || vec![0; columns * PANEL_ROWS],
                |run, panel| {
                    for (quad, out) in run.chunks_exact_mut(QUAD_BYTES).enumerate() {
                        let column = |i: usize| {
                            let start = (quad * QUAD + i) * layout.rows() + panel * PANEL_ROWS;
                            &group[start..start + PANEL_ROWS]
                        };
                        let columns: [&[u8]; QUAD] = std::array::from_fn(column);
                        for (row, out) in out.chunks_exact_mut(QUAD).enumerate() {
                            for (byte, column) in out.iter_mut().zip(columns) {
                                *byte = column[row];
                            }
                        }
                    }
                    let offset = layout.offset(panel * PANEL_ROWS, self.first_column);
                    self.file.write_all_at(run, offset as u64)
                },
            )
            .at("write", &self.path)?;
        self.first_column += self.group_columns;
        self.group.fill(0);
        Ok(())
    }

    /// Writes what is left.
    pub(super) fn finish(mut self) -> Result<(), StoreError> {
        if self.first_column < self.layout.columns() {
            self.flush()?;
        }
        Ok(())
    }
}

/// Makes the file `bytes` long, all zero, and takes the space where the file system can: a full disk is
/// found before the work, and the file lies in one piece although it is written in many.
fn reserve(file: &File, bytes: u64) -> std::io::Result<()> {
    file.set_len(bytes)?;
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{FallocateFlags, fallocate};
        use rustix::io::Errno;
        let reserved = fallocate(file, FallocateFlags::empty(), 0, bytes);
        if let Err(error @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) = reserved {
            return Err(error.into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use spirea_lattice::LweSet;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn every_byte_lies_where_the_parameters_say(
            records in 1u64..300, record_bytes in 1usize..3000, group in 0usize..1 << 20, columns in 1usize..3,
        ) {
            let mut params = Params::choose(LweSet::Module1280, [0; 32], records, record_bytes).unwrap();
            // Shapes that choose would not take, too: records over several columns, wide matrices.
            if columns == 2 {
                params.rows = record_bytes.div_ceil(7).next_multiple_of(PANEL_ROWS);
                params.columns = (params.record_columns() * records as usize).next_multiple_of(256);
                prop_assume!(params.validate().is_ok());
            }
            let record = |index: u64| -> Vec<u8> {
                let mut bytes = vec![0; record_bytes];
                blake3::Hasher::new().update(&index.to_le_bytes()).finalize_xof().fill(&mut bytes);
                bytes
            };
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("matrix");
            let mut writer = MatrixWriter::with_group(&params, &path, group).unwrap();
            let layout = params.layout();
            let mut expected = vec![0; layout.bytes()];
            for index in 0..records {
                let record = record(index);
                writer.push(&record).unwrap();
                for (byte, &value) in record.iter().enumerate() {
                    expected[params.offset(layout, index, byte)] = value;
                }
            }
            writer.finish().unwrap();
            prop_assert!(std::fs::read(&path).unwrap() == expected);
        }
    }
}
