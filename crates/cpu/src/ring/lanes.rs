//! Operations that an instruction set supplies: vectors of 32-bit lanes, and products of 64 bits.

use bytemuck::Pod;

use crate::isa::{load, store};

/// Algorithm compiled for every instruction set; [`WordLanes::run`] runs it.
pub(super) trait Kernel {
    /// Result of the algorithm.
    type Output;

    /// Runs the algorithm. Implementations are `#[inline(always)]`, so that they are compiled with
    /// the caller's instructions.
    fn run<L: WordLanes<W>, const W: usize>(self, lanes: L) -> Self::Output;
}

/// Operations on vectors of `W` lanes of 32 bits, implemented by the token of an instruction set.
///
/// A *wide* number has 64 bits and takes the place of two lanes, an even lane and the odd lane
/// after it.
pub(crate) trait WordLanes<const W: usize>: Copy + Send + Sync + 'static {
    /// `W` lanes.
    type Vector: Pod;
    /// `W / 2` wide numbers.
    type Wide: Copy;

    /// Rows of a fold's register tile, 1 to 4, limited by the registers for sums, 4 for each row.
    const FOLD_ROWS: usize;
    /// True if unpacking narrow words ([`super::narrow`]) takes no longer than reading memory.
    const NARROW: bool;

    /// Runs an algorithm compiled for this instruction set.
    fn run<K: Kernel>(self, kernel: K) -> K::Output;

    /// Returns a vector with `word` in every lane.
    fn splat(self, word: u32) -> Self::Vector;
    /// Loads words from memory.
    #[inline(always)]
    fn load(self, words: &[u32; W]) -> Self::Vector {
        load(words)
    }
    /// Stores words to memory.
    #[inline(always)]
    fn store(self, a: Self::Vector, words: &mut [u32; W]) {
        store(a, words);
    }
    /// Stores words to memory past the caches, unordered with other stores until [`Self::fence`].
    fn stream(self, a: Self::Vector, words: &mut [u32; W]);
    /// Orders the streamed words before all later stores.
    fn fence(self);
    /// Returns a + b modulo 2^32.
    fn add(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Returns a - b modulo 2^32.
    fn sub(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Returns the minimum of unsigned words.
    fn min(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Returns the low half of the product.
    fn mul_low(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Returns the high half of the unsigned product.
    #[inline(always)]
    fn mul_high(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
        let odd = self.mul_wide(self.odd(a), self.odd(b));
        self.join_high(self.mul_wide(self.even(a), self.even(b)), odd)
    }
    /// Returns a shifted right by `bits`, 0 to 32; zeros are shifted in.
    fn shift_right(self, a: Self::Vector, bits: u32) -> Self::Vector;
    /// Returns a shifted left by `bits`, 0 to 32; zeros are shifted in.
    fn shift_left(self, a: Self::Vector, bits: u32) -> Self::Vector;
    /// Returns the bitwise and.
    fn and(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Permutes lanes: lane i of the result is lane `places[i]` of `a`; places are below `W`.
    fn permute(self, a: Self::Vector, places: Self::Vector) -> Self::Vector;
    /// Transposes: row i, lane j becomes row j, lane i.
    fn transpose(self, rows: [Self::Vector; W]) -> [Self::Vector; W];

    /// Returns wide zeros.
    fn zeros(self) -> Self::Wide;
    /// Returns `number` in every place.
    fn splat_wide(self, number: u64) -> Self::Wide;
    /// Takes an even lane as the low half, the odd lane after it as the high half.
    fn pairs(self, a: Self::Vector) -> Self::Wide;
    /// Returns the even lanes as the low halves; the high halves are arbitrary.
    fn even(self, a: Self::Vector) -> Self::Wide;
    /// Returns the odd lanes as the low halves; the high halves are arbitrary.
    fn odd(self, a: Self::Vector) -> Self::Wide;
    /// Returns the product of the low halves.
    fn mul_wide(self, a: Self::Wide, b: Self::Wide) -> Self::Wide;
    /// Returns a + b modulo 2^64.
    fn add_wide(self, a: Self::Wide, b: Self::Wide) -> Self::Wide;
    /// Returns the bitwise and.
    fn and_wide(self, a: Self::Wide, b: Self::Wide) -> Self::Wide;
    /// Returns the bitwise or.
    fn or_wide(self, a: Self::Wide, b: Self::Wide) -> Self::Wide;
    /// Returns a shifted right by `BITS`, below 64; zeros are shifted in.
    fn shift_right_wide<const BITS: u32>(self, a: Self::Wide) -> Self::Wide;
    /// Returns a rotated left by `BITS`, 1 to 63.
    fn rotate_left_wide<const BITS: i32>(self, a: Self::Wide) -> Self::Wide;
    /// Returns the high halves, as numbers.
    fn high(self, a: Self::Wide) -> Self::Wide;
    /// Joins the low halves of `even` and `odd`, as even and odd lanes.
    fn join_low(self, even: Self::Wide, odd: Self::Wide) -> Self::Vector;
    /// Joins the high halves of `even` and `odd`, as even and odd lanes.
    fn join_high(self, even: Self::Wide, odd: Self::Wide) -> Self::Vector;
}
