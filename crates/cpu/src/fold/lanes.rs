//! What the inner loop is written over: vectors whose lanes are rows.

use bytemuck::Pod;
use spirea_backend::{PANEL_ROWS, QUAD_BYTES};

use crate::isa::{load, store};

/// One quad of columns of a panel.
pub(crate) type Quad = [u8; QUAD_BYTES];
/// Four consecutive words of a query, as [`super::digits::pack`] leaves them.
pub(crate) type Operand = [u32; 4];
/// Sums of one query over the rows of a panel.
pub(crate) type PanelSums = [u32; PANEL_ROWS];

/// A vector of 32-bit lanes, one lane a row, over the token of an instruction set.
///
/// With one multiplication a lane takes in 4 / [`Self::PHASES`] of its row's four columns, each times one
/// digit of the query's words for these columns; a word has 4 / `PHASES` digits of 8 `PHASES` bits.
pub(crate) trait RowLanes: Copy {
    /// A register.
    type Vector: Pod;
    /// Rows of a vector.
    const LANES: usize;
    /// Multiplications that a quad's columns are spread over: 1, 2 or 4.
    const PHASES: usize;
    /// Digits of a query word.
    const DIGITS: usize = 4 / Self::PHASES;

    /// No sums yet.
    fn zero(self) -> Self::Vector;
    /// The columns of one phase, of a quad's four bytes in each lane: column `phase`, `phase + PHASES`, ...
    fn columns(self, quad: Self::Vector, phase: usize) -> Self::Vector;
    /// The same word of an operand in every lane.
    fn splat(self, word: u32) -> Self::Vector;
    /// `sums` plus, in each lane, the sum of the products of columns and digits.
    fn multiply_add(self, sums: Self::Vector, columns: Self::Vector, digits: Self::Vector) -> Self::Vector;
    /// `low + high * 2^BITS` in each lane.
    fn join<const BITS: i32>(self, low: Self::Vector, high: Self::Vector) -> Self::Vector;

    /// The columns of one phase of rows `first_row` onward.
    #[inline(always)]
    fn load(self, quad: &Quad, first_row: usize, phase: usize) -> Self::Vector {
        self.columns(load(&quad[4 * first_row..]), phase)
    }

    /// Adds to the sums of rows `first_row` onward.
    #[inline(always)]
    fn add_to(self, vector: Self::Vector, sums: &mut PanelSums, first_row: usize) {
        let sums = &mut sums[first_row..];
        store(self.join::<0>(load(sums), vector), sums);
    }
}
