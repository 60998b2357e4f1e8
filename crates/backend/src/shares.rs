//! Shares of a database: the division of its rows among several holders, which are devices or
//! machines.
//!
//! A share consists of consecutive rows. The kind of rows decides where a share may end:
//!
//! - a matrix of bytes: after whole panels;
//! - rows for two servers: after whole subtrees of a query's tree, or after whole leaves of the
//!   bins' trees;
//! - polynomials: such that the tournament of a share is a part of the whole tournament.
//!
//! If a database has fewer of these units than shares, some shares are empty.

use std::ops::Range;

use crate::{BackendError, PANEL_ROWS, PanelLayout, RowLayout};

/// Largest number of points in a leaf of a query's tree, reached if outputs are bits. At multiples
/// of this number, leaves of all output kinds begin.
const LEAF_POINTS: usize = 512;

/// One share of a database that several holders divide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Share {
    index: usize,
    count: usize,
}

impl Share {
    /// The only share of an undivided database.
    pub const WHOLE: Self = Self { index: 0, count: 1 };
    /// Largest number of shares of a database.
    pub const MOST: usize = 1 << 16;

    /// Returns share number `index`, from 0 on, of `count` shares.
    ///
    /// # Errors
    /// [`BackendError::Shape`] unless `count` is 1 to [`Share::MOST`] and `index` is below it.
    pub fn new(index: usize, count: usize) -> Result<Self, BackendError> {
        if index >= count || count > Self::MOST {
            let most = Self::MOST;
            return Err(BackendError::Shape(format!(
                "share {index} of {count}: a database has 1 to {most} shares, numbered from 0 on"
            )));
        }
        Ok(Self { index, count })
    }

    /// Iterates over all shares of the division that this share belongs to.
    pub fn all(self) -> impl ExactSizeIterator<Item = Self> + use<> {
        (0..self.count).map(move |index| Self { index, ..self })
    }

    /// Returns the share's number, from 0 on.
    pub fn index(self) -> usize {
        self.index
    }

    /// Returns the number of shares of the database.
    pub fn count(self) -> usize {
        self.count
    }

    /// Returns the share's rows of a matrix, in whole panels. Shares differ by at most one panel.
    pub fn rows(self, layout: PanelLayout) -> Range<usize> {
        // Computed in 64 bits, because the product may exceed a 32-bit word.
        let bound =
            |index: usize| (layout.panels() as u64 * index as u64 / self.count as u64) as usize * PANEL_ROWS;
        bound(self.index)..bound(self.index + 1)
    }

    /// Returns the share's rows for two servers. Every share but the last ones has the rows of a
    /// whole subtree. Rows in bins are divided as evenly as whole leaves of the bins' trees allow.
    pub fn records(self, layout: RowLayout) -> Range<usize> {
        let Some(skipped) = layout.skipped() else { return self.aligned(layout.rows(), LEAF_POINTS) };
        let bound = |index: usize| {
            // Computed in 64 bits, because 2^44 rows times 2^16 shares may exceed a 32-bit word.
            let even = (layout.rows() as u64 * index as u64 / self.count as u64) as usize + skipped;
            let within = even % layout.bin_rows();
            (even - within % LEAF_POINTS).saturating_sub(skipped)
        };
        // The last share ends with the last row, even within a leaf.
        let end = if self.index + 1 == self.count { layout.rows() } else { bound(self.index + 1) };
        bound(self.index)..end
    }

    /// Returns the share's competitors among `rows` of a tournament. In every share but the last
    /// ones, these play a whole number of rounds, [`Share::rounds`], among themselves.
    pub fn competitors(self, rows: usize) -> Range<usize> {
        self.aligned(rows, 1)
    }

    /// Returns the number of rounds that are played within shares, in a tournament of `rows`
    /// competitors.
    pub fn rounds(self, rows: usize) -> usize {
        self.step(rows, 1).trailing_zeros() as usize
    }

    /// Returns the number of rows of each share but the last ones: the smallest power of two, at
    /// least `least`, with which the shares cover all `rows` rows.
    fn step(self, rows: usize, least: usize) -> usize {
        rows.div_ceil(self.count).next_power_of_two().max(least)
    }

    fn aligned(self, rows: usize, least: usize) -> Range<usize> {
        let bound = |index: usize| self.step(rows, least).saturating_mul(index).min(rows);
        bound(self.index)..bound(self.index + 1)
    }
}

