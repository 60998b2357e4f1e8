//! What an instruction set supplies: vectors of 32-bit lanes, and products of 64 bits.

use bytemuck::Pod;

use crate::isa::{load, store};

/// An algorithm to be compiled for every instruction set; [`WordLanes::run`] runs it.
pub(super) trait Kernel {
    /// What it returns.
    type Output;

    /// The algorithm. Implementations are `#[inline(always)]`, so that they are compiled with the instructions
    /// of whoever runs them.
    fn run<L: WordLanes<W>, const W: usize>(self, lanes: L) -> Self::Output;
}

/// Vectors of `W` lanes of 32 bits over the token of an instruction set.
///
/// A *wide* number has 64 bits and takes the place of two lanes, an even one and the odd one after it.
pub(crate) trait WordLanes<const W: usize>: Copy + Send + Sync + 'static {
    /// `W` lanes.
    type Vector: Pod;
    /// `W / 2` wide numbers.
    type Wide: Copy;

    /// Rows of a fold's register tile, 1 to 4: as many as the registers hold sums for, 4 for each row.
    const FOLD_ROWS: usize;
    /// Whether to take narrow words apart ([`super::narrow`]) hides behind memory.
    const NARROW: bool;

    /// Runs an algorithm compiled for this instruction set.
    fn run<K: Kernel>(self, kernel: K) -> K::Output;

    /// The same word in every lane.
    fn splat(self, word: u32) -> Self::Vector;
    /// Words from memory.
    #[inline(always)]
    fn load(self, words: &[u32; W]) -> Self::Vector {
        load(words)
    }
    /// Words to memory.
    #[inline(always)]
    fn store(self, a: Self::Vector, words: &mut [u32; W]) {
        store(a, words);
    }
    /// Words to memory past the caches, in no order with other stores until [`Self::fence`].
    fn stream(self, a: Self::Vector, words: &mut [u32; W]);
    /// Puts the streamed words before all that is stored from here on.
    fn fence(self);
    /// a + b modulo 2^32.
    fn add(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// a - b modulo 2^32.
    fn sub(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// The lesser, unsigned.
    fn min(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Low half of the product.
    fn mul_low(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// High half of the unsigned product.
    #[inline(always)]
    fn mul_high(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
        let odd = self.mul_wide(self.odd(a), self.odd(b));
        self.join_high(self.mul_wide(self.even(a), self.even(b)), odd)
    }
    /// a shifted right by `bits`, 0 to 32, zeros coming in.
    fn shift_right(self, a: Self::Vector, bits: u32) -> Self::Vector;
    /// a shifted left by `bits`, 0 to 32, zeros coming in.
    fn shift_left(self, a: Self::Vector, bits: u32) -> Self::Vector;
    /// a and b, bit by bit.
    fn and(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Lane i of the result is lane `places[i]` of `a`; places are below `W`.
    fn permute(self, a: Self::Vector, places: Self::Vector) -> Self::Vector;
    /// Row i, lane j to row j, lane i.
    fn transpose(self, rows: [Self::Vector; W]) -> [Self::Vector; W];

    /// Wide zeros.
    fn zeros(self) -> Self::Wide;
    /// The same number everywhere.
    fn splat_wide(self, number: u64) -> Self::Wide;
    /// An even lane as the low half, the odd one after it as the high half.
    fn pairs(self, a: Self::Vector) -> Self::Wide;
    /// The even lanes as the low halves; the high halves are anything.
    fn even(self, a: Self::Vector) -> Self::Wide;
    /// The odd lanes as the low halves; the high halves are anything.
    fn odd(self, a: Self::Vector) -> Self::Wide;
    /// Product of the low halves.
    fn mul_wide(self, a: Self::Wide, b: Self::Wide) -> Self::Wide;
    /// a + b modulo 2^64.
    fn add_wide(self, a: Self::Wide, b: Self::Wide) -> Self::Wide;
    /// a and b, bit by bit.
    fn and_wide(self, a: Self::Wide, b: Self::Wide) -> Self::Wide;
    /// a or b, bit by bit.
    fn or_wide(self, a: Self::Wide, b: Self::Wide) -> Self::Wide;
    /// a shifted right by `BITS`, below 64, zeros coming in.
    fn shift_right_wide<const BITS: u32>(self, a: Self::Wide) -> Self::Wide;
    /// a turned to the left by `BITS`, 1 to 63.
    fn rotate_left_wide<const BITS: i32>(self, a: Self::Wide) -> Self::Wide;
    /// The high halves, as numbers.
    fn high(self, a: Self::Wide) -> Self::Wide;
    /// The low halves of `even` and `odd`, as even and odd lanes.
    fn join_low(self, even: Self::Wide, odd: Self::Wide) -> Self::Vector;
    /// The high halves of `even` and `odd`, as even and odd lanes.
    fn join_high(self, even: Self::Wide, odd: Self::Wide) -> Self::Vector;
}
