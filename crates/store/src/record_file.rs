//! The sealed records of a written database: read and changed one at a time, or read in order.

use std::fs::{File, OpenOptions};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use spirea_backend::{PANEL_ROWS, PanelLayout, QUAD, QUAD_BYTES};
use spirea_protocols::grid::{Grid, Run, Spread};
use spirea_protocols::parameters::Stored;

use crate::StoreError;
use crate::error::IoContext;

/// Bytes of columns read at once while records are read in order.
const GROUP_BYTES: usize = 32 << 20;
/// Maximum bytes of records that are read together.
const TOGETHER_BYTES: usize = 32 << 20;
/// Maximum distance of two pieces that are read at once. To copy so many bytes takes as long as
/// another call of the system.
const GAP_BYTES: u64 = 4 << 10;
/// Maximum bytes that are read at once, unless one piece is longer.
const READ_BYTES: u64 = 1 << 20;

/// The file of a database.
pub(crate) struct RecordFile {
    stored: Stored,
    file: File,
    path: PathBuf,
}

impl RecordFile {
    /// Opens a database for reading.
    pub(crate) fn open(stored: Stored, path: &Path) -> Result<Self, StoreError> {
        let file = File::open(path).at("open", path)?;
        Ok(Self { stored, file, path: path.into() })
    }

    /// Opens a database for changes.
    pub(crate) fn edit(stored: Stored, path: &Path) -> Result<Self, StoreError> {
        let file = OpenOptions::new().read(true).write(true).open(path).at("open", path)?;
        Ok(Self { stored, file, path: path.into() })
    }

    fn grid(&self) -> (Grid, Spread) {
        match self.stored {
            Stored::Panels { grid, spread, .. } => (grid, spread),
            Stored::Units { grid } => (grid, Spread::Rows),
        }
    }

    /// Reads record `index`.
    pub(crate) fn read(&self, index: u64) -> Result<Vec<u8>, StoreError> {
        let mut records = self.read_together(&[index])?;
        Ok(records.pop().expect("one record was read"))
    }