impl Default for Share {
    fn default() -> Self {
        Self::WHOLE
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::FileLayout as _;

    /// Returns true if the ranges follow one another from the first row to the last.
    fn covers(rows: usize, ranges: &[Range<usize>]) -> bool {
        let ends = ranges.iter().map(|range| range.end);
        ranges.iter().map(|range| range.start).eq(std::iter::once(0).chain(ends).take(ranges.len()))
            && ranges.iter().all(|range| range.start <= range.end)
            && ranges.last().is_some_and(|last| last.end == rows)
    }

    fn ranges(count: usize, range: impl Fn(Share) -> Range<usize>) -> Vec<Range<usize>> {
        Share::new(0, count).unwrap().all().map(range).collect()
    }

    proptest! {
        #[test]
        fn shares_of_a_matrix_are_whole_panels_and_as_even_as_can_be(rows in 1usize..4000, count in 1usize..40) {
            let layout = PanelLayout::covering(rows, 4).unwrap();
            let ranges = ranges(count, |share| share.rows(layout));
            prop_assert!(covers(layout.rows(), &ranges));
            prop_assert!(ranges.iter().all(|range| range.start.is_multiple_of(PANEL_ROWS)));
            let panels = ranges.iter().map(|range| range.len() / PANEL_ROWS);
            let (least, most) = (panels.clone().min().unwrap(), panels.max().unwrap());
            prop_assert!(most - least <= 1, "{:?}", ranges);
        }

        #[test]
        fn shares_of_rows_for_two_servers_are_whole_subtrees(rows in 1usize..100_000, count in 1usize..40) {
            let layout = RowLayout::new(rows, 1, 2).unwrap();
            let ranges = ranges(count, |share| share.records(layout));
            prop_assert!(covers(rows, &ranges));
            let step = ranges[0].len().next_power_of_two().max(LEAF_POINTS);
            prop_assert!(ranges.iter().all(|range| range.start.is_multiple_of(step) || range.is_empty()));
            prop_assert!(ranges.iter().all(|range| range.len() <= step));
        }

        #[test]
        fn shares_of_rows_in_bins_are_even_and_whole_leaves(
            bin_rows in 1usize..3000, bins in 2usize..40, count in 1usize..40, part in 0usize..40, parts in 1usize..9,
        ) {
            let layout = RowLayout::new(bin_rows * bins, 1, 2).unwrap().in_bins(bins).unwrap();
            let part = Share::new(part % parts, parts).unwrap().records(layout);
            prop_assume!(!part.is_empty());
            for (first, layout) in [(0, layout), (part.start, layout.part(&part).unwrap())] {
                let ranges = ranges(count, |share| share.records(layout));
                prop_assert!(covers(layout.rows(), &ranges), "{:?}", ranges);
                for range in &ranges {
                    prop_assert!(range.start == layout.rows() || (first + range.start) % bin_rows % LEAF_POINTS == 0);
                    // A part that is one whole bin is divided by subtrees, like rows without bins.
                    let even = range.len() <= layout.rows().div_ceil(count) + LEAF_POINTS;
                    prop_assert!(even || layout.skipped().is_none());
                }
            }
        }

        #[test]
        fn a_share_plays_whole_rounds_of_the_tournament(rows in 1usize..5000, count in 1usize..40) {
            let ranges = ranges(count, |share| share.competitors(rows));
            prop_assert!(covers(rows, &ranges));
            let rounds = Share::new(0, count).unwrap().rounds(rows);
            let of_rounds = |row: usize| row >> rounds;
            // Competitors that play each other within these rounds are in the same share. The
            // winners play on in the order of the shares.
            for (place, range) in ranges.iter().enumerate().filter(|(_, range)| !range.is_empty()) {
                prop_assert!(range.clone().all(|row| of_rounds(row) == place));
            }
            prop_assert!((1usize << rounds) < 2 * rows.div_ceil(count) || rounds == 0);
        }
    }

    #[test]
    fn a_whole_database_is_one_share() {
        let layout = PanelLayout::covering(70, 4).unwrap();
        assert_eq!(Share::default().rows(layout), 0..layout.rows());
        assert_eq!(Share::WHOLE.competitors(5), 0..5);
        assert_eq!(Share::WHOLE.rounds(5), 3);
        assert_eq!(Share::WHOLE.all().collect::<Vec<_>>(), [Share::WHOLE]);
    }

    #[test]
    fn shares_that_there_are_not_are_refused() {
        for (index, count) in [(0, 0), (1, 1), (5, 4), (0, Share::MOST + 1)] {
            assert!(matches!(Share::new(index, count), Err(BackendError::Shape(_))));
        }
    }
}
