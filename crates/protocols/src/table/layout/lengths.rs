//! Lengths of the values of a table.

/// Number of values of each length.
///
/// Memory: 8 bytes for each length up to the longest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lengths {
    counts: Vec<u64>,
}

impl Lengths {
    /// Counts a value of `bytes` bytes.
    pub fn add(&mut self, bytes: usize) {
        if bytes >= self.counts.len() {
            self.counts.resize(bytes + 1, 0);
        }
        self.counts[bytes] += 1;
    }

    /// Returns the number of counted values.
    pub fn values(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the number of bytes of the longest value; 0 if there is none.
    pub fn longest(&self) -> usize {
        self.counts.len().saturating_sub(1)
    }

    /// Returns the lengths that occur, in increasing order, with their numbers of values.
    pub fn iter(&self) -> impl Iterator<Item = (usize, u64)> {
        self.counts.iter().copied().enumerate().filter(|&(_, count)| count > 0)
    }

    /// Returns the lengths with `times` values for each of these.
    pub fn repeated(&self, times: u64) -> Self {
        Self { counts: self.counts.iter().map(|count| count * times).collect() }
    }

    /// Returns the lengths without the longest `1/share` of the values, rounded down. If there are
    /// fewer than `share` values, none is omitted.
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
