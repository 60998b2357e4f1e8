//! Plaintexts stored with only the number of bits that their prime needs, so that a fold reads
//! fewer bytes.
//!
//! Residues of b bits leave s = 64 - 2b bits free in two neighbouring words. A *group* is a few
//! columns of a matrix whose vectors carry, in their free bits, the vector of one more column:
//!
//! ```text
//!     63         64-b         b          0
//!      |   odd    |   piece   |   even   |
//! ```
//!
//! The pieces are gathered by rotation: t = (t | piece) rotated left by s, for each vector in turn.
//! After the last vector, t holds the carried vector in the same form. This works because the
//! pieces of the k = ceil(64 / s) - 1 carriers have at least 2b and at most 64 bits together, and
//! the bits that they do not cover fall between the two words. With 26, 27 and 28 bits, groups of
//! 6, 7 and 8 columns are stored as 5, 6 and 7 columns. With 29 bits, 11 columns would be stored as
//! 10, which is not worth the work (docs/kernels/ring.md).

use spirea_math::Modulus;

use super::lanes::WordLanes;
use super::layout::BLOCK;
use super::modular::lazy_terms;

/// Rows stored together in narrow words.
pub(super) const ROWS: usize = 4;

/// Storage of a prime's residues in narrow words.
#[derive(Clone, Copy, Debug)]
pub(super) struct Narrow {
    bits: u32,
}

impl Narrow {
    /// Returns the storage for a prime that the kernels support. A sum must hold the products of a
    /// whole block of columns, so that reductions happen between groups.
    pub(super) fn of(q: Modulus) -> Option<Self> {
        let bits = u32::BITS - q.value().leading_zeros();
        (matches!(bits, 26..=28) && lazy_terms(q, q.value().into()) >= BLOCK).then_some(Self { bits })
    }

    /// Returns the number of bits in a piece.
    fn spare(self) -> u32 {
        64 - 2 * self.bits
    }

    /// Returns the number of stored columns in a group, which carry one more column.
    pub(super) fn carriers(self) -> usize {
        64_usize.div_ceil(self.spare() as usize) - 1
    }

    /// Returns the number of stored columns for `columns` columns of a block; the rest of the last
    /// group carries nothing.
    pub(super) fn stored(self, columns: usize) -> usize {
        columns - columns / (self.carriers() + 1)
    }

    /// Returns the mask of a piece.
    fn piece(self) -> u64 {
        ((1 << self.spare()) - 1) << self.bits
    }

    /// Passes `count` columns of [`ROWS`] rows of a block to `columns`.
    #[inline(always)]
    pub(super) fn each<L: WordLanes<W>, C: Columns<L, W>, const W: usize>(
        self,
        lanes: L,
        stored: &[[u32; W]],
        count: usize,
        columns: C,
    ) -> C {
        match self.bits {
            26 => NarrowLanes::<_, 12, 38, 5>::new(lanes, self).each(lanes, stored, count, columns),
            27 => NarrowLanes::<_, 10, 37, 6>::new(lanes, self).each(lanes, stored, count, columns),
            28 => NarrowLanes::<_, 8, 36, 7>::new(lanes, self).each(lanes, stored, count, columns),
            bits => unreachable!("{bits} bits are not narrow"),
        }
    }

    /// Packs the columns of a block into the stored columns, `of_column` words each.
    pub(super) fn pack(self, columns: &[u32], of_column: usize, stored: &mut [u32]) {
        let (of_group, carriers) = ((self.carriers() + 1) * of_column, self.carriers() * of_column);
        for (group, stored) in columns.chunks(of_group).zip(stored.chunks_mut(carriers)) {
            let (own, carried) = group.split_at(stored.len());
            for (place, pair) in stored.as_chunks_mut::<2>().0.iter_mut().enumerate() {
                let pair_of = |words: &[u32], at: usize| {
                    u64::from(words[2 * at]) | u64::from(words[2 * at + 1]) << (64 - self.bits)
                };
                let mut word = pair_of(own, place);
                if !carried.is_empty() {
                    let turns = (carriers - 2 * place).div_ceil(of_column) as u32;
                    let turned = pair_of(carried, place % (of_column / 2)).rotate_right(turns * self.spare());
                    word |= turned & self.piece();
                }
                *pair = [word as u32, (word >> 32) as u32];
            }
        }
    }
}

