//! Vectors of the transforms; their lanes are rows, with two words of 16 bits each.

use bytemuck::Pod;

use crate::fold::Quad;
use crate::isa::{load, store};

/// Operations on vectors of 32-bit lanes, one lane for each row, with two signed 16-bit words in
/// each lane, implemented by the token of an instruction set.
pub(crate) trait PairLanes: Copy {
    /// Vector register.
    type Vector: Pod + Send;
    /// Rows of a vector.
    const LANES: usize;

    /// Returns a vector with `lane` in every lane.
    fn splat(self, lane: u32) -> Self::Vector;
    /// Loads the quad's four bytes into each lane, lowest column lowest, for the rows from
    /// `first_row` on.
    #[inline(always)]
    fn load(self, quad: &Quad, first_row: usize) -> Self::Vector {
        load(&quad[4 * first_row..])
    }
    /// Stores the lanes as words.
    #[inline(always)]
    fn store(self, vector: Self::Vector, lanes: &mut [u32]) {
        store(vector, lanes);
    }

    /// Returns the sums of 16-bit words modulo 2^16.
    fn add(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Returns the sums of 16-bit words, saturated to the signed range.
    fn add_saturating(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Returns the differences of 16-bit words modulo 2^16.
    fn sub(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Returns the low halves of the products of 16-bit words.
    fn mul_low(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Returns the high halves of the signed products of 16-bit words.
    fn mul_high(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Returns the signed low bytes of 16-bit words.
    fn low_bytes(self, a: Self::Vector) -> Self::Vector;
    /// Returns the signed high bytes of 16-bit words.
    fn high_bytes(self, a: Self::Vector) -> Self::Vector;
    /// Maps lanes (a0, a1) and (b0, b1), low half first, to (a0, b0) and (a1, b1).
    fn transpose(self, a: Self::Vector, b: Self::Vector) -> (Self::Vector, Self::Vector);

    /// Returns, in each 32-bit lane, `sums` plus the signed product of the low words plus that of
    /// the high words.
    fn multiply_add(self, sums: Self::Vector, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Returns the sums of 32-bit lanes.
    fn add_lanes(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Returns the differences of 32-bit lanes.
    fn sub_lanes(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Shifts 32-bit lanes left; zeros are shifted in.
    fn shift_left<const BITS: i32>(self, a: Self::Vector) -> Self::Vector;
    /// Shifts 32-bit lanes right; copies of the sign are shifted in.
    fn shift_right<const BITS: i32>(self, a: Self::Vector) -> Self::Vector;
    /// Returns the bitwise exclusive or.
    fn xor(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
}
