//! Share bits in the DPUs' form: by groups of 64 records, with several queries' bits of a record
//! side by side.

use std::ops::Range;

use spirea_dpf::Leaf;

use crate::shape::GROUP;

/// Share bits of all rows of a table, lowest first. Rows to which no key's point corresponds have
/// the bit 0.
pub(crate) type Bits = Vec<u64>;

/// Selection of one query of a pass: the bits of keys that have no block in common, and the answer
/// to which each block belongs.
pub(crate) struct Selection {
    /// Bits of all keys.
    pub bits: Bits,
    /// For each key, the blocks that contain its rows and the place of its answer. The blocks are
    /// in order, and no two keys have a common block.
    pub answers: Vec<(Range<usize>, usize)>,
}

impl Selection {
    /// Returns the number of the answer that a block belongs to.
    pub fn answer_of(&self, block: usize) -> Option<usize> {
        let place = self.answers.partition_point(|(blocks, _)| blocks.end <= block);
        self.answers.get(place).filter(|(blocks, _)| blocks.contains(&block)).map(|_| place)
    }
}

/// Adds the shares of a key to the bits of a table's rows; the key's point 0 corresponds to row
/// `first_row`.
pub(crate) fn place(leaves: &[Leaf], points: usize, first_row: usize, bits: &mut [u64]) {
    let words: &[u64] = bytemuck::cast_slice(leaves);
    let word = |i: usize| {
        let left = points.saturating_sub(i * GROUP);
        let known = words.get(i).copied().unwrap_or_default();
        // Outputs after the last point are undefined.
        if left >= GROUP { known } else { known & ((1 << left) - 1) }
    };
    let (skipped, shift) = (first_row / GROUP, first_row % GROUP);
    for (i, bits) in bits[skipped..(first_row + points).div_ceil(GROUP)].iter_mut().enumerate() {
        let before = if i > 0 && shift > 0 { word(i - 1) >> (GROUP - shift) } else { 0 };
        *bits |= word(i) << shift | before;
    }
}

/// Writes the selectors of the groups `groups` for `queries` queries (1, 2 or 4); queries after the
/// last of `bits` select nothing. Each group has one word for each query. The selector of record r
/// begins at bit `r * queries`, with the first query lowest. A table's last block has fewer groups
/// than others; the selectors of missing groups are 0.
pub(crate) fn interleave(bits: &[&Bits], queries: usize, groups: Range<usize>, to: &mut [u8]) {
    let word = |query: usize, group: usize| -> u64 {
        bits.get(query).and_then(|bits| bits.get(group)).copied().unwrap_or_default()
    };
    for (group, to) in groups.zip(to.chunks_exact_mut(8 * queries)) {
        for (place, to) in to.chunks_exact_mut(8).enumerate() {
            let records = GROUP / queries;
            let spread = (0..queries).map(|query| {
                let bits = word(query, group) >> (place * records);
                match queries {
                    1 => bits,
                    2 => spread_by_2(bits as u32) << query,
                    _ => spread_by_4(bits as u16) << query,
                }
            });
            to.copy_from_slice(&spread.fold(0, |sum, bits| sum | bits).to_le_bytes());
        }
    }
}

/// Moves bit i to bit 2i.
fn spread_by_2(bits: u32) -> u64 {
    let bits = u64::from(bits);
    let bits = (bits | bits << 16) & 0x0000_ffff_0000_ffff;
    let bits = (bits | bits << 8) & 0x00ff_00ff_00ff_00ff;
    let bits = (bits | bits << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    let bits = (bits | bits << 2) & 0x3333_3333_3333_3333;
    (bits | bits << 1) & 0x5555_5555_5555_5555
}

/// Moves bit i to bit 4i.
fn spread_by_4(bits: u16) -> u64 {
    let bits = u64::from(bits);
    let bits = (bits | bits << 24) & 0x0000_00ff_0000_00ff;
    let bits = (bits | bits << 12) & 0x000f_000f_000f_000f;
    let bits = (bits | bits << 6) & 0x0303_0303_0303_0303;
    (bits | bits << 3) & 0x1111_1111_1111_1111
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn shares_meet_their_rows(points in 1usize..1500, first_row in 0usize..300, behind in 0usize..200, seed: u64) {
            let leaf = |i: usize| std::array::from_fn(|j| {
                u128::from(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835 ^ (i * 4 + j) as u128).rotate_left(17)
            });
            let leaves: Vec<Leaf> = (0..points.div_ceil(512)).map(leaf).collect();
            let rows = first_row + points + behind;
            // Rows of two keys that follow one another.
            let mut placed = vec![0; (rows + points).div_ceil(GROUP)];
            for first in [first_row, first_row + points] {
                place(&leaves, points, first, &mut placed);
            }
            for row in 0..placed.len() * GROUP {
                let of_either = row.checked_sub(first_row).filter(|&point| point < 2 * points);
                let expected = of_either.map(|point| point % points).is_some_and(|point| {
                    leaves[point / 512][point % 512 / 128] >> (point % 128) & 1 == 1
                });
                prop_assert_eq!(placed[row / GROUP] >> (row % GROUP) & 1 == 1, expected, "row {}", row);
            }
        }

        #[test]
        fn selectors_are_the_bits_of_all_queries(
            words in proptest::collection::vec(any::<u64>(), 24), there in 1usize..5, first in 0usize..4, last in 4usize..9,
        ) {
            let bits: Vec<Bits> = words.chunks_exact(6).map(<[u64]>::to_vec).collect();
            for queries in [1usize, 2, 4].into_iter().filter(|&queries| queries >= there) {
                let bits: Vec<&Bits> = bits.iter().take(there).collect();
                let mut found = vec![0xff; (last - first) * queries * 8];
                interleave(&bits, queries, first..last, &mut found);
                for record in 0..(last - first) * GROUP {
                    let group = first + record / GROUP;
                    for query in 0..queries {
                        let expected = bits.get(query).and_then(|bits| bits.get(group))
                            .is_some_and(|word| word >> (record % GROUP) & 1 == 1);
                        let bit = record * queries + query;
                        prop_assert_eq!(found[bit / 8] >> (bit % 8) & 1 == 1, expected);
                    }
                }
            }
        }
    }
}