/// Consumer of the columns of [`ROWS`] rows, one after another.
pub(super) trait Columns<L: WordLanes<W>, const W: usize> {
    /// Begins a column, for which `vectors` vectors are read.
    fn begin(&mut self, lanes: L, vectors: usize);

    /// Takes the even and the odd words of one row of the column.
    fn row(&mut self, lanes: L, row: usize, words: [L::Wide; 2]);
}

/// Passes the columns to both consumers in turn.
impl<L: WordLanes<W>, A: Columns<L, W>, B: Columns<L, W>, const W: usize> Columns<L, W> for (A, B) {
    #[inline(always)]
    fn begin(&mut self, lanes: L, vectors: usize) {
        self.0.begin(lanes, vectors);
        self.1.begin(lanes, vectors);
    }

    #[inline(always)]
    fn row(&mut self, lanes: L, row: usize, words: [L::Wide; 2]) {
        self.0.row(lanes, row, words);
        self.1.row(lanes, row, words);
    }
}

/// Narrow storage in registers, for residues of (64 - `SPARE`) / 2 bits: their odd words begin at
/// bit `ODD`, and `K` columns carry one more.
#[derive(Clone, Copy)]
struct NarrowLanes<V, const SPARE: i32, const ODD: u32, const K: usize> {
    even: V,
    piece: V,
}

impl<V: Copy, const SPARE: i32, const ODD: u32, const K: usize> NarrowLanes<V, SPARE, ODD, K> {
    #[inline(always)]
    fn new<L: WordLanes<W, Wide = V>, const W: usize>(lanes: L, narrow: Narrow) -> Self {
        debug_assert_eq!((narrow.spare(), narrow.carriers()), (SPARE as u32, K));
        Self { even: lanes.splat_wide((1 << narrow.bits) - 1), piece: lanes.splat_wide(narrow.piece()) }
    }

    /// Returns the even and the odd words.
    #[inline(always)]
    fn words<L: WordLanes<W, Wide = V>, const W: usize>(self, lanes: L, pairs: V) -> [V; 2] {
        [lanes.and_wide(pairs, self.even), lanes.shift_right_wide::<ODD>(pairs)]
    }

    /// Returns the gathered vector with the piece of one more carrier.
    #[inline(always)]
    fn gather<L: WordLanes<W, Wide = V>, const W: usize>(self, lanes: L, gathered: V, pairs: V) -> V {
        lanes.rotate_left_wide::<SPARE>(lanes.or_wide(gathered, lanes.and_wide(pairs, self.piece)))
    }

    #[inline(always)]
    fn each<L: WordLanes<W, Wide = V>, C: Columns<L, W>, const W: usize>(
        self,
        lanes: L,
        stored: &[[u32; W]],
        count: usize,
        mut columns: C,
    ) -> C {
        let (groups, rest) = stored.as_chunks::<ROWS>().0.as_chunks::<K>();
        for (number, group) in groups.iter().enumerate() {
            let mut carried = [lanes.zeros(); ROWS];
            for column in group {
                columns.begin(lanes, ROWS);
                for row in 0..ROWS {
                    let pairs = lanes.pairs(lanes.load(&column[row]));
                    carried[row] = self.gather(lanes, carried[row], pairs);
                    columns.row(lanes, row, self.words(lanes, pairs));
                }
            }
            // The last group may carry nothing.
            if (number + 1) * (K + 1) <= count {
                columns.begin(lanes, 0);
                for (row, &carried) in carried.iter().enumerate() {
                    columns.row(lanes, row, self.words(lanes, carried));
                }
            }
        }
        for column in rest {
            columns.begin(lanes, ROWS);
            for (row, words) in column.iter().enumerate() {
                columns.row(lanes, row, self.words(lanes, lanes.pairs(lanes.load(words))));
            }
        }
        columns
    }
}
