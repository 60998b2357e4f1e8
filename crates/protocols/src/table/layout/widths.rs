//! The widths of buckets.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::ProtocolError;
use crate::oblivious::{above, select};

/// Maximum number of buckets with widths, of tables with several copies of each entry. A
/// description then has less than 3 MiB.
pub const MAX_WIDTHS: usize = 1 << 21;

/// Number of units that each bucket covers, 1 to 255, in order. In JSON it is the padded base64 of
/// these bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Widths(Box<[u8]>);

impl Widths {
    /// Creates the widths of 1 to [`MAX_WIDTHS`] buckets.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] for any other number of buckets, or if a width is 0.
    pub fn new(widths: Vec<u8>) -> Result<Self, ProtocolError> {
        let wrong = |detail: &str| Err(ProtocolError::malformed("table", detail));
        match widths.len() {
            1..=MAX_WIDTHS if widths.contains(&0) => wrong("no width may be 0"),
            1..=MAX_WIDTHS => Ok(Self(widths.into())),
            _ => wrong("widths must be those of 1 to 2097152 buckets"),
        }
    }

    /// Returns the number of buckets.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns the number of units, below 2^29.
    pub fn units(&self) -> u64 {
        self.0.iter().map(|&width| u64::from(width)).sum()
    }

    /// Returns the number of units before the end of each bucket.
    pub fn ends(&self) -> impl Iterator<Item = u64> + Clone {
        self.0.iter().scan(0, |end, &width| {
            *end += u64::from(width);
            Some(*end)
        })
    }

    /// Returns the bucket that covers a secret unit, by comparing the unit with every end.
    pub(crate) fn bucket(&self, unit: u64) -> u64 {
        self.ends().map(|end| above(unit + 1, end) & 1).sum()
    }

    /// Returns the first row after the end of each bucket. The table has `rows` rows, at most 2^40,
    /// and row i is in unit floor(i units / rows).
    pub(crate) fn row_ends(&self, rows: u64) -> impl Iterator<Item = u64> + Clone {
        let units = self.units();
        self.ends().map(move |end| (end * rows).div_ceil(units))
    }

    /// Returns the bucket of a secret row of `rows`, and the row's rank in it from 0, by comparing
    /// the row with every end.
    pub(crate) fn row(&self, row: u64, rows: u64) -> (u64, u64) {
        self.row_ends(rows).fold((0, row), |(bucket, rank), end| {
            let behind = above(row + 1, end);
            (bucket + (behind & 1), select(behind, row.wrapping_sub(end), rank))
        })
    }
}

impl Serialize for Widths {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Widths {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text.len() > MAX_WIDTHS.div_ceil(3) * 4 {
            return Err(de::Error::custom("there are more widths than 2097152"));
        }
        let widths = STANDARD.decode(&text).map_err(|_| de::Error::custom("expected widths in base64"))?;
        Self::new(widths).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_bucket_is_the_one_between_whose_ends_the_unit_lies(widths in proptest::collection::vec(1u8.., 1..60)) {
            let list = Widths::new(widths.clone()).unwrap();
            let owners = (0u64..).zip(&widths).flat_map(|(bucket, &width)| vec![bucket; width.into()]);
            let buckets: Vec<_> = (0..list.units()).map(|unit| list.bucket(unit)).collect();
            prop_assert!(owners.eq(buckets));
            prop_assert_eq!(list.ends().last(), Some(list.units()));
        }

        #[test]
        fn a_row_lies_where_its_unit_does_and_ranks_behind_those_before_it(
            widths in proptest::collection::vec(1u8.., 1..30), more in 0u64..9000,
        ) {
            let list = Widths::new(widths).unwrap();
            let rows = list.units() + more;
            let mut counts = vec![0; list.count()];
            for row in 0..rows {
                let bucket = list.bucket(row * list.units() / rows);
                prop_assert_eq!(list.row(row, rows), (bucket, counts[bucket as usize]));
                counts[bucket as usize] += 1;
            }
        }

        #[test]
        fn widths_survive_json_and_any_text_is_widths_or_an_error(widths in proptest::collection::vec(1u8.., 1..300), text: String) {
            let list = Widths::new(widths).unwrap();
            let json = serde_json::to_string(&list).unwrap();
            prop_assert_eq!(serde_json::from_str::<Widths>(&json).unwrap(), list);
            let text = serde_json::to_string(&text).unwrap();
            if let Ok(read) = serde_json::from_str::<Widths>(&text) {
                prop_assert_eq!(serde_json::to_string(&read).unwrap(), text);
            }
        }
    }

    #[test]
    fn widths_out_of_bounds_are_refused() {
        for widths in [vec![], vec![1, 0], vec![1; MAX_WIDTHS + 1]] {
            let json = serde_json::to_string(&STANDARD.encode(&widths)).unwrap();
            assert!(Widths::new(widths).is_err());
            assert!(serde_json::from_str::<Widths>(&json).is_err());
        }
    }
}
