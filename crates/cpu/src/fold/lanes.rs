//! Vectors of the inner loop; their lanes are rows.

use bytemuck::Pod;
use spirea_backend::{PANEL_ROWS, QUAD_BYTES};

use crate::isa::{load, store};

/// One quad of columns of a panel.
pub(crate) type Quad = [u8; QUAD_BYTES];
/// Four consecutive words of a query, packed by [`super::digits::pack`].
pub(crate) type Operand = [u32; 4];
/// Sums of one query over the rows of a panel.
pub(crate) type PanelSums = [u32; PANEL_ROWS];

/// Operations on vectors of 32-bit lanes, one lane for each row, implemented by the token of an
/// instruction set.
///
/// In one multiplication a lane takes 4 / [`Self::PHASES`] of its row's four columns, each times
/// one digit of the query's words for these columns. A word has 4 / `PHASES` digits of 8 `PHASES`
/// bits.
pub(crate) trait RowLanes: Copy {
    /// Vector register.
    type Vector: Pod;
    /// Rows of a vector.
    const LANES: usize;
    /// Number of multiplications that cover a quad's columns: 1, 2 or 4.
    const PHASES: usize;
    /// Digits of a query word.
    const DIGITS: usize = 4 / Self::PHASES;

    /// Returns zero sums.
    fn zero(self) -> Self::Vector;
    /// Returns the columns of one phase, out of a quad's four bytes in each lane: column `phase`,
    /// `phase + PHASES`, ...
    fn columns(self, quad: Self::Vector, phase: usize) -> Self::Vector;
    /// Returns a vector with `word` of an operand in every lane.
    fn splat(self, word: u32) -> Self::Vector;
    /// Returns `sums` plus, in each lane, the sum of the products of columns and digits.
    fn multiply_add(self, sums: Self::Vector, columns: Self::Vector, digits: Self::Vector) -> Self::Vector;
    /// Returns `low + high * 2^BITS` in each lane.
    fn join<const BITS: i32>(self, low: Self::Vector, high: Self::Vector) -> Self::Vector;

    /// Loads the columns of one phase of the rows from `first_row` on.
    #[inline(always)]
    fn load(self, quad: &Quad, first_row: usize, phase: usize) -> Self::Vector {
        self.columns(load(&quad[4 * first_row..]), phase)
    }

    /// Adds a vector to the sums of the rows from `first_row` on.
    #[inline(always)]
    fn add_to(self, vector: Self::Vector, sums: &mut PanelSums, first_row: usize) {
        let sums = &mut sums[first_row..];
        store(self.join::<0>(load(sums), vector), sums);
    }
}
