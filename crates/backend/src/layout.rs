//! The panel layout: the order of a matrix of bytes in memory and in a snapshot.
//!
//! A *panel* is [`PANEL_ROWS`] consecutive rows. Inside a panel, columns are grouped in *quads* of
//! [`QUAD`]: for each quad, the four bytes of row 0, the four bytes of row 1, and so on. A quad of
//! a panel is therefore 128 contiguous bytes. A whole panel, and the whole matrix, is one
//! sequential stream:
//!
//! ```text
//! byte(row, column) = ((row / 32) * (columns / 4) + column / 4) * 128 + (row % 32) * 4 + column % 4
//! ```
//!
//! Reasons:
//!
//! - A 32-bit lane holds four columns of one row. `vpdpbusd` multiplies them by four digits of the
//!   query and adds the products.
//! - Lanes are rows, so no sum ever crosses lanes.
//! - The query's operand is one broadcast for 32 rows, so a single query's traffic from the cache
//!   is an eighth of the database's.
//! - The same lanes serve number-theoretic transforms of many rows at once.

use std::ops::Range;

use crate::{BackendError, FileLayout, MAX_BATCH};

/// Rows in a panel.
pub const PANEL_ROWS: usize = 32;
/// Columns in a quad.
pub const QUAD: usize = 4;
/// Bytes of one quad of one panel.
pub const QUAD_BYTES: usize = PANEL_ROWS * QUAD;
/// Largest number of bytes in a matrix: 16 TiB, far beyond any machine, so that products of shapes
/// read from untrusted bytes never overflow.
pub const MAX_MATRIX_BYTES: u64 = 1 << 44;

/// Shape of a matrix of bytes, rounded up to whole panels and quads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PanelLayout {
    rows: usize,
    columns: usize,
}

impl PanelLayout {
    /// Returns a layout with at least `rows` rows and `columns` columns, each rounded up to whole
    /// panels and quads. Padding bytes are zero.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if a side is zero or the matrix exceeds [`MAX_MATRIX_BYTES`].
    pub fn covering(rows: usize, columns: usize) -> Result<Self, BackendError> {
        let padded = |side: usize, unit: usize| (side as u128).next_multiple_of(unit as u128);
        let bytes = padded(rows, PANEL_ROWS).saturating_mul(padded(columns, QUAD));
        if bytes == 0 || bytes > u128::from(MAX_MATRIX_BYTES) {
            return Err(BackendError::Shape(format!(
                "a matrix of {rows} x {columns} bytes: both sides must be at least 1 and the product at most 2^44"
            )));
        }
        Ok(Self { rows: rows.next_multiple_of(PANEL_ROWS), columns: columns.next_multiple_of(QUAD) })
    }

    /// Returns the number of rows, a multiple of [`PANEL_ROWS`].
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the number of columns, a multiple of [`QUAD`].
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Returns the number of bytes of the whole matrix.
    pub fn bytes(&self) -> usize {
        self.rows * self.columns
    }

    /// Returns the number of panels.
    pub fn panels(&self) -> usize {
        self.rows / PANEL_ROWS
    }

    /// Returns the number of quads in a panel.
    pub fn quads(&self) -> usize {
        self.columns / QUAD
    }

    /// Returns the number of bytes of one panel.
    pub fn panel_bytes(&self) -> usize {
        self.columns * PANEL_ROWS
    }

    /// Returns the offset of the byte at (`row`, `column`).
    #[inline]
    pub fn offset(&self, row: usize, column: usize) -> usize {
        debug_assert!(row < self.rows && column < self.columns);
        ((row / PANEL_ROWS) * self.quads() + column / QUAD) * QUAD_BYTES
            + (row % PANEL_ROWS) * QUAD
            + column % QUAD
    }

    /// Returns the range of bytes of `rows`, which must be whole panels.
    pub fn range(&self, rows: &Range<usize>) -> Range<usize> {
        rows.start * self.columns..rows.end * self.columns
    }

    /// Returns a matrix whose columns begin with the given bytes; all other bytes are zeros.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if there are more columns than in the layout, or a column has more
    /// bytes than the layout has rows.
    pub fn with_columns<'a>(
        &self,
        columns: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Vec<u8>, BackendError> {
        let mut matrix = vec![0; self.bytes()];
        for (column, bytes) in columns.into_iter().enumerate() {
            self.check_room(column + 1, bytes.len())?;
            for (row, &byte) in bytes.iter().enumerate() {
                matrix[self.offset(row, column)] = byte;
            }
        }
        Ok(matrix)
    }

