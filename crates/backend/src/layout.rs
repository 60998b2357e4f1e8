//! The panel layout: how a matrix of bytes lies in memory and in a snapshot.
//!
//! A *panel* is [`PANEL_ROWS`] consecutive rows. Inside a panel, columns go by in *quads* of
//! [`QUAD`]: for each quad, the four bytes of row 0, the four bytes of row 1, and so on. A quad of a
//! panel is therefore 128 contiguous bytes, and a whole panel, and the whole matrix, one sequential
//! stream:
//!
//! ```text
//! byte(row, column) = ((row / 32) * (columns / 4) + column / 4) * 128 + (row % 32) * 4 + column % 4
//! ```
//!
//! Why: a 32-bit lane holds four columns of one row, which is what `vpdpbusd` multiplies by four digits
//! of the query and adds up; lanes are rows, so that no sum ever crosses lanes; and the query's operand
//! is one broadcast for 32 rows, so that a single query's traffic from the cache is an eighth of the
//! database's. The same lanes serve number-theoretic transforms of many rows at once.

use crate::BackendError;

/// Rows in a panel.
pub const PANEL_ROWS: usize = 32;
/// Columns in a quad.
pub const QUAD: usize = 4;
/// Bytes of one quad of one panel.
pub const QUAD_BYTES: usize = PANEL_ROWS * QUAD;
/// The largest number of bytes that a matrix may have: 16 TiB, far beyond any machine, so that
/// products of shapes read from untrusted bytes never overflow.
pub const MAX_MATRIX_BYTES: u64 = 1 << 44;

/// The shape of a matrix of bytes, rounded up to whole panels and quads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PanelLayout {
    rows: usize,
    columns: usize,
}

impl PanelLayout {
    /// A layout with at least `rows` rows and `columns` columns, each rounded up to whole panels and
    /// quads. Padding bytes are zero.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if a side is zero or the matrix exceeds [`MAX_MATRIX_BYTES`].
    pub fn covering(rows: usize, columns: usize) -> Result<Self, BackendError> {
        let bytes = (rows as u128).next_multiple_of(PANEL_ROWS as u128)
            * (columns as u128).next_multiple_of(QUAD as u128);
        if bytes == 0 || bytes > u128::from(MAX_MATRIX_BYTES) {
            return Err(BackendError::Shape(format!(
                "a matrix of {rows} x {columns} bytes: both sides must be at least 1 and the product at most 2^44"
            )));
        }
        Ok(Self { rows: rows.next_multiple_of(PANEL_ROWS), columns: columns.next_multiple_of(QUAD) })
    }

    /// Rows, a multiple of [`PANEL_ROWS`].
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns, a multiple of [`QUAD`].
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Bytes of the whole matrix.
    pub fn bytes(&self) -> usize {
        self.rows * self.columns
    }

    /// Number of panels.
    pub fn panels(&self) -> usize {
        self.rows / PANEL_ROWS
    }

    /// Quads in a panel.
    pub fn quads(&self) -> usize {
        self.columns / QUAD
    }

    /// Bytes of one panel.
    pub fn panel_bytes(&self) -> usize {
        self.columns * PANEL_ROWS
    }

    /// Where the byte at (`row`, `column`) lies.
    #[inline]
    pub fn offset(&self, row: usize, column: usize) -> usize {
        debug_assert!(row < self.rows && column < self.columns);
        ((row / PANEL_ROWS) * self.quads() + column / QUAD) * QUAD_BYTES + (row % PANEL_ROWS) * QUAD + column % QUAD
    }
}
