//! How long the values of a table are.

/// How many values there are of each length.
///
/// Memory: 8 bytes for each length up to the longest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lengths {
    counts: Vec<u64>,
}

impl Lengths {
    /// Counts a value of so many bytes.
    pub fn add(&mut self, bytes: usize) {
        if bytes >= self.counts.len() {
            self.counts.resize(bytes + 1, 0);
        }
        self.counts[bytes] += 1;
    }

    /// Values that were counted.
    pub fn values(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Bytes of the longest; 0 if there is none.
    pub fn longest(&self) -> usize {
        self.counts.len().saturating_sub(1)
    }

    /// The lengths that occur, the shortest first, with their numbers of values.
    pub fn iter(&self) -> impl Iterator<Item = (usize, u64)> {
        self.counts.iter().copied().enumerate().filter(|&(_, count)| count > 0)
    }

    /// Those of all values but the longest one in so many; none is left out of fewer than `share` values.
    pub fn without_longest(&self, share: u64) -> Self {
        let mut left = self.values() - self.values() / share;
        let mut kept = Self::default();
        for (bytes, count) in self.iter() {
            let taken = count.min(left);
            left -= taken;
            if taken > 0 {
                kept.counts.resize(bytes + 1, 0);
                kept.counts[bytes] = taken;
            }
        }
        kept
    }
}

impl FromIterator<usize> for Lengths {
    fn from_iter<I: IntoIterator<Item = usize>>(lengths: I) -> Self {
        let mut counted = Self::default();
        lengths.into_iter().for_each(|bytes| counted.add(bytes));
        counted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_longest_values_are_left_out_and_no_others(
            mut lengths in proptest::collection::vec(0usize..400, 0..300), share in 1u64..150,
        ) {
            let kept = lengths.iter().copied().collect::<Lengths>().without_longest(share);
            lengths.sort_unstable();
            lengths.truncate(lengths.len() - lengths.len() / share as usize);
            prop_assert_eq!(kept.longest(), lengths.last().copied().unwrap_or_default());
            prop_assert_eq!(kept, lengths.into_iter().collect());
        }
    }
}
