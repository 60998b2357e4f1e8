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

    /// 16-bit words: sum modulo 2^16.
    fn add(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// 16-bit words: sum, saturated to the signed range.
    fn add_saturating(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// 16-bit words: difference modulo 2^16.
    fn sub(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// 16-bit words: low half of the product.
    fn mul_low(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// 16-bit words: high half of the signed product.
    fn mul_high(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// 16-bit words: the signed low bytes.
    fn low_bytes(self, a: Self::Vector) -> Self::Vector;
    /// 16-bit words: the signed high bytes.
    fn high_bytes(self, a: Self::Vector) -> Self::Vector;
    /// Maps lanes (a0, a1) and (b0, b1), low half first, to (a0, b0) and (a1, b1).
    fn transpose(self, a: Self::Vector, b: Self::Vector) -> (Self::Vector, Self::Vector);

    /// 32-bit lanes: `sums` plus the sum of the signed products of the low and of the high words.
    fn multiply_add(self, sums: Self::Vector, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// 32-bit lanes: sum.
    fn add_lanes(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// 32-bit lanes: difference.
    fn sub_lanes(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// 32-bit lanes: shifted left; zeros are shifted in.
    fn shift_left<const BITS: i32>(self, a: Self::Vector) -> Self::Vector;
    /// 32-bit lanes: shifted right; copies of the sign are shifted in.
    fn shift_right<const BITS: i32>(self, a: Self::Vector) -> Self::Vector;
    /// Bit by bit: exclusive or.
    fn xor(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
}
