//! Writes records, in order, as a matrix in panel layout.
//!
//! Records run down the columns, and the layout stores panels of rows, so a record's bytes are
//! scattered. The writer gathers a group of columns in memory, column after column, and then
//! converts it to the layout: one contiguous run for each panel. Memory use is one group, whatever
//! the size of the matrix.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rayon::iter::{IntoParallelIterator, ParallelIterator};
use spirea_backend::{PANEL_ROWS, PanelLayout, QUAD, QUAD_BYTES};
use spirea_protocols::grid::{Grid, Spread};

use crate::StoreError;
use crate::error::IoContext;
use crate::files::reserve;

/// Target size of a group of columns, in bytes.
const GROUP_BYTES: usize = 32 << 20;

/// A matrix being written.
pub(crate) struct MatrixWriter {
    layout: PanelLayout,
    grid: Grid,
    spread: Spread,
    file: File,
    path: PathBuf,
    /// Columns of the group, one after another.
    group: Vec<u8>,
    group_columns: usize,
    first_column: usize,
    next_record: u64,
}

impl MatrixWriter {
    /// Creates a matrix in a new file at `path`.
    pub(super) fn create(
        layout: PanelLayout,
        grid: Grid,
        spread: Spread,
        path: &Path,
    ) -> Result<Self, StoreError> {
        Self::with_group(layout, grid, spread, path, GROUP_BYTES)
    }

    fn with_group(
        layout: PanelLayout,
        grid: Grid,
        spread: Spread,
        path: &Path,
        group_bytes: usize,
    ) -> Result<Self, StoreError> {
        let file = File::create_new(path).at("create", path)?;
        reserve(&file, layout.bytes() as u64).at("write", path)?;
        // A group has whole quads and whole records. Its size is limited to about 1/16 of the
        // matrix, so that even a small matrix is not held in memory as a whole.
        let unit = QUAD * if spread == Spread::Columns { grid.parts() } else { 1 };
        let bytes = group_bytes.min(layout.bytes() / 16);
        let group_columns = (bytes / layout.rows() / unit * unit).max(unit).min(layout.columns());
        Ok(Self {
            layout,
            grid,
            spread,
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
        assert_eq!(record.len(), self.grid.record_bytes);
        // Records proceed from column to column and never go back.
        while self.grid.place(self.spread, self.next_record).column >= self.first_column + self.group_columns
        {
            self.flush()?;
        }
        for run in self.grid.runs(self.spread, self.next_record) {
            let start = (run.column - self.first_column) * self.layout.rows() + run.row;
            self.group[start..start + run.bytes.len()].copy_from_slice(&record[run.bytes]);
        }
        self.next_record += 1;
        Ok(())
    }

    /// Writes the group and starts the next one.
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

    /// Writes the last group.
    pub(super) fn finish(mut self) -> Result<(), StoreError> {
        if self.first_column < self.layout.columns() {
            self.flush()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use spirea_protocols::parameters::Stored;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(96))]
        #[test]
        fn every_byte_lies_where_the_parameters_say(
            records in 1u64..300, record_bytes in 1usize..3000, unit_rows in 1usize..4000, groups in 1usize..6,
            group in 0usize..1 << 20,
        ) {
            for spread in [Spread::Columns, Spread::Rows] {
                let parts = record_bytes.div_ceil(unit_rows);
                let (wide, units) = match spread {
                    Spread::Columns => (parts, records.div_ceil((unit_rows / record_bytes).max(1) as u64)),
                    Spread::Rows => (1, records.div_ceil((unit_rows / record_bytes).max(1) as u64)),
                };
                let columns = units.div_ceil(groups as u64) as usize * wide;
                let grid = Grid { records, record_bytes, unit_rows, groups, columns };
                grid.validate(spread).unwrap();
                prop_assume!(grid.rows(spread) * columns < 1 << 22);
                let layout = PanelLayout::covering(grid.rows(spread), columns).unwrap();
                let stored = Stored::Panels { layout, grid, spread };
                let record = |index: u64| -> Vec<u8> {
                    let mut bytes = vec![0; record_bytes];
                    blake3::Hasher::new().update(&index.to_le_bytes()).finalize_xof().fill(&mut bytes);
                    bytes
                };
                let folder = tempfile::tempdir().unwrap();
                let path = folder.path().join("matrix");
                let mut writer = MatrixWriter::with_group(layout, grid, spread, &path, group).unwrap();
                let mut expected = vec![0; layout.bytes()];
                for index in 0..records {
                    let record = record(index);
                    writer.push(&record).unwrap();
                    for (byte, &value) in record.iter().enumerate() {
                        expected[stored.offset(index, byte) as usize] = value;
                    }
                }
                writer.finish().unwrap();
                prop_assert!(std::fs::read(&path).unwrap() == expected);
            }
        }
    }
}