    /// Checks that `columns` columns of `bytes` bytes fit.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if they do not.
    pub fn check_room(&self, columns: usize, bytes: usize) -> Result<(), BackendError> {
        if columns > self.columns || bytes > self.rows {
            return Err(BackendError::Shape(format!(
                "{columns} columns of {bytes} bytes in a matrix of {} x {}",
                self.rows, self.columns
            )));
        }
        Ok(())
    }

    /// Returns the number of columns in `words`, at least 1, for folds with matrices in this
    /// layout.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if `words` is not a whole number of columns.
    pub fn columns_of(&self, words: &[u32]) -> Result<usize, BackendError> {
        if words.is_empty() || !words.len().is_multiple_of(self.columns) {
            let (words, columns) = (words.len(), self.columns);
            return Err(BackendError::Shape(format!(
                "{words} words where columns of {columns} were expected"
            )));
        }
        Ok(words.len() / self.columns)
    }

    /// Returns the number of queries that have `words` words in all, 1 to [`MAX_BATCH`].
    ///
    /// # Errors
    /// [`BackendError::Shape`] if `words` are not a whole number of queries within the bounds.
    pub fn batch_of(&self, words: usize) -> Result<usize, BackendError> {
        let columns = self.columns();
        let batch = words / columns;
        if batch == 0 || batch > MAX_BATCH || !words.is_multiple_of(columns) {
            let expected = format!("1 to {MAX_BATCH} queries of {columns} words");
            return Err(BackendError::Shape(format!("{words} words where {expected} were expected")));
        }
        Ok(batch)
    }
}

impl FileLayout for PanelLayout {
    fn all(&self) -> Range<usize> {
        0..self.rows
    }

    /// The units of this layout are panels.
    fn part(&self, rows: &Range<usize>) -> Result<Self, BackendError> {
        let whole = rows.start.is_multiple_of(PANEL_ROWS) && rows.end.is_multiple_of(PANEL_ROWS);
        if rows.is_empty() || rows.end > self.rows || !whole {
            let all = self.rows;
            return Err(BackendError::Shape(format!("rows {rows:?} of {all}: whole panels, at least one")));
        }
        Ok(Self { rows: rows.len(), ..*self })
    }

    fn ranges(&self, rows: &Range<usize>) -> Vec<Range<usize>> {
        std::iter::once(self.range(rows)).collect()
    }

    fn check_length(&self, bytes: u64) -> Result<(), BackendError> {
        if bytes == self.bytes() as u64 {
            return Ok(());
        }
        let (rows, columns, expected) = (self.rows, self.columns, self.bytes());
        Err(BackendError::Shape(format!("a {rows} x {columns} matrix has {expected} bytes, not {bytes}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_a_place_of_its_own() {
        for (rows, columns) in [(1, 1), (32, 4), (33, 5), (70, 260)] {
            let layout = PanelLayout::covering(rows, columns).unwrap();
            let mut taken = vec![false; layout.bytes()];
            for row in 0..layout.rows() {
                for column in 0..layout.columns() {
                    assert!(!std::mem::replace(&mut taken[layout.offset(row, column)], true));
                }
            }
            assert!(taken.into_iter().all(|place| place));
        }
    }

    #[test]
    fn rows_of_whole_panels_lie_together() {
        let layout = PanelLayout::covering(128, 8).unwrap();
        let rows = 32..96;
        let part = layout.part(&rows).unwrap();
        assert_eq!((part.rows(), part.columns()), (64, 8));
        let range = layout.range(&rows);
        for row in rows {
            for column in 0..8 {
                assert_eq!(layout.offset(row, column), range.start + part.offset(row - 32, column));
            }
        }
        assert_eq!(range.len(), part.bytes());
        for rows in [0..0, 0..16, 16..64, 96..160] {
            assert!(matches!(layout.part(&rows), Err(BackendError::Shape(_))), "{rows:?}");
        }
    }

    #[test]
    fn shapes_out_of_range_are_refused() {
        for (rows, columns) in [(0, 1), (1, 0), (usize::MAX, usize::MAX), (1 << 40, 1 << 40)] {
            assert!(matches!(PanelLayout::covering(rows, columns), Err(BackendError::Shape(_))));
        }
    }
}