    /// Reads these records, and returns each with its index. Many records together take less time
    /// than one by one.
    pub(crate) fn records<'f>(
        &'f self,
        indices: &'f [u64],
    ) -> impl Iterator<Item = Result<(u64, Vec<u8>), StoreError>> + 'f {
        let count = (TOGETHER_BYTES / self.grid().0.record_bytes).max(1);
        indices.chunks(count).flat_map(|indices| match self.read_together(indices) {
            Ok(records) => indices.iter().copied().zip(records).map(Ok).collect(),
            Err(error) => vec![Err(error)],
        })
    }

    /// Reads these records. A record of a matrix lies in many places; places that are near each
    /// other are read at once.
    fn read_together(&self, indices: &[u64]) -> Result<Vec<Vec<u8>>, StoreError> {
        let (grid, spread) = self.grid();
        let mut records = vec![vec![0; grid.record_bytes]; indices.len()];
        let of_record = |(record, &index): (usize, &u64)| {
            grid.runs(spread, index).map(move |run| (run, record, index)).collect::<Vec<_>>()
        };
        let mut runs: Vec<_> = indices.iter().enumerate().flat_map(of_record).collect();
        let (mut pieces, mut buffer) = (Vec::new(), Vec::new());
        let Stored::Panels { layout, .. } = self.stored else {
            pieces.extend(runs.into_iter().map(|(run, record, index)| {
                let offset = self.stored.offset(index, run.bytes.start);
                (Piece { offset, bytes: run.bytes, stride: 1 }, record)
            }));
            pieces.sort_unstable_by_key(|(piece, _)| piece.offset);
            self.read_pieces(&pieces, &mut buffer, &mut records)?;
            return Ok(records);
        };
        // In each panel, runs of the same rows follow each other in the order of their columns, so
        // that the many pieces need no sorting.
        runs.sort_unstable_by_key(|(run, ..)| (run.row, run.bytes.len(), run.column));
        for runs in runs.chunk_by(|(a, ..), (b, ..)| a.row == b.row && a.bytes.len() == b.bytes.len()) {
            let run = &runs[0].0;
            for panel in Piece::panels(run) {
                pieces.clear();
                pieces.extend(runs.iter().map(|(run, record, _)| (Piece::of(layout, run, panel), *record)));
                self.read_pieces(&pieces, &mut buffer, &mut records)?;
            }
        }
        Ok(records)
    }

    /// Reads pieces of `records`, each with its record. The pieces must be in the order of the
    /// file.
    fn read_pieces(
        &self,
        mut pieces: &[(Piece, usize)],
        buffer: &mut Vec<u8>,
        records: &mut [Vec<u8>],
    ) -> Result<(), StoreError> {
        while let Some((first, _)) = pieces.first() {
            let (start, mut end, mut count) = (first.offset, first.end(), 0);
            for (piece, _) in pieces {
                if piece.offset > end + GAP_BYTES || piece.end() - start > READ_BYTES.max(end - start) {
                    break;
                }
                (end, count) = (end.max(piece.end()), count + 1);
            }
            buffer.resize((end - start) as usize, 0);
            self.file.read_exact_at(buffer, start).at("read", &self.path)?;
            for (piece, record) in &pieces[..count] {
                let from = buffer[(piece.offset - start) as usize..].iter().step_by(piece.stride);
                for (byte, from) in records[*record][piece.bytes.clone()].iter_mut().zip(from) {
                    *byte = *from;
                }
            }
            pieces = &pieces[count..];
        }
        Ok(())
    }

    /// Writes record `index`.
    pub(crate) fn write(&mut self, index: u64, record: &[u8]) -> Result<(), StoreError> {
        let (grid, spread) = self.grid();
        for run in grid.runs(spread, index) {
            match self.stored {
                Stored::Units { .. } => {
                    let offset = self.stored.offset(index, run.bytes.start);
                    self.file.write_all_at(&record[run.bytes], offset).at("write", &self.path)?;
                }
                Stored::Panels { layout, .. } => {
                    for panel in Piece::panels(&run) {
                        let piece = Piece::of(layout, &run, panel);
                        let mut quad = [0; QUAD_BYTES];
                        let span = &mut quad[..piece.span()];
                        self.file.read_exact_at(span, piece.offset).at("read", &self.path)?;
                        for (byte, quad) in record[piece.bytes].iter().zip(span.iter_mut().step_by(QUAD)) {
                            *quad = *byte;
                        }
                        self.file.write_all_at(span, piece.offset).at("write", &self.path)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Passes all records to `each`, in order, with one group of columns in memory.
    pub(crate) fn scan(
        &mut self,
        mut each: impl FnMut(u64, &[u8]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let (grid, spread) = self.grid();
        let Stored::Panels { layout, .. } = self.stored else {
            return (0..grid.records).try_for_each(|index| each(index, &self.read(index)?));
        };
        // A group has whole quads and whole records.
        let unit = QUAD * if spread == Spread::Columns { grid.parts() } else { 1 };
        let wide = (GROUP_BYTES / layout.rows() / unit * unit).max(unit);
        let mut columns = Columns { layout, first: 0, count: 0, bytes: Vec::new() };
        let mut record = vec![0; grid.record_bytes];
        for index in 0..grid.records {
            if grid.place(spread, index).column >= columns.first + columns.count {
                columns.first += columns.count;
                columns.count = wide.min(layout.columns() - columns.first);
                columns.read(&self.file).at("read", &self.path)?;
            }
            for run in grid.runs(spread, index) {
                columns.copy(&run, &mut record);
            }
            each(index, &record)?;
        }
        Ok(())
    }
}

/// Piece of a record in a range of the file: its part in one column of one panel, of which every
/// fourth byte is the record's, or a whole run.
struct Piece {
    /// Offset of the piece's first byte in the file.
    offset: u64,
    /// Range of the piece's bytes in the record.
    bytes: Range<usize>,
    /// Distance between the piece's bytes in the file.
    stride: usize,
}

impl Piece {
    /// Returns the panels in which a run has pieces.
    fn panels(run: &Run) -> Range<usize> {
        run.row / PANEL_ROWS..(run.row + run.bytes.len()).div_ceil(PANEL_ROWS)
    }

    /// Returns the piece of a run in one of its panels.
    fn of(layout: PanelLayout, run: &Run, panel: usize) -> Self {
        let (start, first) = (run.row, run.bytes.start);
        let rows = start.max(panel * PANEL_ROWS)..(start + run.bytes.len()).min((panel + 1) * PANEL_ROWS);
        Self {
            offset: layout.offset(rows.start, run.column) as u64,
            bytes: first + rows.start - start..first + rows.end - start,
            stride: QUAD,
        }
    }

    /// Returns the length of the range of the file from the piece's first byte to its last.
    fn span(&self) -> usize {
        (self.bytes.len() - 1) * self.stride + 1
    }

    /// Returns the offset after the piece's last byte in the file.
    fn end(&self) -> u64 {
        self.offset + self.span() as u64
    }
}

/// A group of columns, panel by panel.
struct Columns {
    layout: PanelLayout,
    first: usize,
    count: usize,
    bytes: Vec<u8>,
}

impl Columns {
    fn read(&mut self, file: &File) -> std::io::Result<()> {
        let run = self.count * PANEL_ROWS;
        self.bytes.resize(self.layout.panels() * run, 0);
        for (panel, bytes) in self.bytes.chunks_exact_mut(run).enumerate() {
            file.read_exact_at(bytes, self.layout.offset(panel * PANEL_ROWS, self.first) as u64)?;
        }
        Ok(())
    }

    fn copy(&self, run: &Run, record: &mut [u8]) {
        let column = run.column - self.first;
        for (i, byte) in record[run.bytes.clone()].iter_mut().enumerate() {
            let (panel, row) = ((run.row + i) / PANEL_ROWS, (run.row + i) % PANEL_ROWS);
            let quad = (panel * self.count + column / QUAD * QUAD) * PANEL_ROWS;
            *byte = self.bytes[quad + row * QUAD + column % QUAD];
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::build::RecordWriter;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn records_are_read_and_changed_where_they_were_written(
            records in 1u64..200, record_bytes in 1usize..2000, unit_rows in 1usize..3000, groups in 1usize..6,
            changed in proptest::collection::vec(0u64..200, 0..9),
        ) {
            let parts = record_bytes.div_ceil(unit_rows);
            let units = records.div_ceil((unit_rows / record_bytes).max(1) as u64).div_ceil(groups as u64) as usize;
            let grid = Grid { records, record_bytes, unit_rows, groups, columns: units };
            let panels = |spread: Spread, wide: usize| {
                let grid = Grid { columns: units * wide, ..grid };
                let layout = PanelLayout::covering(grid.rows(spread), grid.columns).unwrap();
                Stored::Panels { layout, grid, spread }
            };
            let folder = tempfile::tempdir().unwrap();
            for (i, stored) in
                [panels(Spread::Columns, parts), panels(Spread::Rows, 1), Stored::Units { grid }].iter().enumerate()
            {
                prop_assume!(stored.bytes() < 1 << 22);
                let path = folder.path().join(i.to_string());
                let mut expected: Vec<Vec<u8>> = (0..records)
                    .map(|index| {
                        let mut bytes = vec![0; record_bytes];
                        blake3::Hasher::new().update(&index.to_le_bytes()).finalize_xof().fill(&mut bytes);
                        bytes
                    })
                    .collect();
                let mut writer = RecordWriter::create(*stored, &path).unwrap();
                expected.iter().for_each(|record| writer.push(record).unwrap());
                writer.finish().unwrap();
                let mut file = RecordFile::edit(*stored, &path).unwrap();
                let changed: Vec<_> = changed.iter().copied().filter(|&index| index < records).collect();
                for &index in &changed {
                    let record = &mut expected[index as usize];
                    record.iter_mut().for_each(|byte| *byte = byte.wrapping_add(1));
                    file.write(index, record).unwrap();
                    prop_assert!(&file.read(index).unwrap() == record);
                }
                let all: Vec<_> = (0..records).rev().collect();
                for asked in [&changed, &all] {
                    let read = file.records(asked).collect::<Result<Vec<_>, _>>().unwrap();
                    let wanted = asked.iter().map(|&index| (index, expected[index as usize].clone()));
                    prop_assert!(read == wanted.collect::<Vec<_>>());
                }
                let mut next = 0;
                file.scan(|index, record| {
                    assert_eq!((index, record), (next, &expected[index as usize][..]));
                    next += 1;
                    Ok(())
                })
                .unwrap();
                prop_assert_eq!(next, records);
            }
        }
    }
}
