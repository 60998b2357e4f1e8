//! Vectors over the bytes of a row.

use bytemuck::Pod;

use crate::isa::{load, store};

/// Algorithm compiled for every instruction set; [`ByteLanes::run`] runs it.
pub(crate) trait RowKernel {
    /// Result of the algorithm.
    type Output;

    /// Runs the algorithm. Implementations are `#[inline(always)]`, so that they are compiled with
    /// the caller's instructions.
    fn run<L: ByteLanes>(self, lanes: L) -> Self::Output;
}

/// Operations on vectors of bytes, also as little-endian words of 32 or 64 bits, implemented by the
/// token of an instruction set.
pub(crate) trait ByteLanes: Copy + Send + Sync + 'static {
    /// Vector register.
    type Vector: Pod;
    /// Bytes of a vector: 32 or 64.
    const BYTES: usize;

    /// Runs an algorithm compiled for this instruction set.
    fn run<K: RowKernel>(self, kernel: K) -> K::Output;

    /// Returns a vector of zeros.
    fn zero(self) -> Self::Vector;
    /// Loads the first [`Self::BYTES`] bytes.
    #[inline(always)]
    fn load(self, bytes: &[u8]) -> Self::Vector {
        load(bytes)
    }
    /// Writes the first [`Self::BYTES`] bytes.
    #[inline(always)]
    fn store(self, vector: Self::Vector, bytes: &mut [u8]) {
        store(vector, bytes);
    }
    /// Returns the exclusive or.
    fn xor(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Returns the bitwise and.
    fn and(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Returns a vector with `word` in every 32 bits.
    fn splat32(self, word: u32) -> Self::Vector;
    /// Returns a vector with `word` in every 64 bits.
    fn splat64(self, word: u64) -> Self::Vector;
    /// Returns the sums of 32-bit words.
    fn add32(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Returns the sums of 64-bit words.
    fn add64(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Returns all ones in 32-bit words whose top bit is set, 0 in others.
    fn top_masks(self, a: Self::Vector) -> Self::Vector;
    /// Returns the low halves of products of 32-bit words.
    fn mul32(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Returns the products of the lower halves of 64-bit words.
    fn mul_lower(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Returns 64-bit words times 2^32.
    fn raise(self, a: Self::Vector) -> Self::Vector;
}

/// Word type of rows and shares: computes `sum + row * share` over the lanes of such words.
pub(crate) trait Word: Pod + Send + Sync + 'static {
    /// Number of keys whose sums fit the registers together.
    const KEYS: usize;
    /// A share in every lane, in the form for products.
    type Splat<V: Copy>: Copy;
    /// A running sum.
    type Sum<V: Copy>: Copy;

    /// Returns a share in every lane.
    fn splat<L: ByteLanes>(lanes: L, share: Self) -> Self::Splat<L::Vector>;
    /// Returns the empty sum.
    fn zero<L: ByteLanes>(lanes: L) -> Self::Sum<L::Vector>;
    /// Returns `sum + row * share`.
    fn multiply_add<L: ByteLanes>(
        lanes: L,
        sum: Self::Sum<L::Vector>,
        row: L::Vector,
        share: Self::Splat<L::Vector>,
    ) -> Self::Sum<L::Vector>;
    /// Returns `words + sum`.
    fn finish<L: ByteLanes>(lanes: L, sum: Self::Sum<L::Vector>, words: L::Vector) -> L::Vector;
}

impl Word for u32 {
    const KEYS: usize = 2;
    type Splat<V: Copy> = V;
    type Sum<V: Copy> = V;

    #[inline(always)]
    fn splat<L: ByteLanes>(lanes: L, share: u32) -> L::Vector {
        lanes.splat32(share)
    }

    #[inline(always)]
    fn zero<L: ByteLanes>(lanes: L) -> L::Vector {
        lanes.zero()
    }

    #[inline(always)]
    fn multiply_add<L: ByteLanes>(lanes: L, sum: L::Vector, row: L::Vector, share: L::Vector) -> L::Vector {
        lanes.add32(sum, lanes.mul32(row, share))
    }

    #[inline(always)]
    fn finish<L: ByteLanes>(lanes: L, sum: L::Vector, words: L::Vector) -> L::Vector {
        lanes.add32(words, sum)
    }
}

/// In terms of 32-bit halves, a product modulo 2^64 is `low low' + 2^32 (low high' + high low')`.
/// Two sums are kept: the full products of lower halves and, in the two halves of a word, the two
/// cross products modulo 2^32.
impl Word for u64 {
    const KEYS: usize = 1;
    type Splat<V: Copy> = (V, V);
    type Sum<V: Copy> = (V, V);

    #[inline(always)]
    fn splat<L: ByteLanes>(lanes: L, share: u64) -> (L::Vector, L::Vector) {
        (lanes.splat64(share), lanes.splat64(share.rotate_left(32)))
    }

    #[inline(always)]
    fn zero<L: ByteLanes>(lanes: L) -> (L::Vector, L::Vector) {
        (lanes.zero(), lanes.zero())
    }

    #[inline(always)]
    fn multiply_add<L: ByteLanes>(
        lanes: L,
        (low, cross): (L::Vector, L::Vector),
        row: L::Vector,
        (share, turned): (L::Vector, L::Vector),
    ) -> (L::Vector, L::Vector) {
        (lanes.add64(low, lanes.mul_lower(row, share)), lanes.add32(cross, lanes.mul32(row, turned)))
    }

    #[inline(always)]
    fn finish<L: ByteLanes>(lanes: L, (low, cross): (L::Vector, L::Vector), words: L::Vector) -> L::Vector {
        let upper = lanes.and(cross, lanes.splat64(0xFFFF_FFFF_0000_0000));
        let crossed = lanes.add64(lanes.raise(cross), upper);
        lanes.add64(words, lanes.add64(low, crossed))
    }
}
