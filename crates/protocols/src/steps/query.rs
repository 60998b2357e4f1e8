//! Layout of a query's bytes.

use spirea_backend::GROUP_WORDS;

use crate::bytes::{extend_upper_bits, words_of_upper_bits, words_to_bytes};

/// Layout of a query of folds: the words of the first folds' queries, those of the second fold's
/// query, and the ring ciphertext that expands. Client and server derive the layout from the
/// parameters. A part that a protocol lacks is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueryLayout {
    /// Total words of the first folds' queries: a multiple of 8.
    pub first: usize,
    /// Number of low bits of each of these words that are 0 and not sent.
    pub dropped_bits: u32,
    /// Words of the second fold's query.
    pub second: usize,
    /// Bytes of the ciphertext.
    pub ciphertext: usize,
}

/// Parts of a query that follow the words of the first folds' queries.
pub(crate) struct QueryParts<'a> {
    /// Words of the second fold's query.
    pub second: &'a [u8],
    /// Ring ciphertext.
    pub ciphertext: &'a [u8],
}

impl QueryLayout {
    /// Returns the number of bytes of a query.
    pub fn bytes(&self) -> usize {
        self.first_bytes() + self.second * 4 + self.ciphertext
    }

    fn first_bytes(&self) -> usize {
        self.first / GROUP_WORDS * (u32::BITS - self.dropped_bits) as usize
    }

    /// Joins the parts into a query.
    pub fn join(&self, first: &[Vec<u32>], second: &[u32], ciphertext: &[u8]) -> Vec<u8> {
        let mut query = Vec::with_capacity(self.bytes());
        first.iter().for_each(|words| extend_upper_bits(&mut query, words, self.dropped_bits));
        query.extend(words_to_bytes(second));
        query.extend(ciphertext);
        debug_assert_eq!(query.len(), self.bytes(), "the parts are those of the layout");
        query
    }

    /// Returns the parts after the words of the first folds' queries. The query has
    /// [`QueryLayout::bytes`] bytes.
    pub fn split<'a>(&self, query: &'a [u8]) -> QueryParts<'a> {
        let (second, ciphertext) = query[self.first_bytes()..].split_at(self.second * 4);
        QueryParts { second, ciphertext }
    }

    /// Fills `to` with words of the first folds' queries in `query`, from word number `first` on.
    /// `first` and the length of `to` are multiples of [`GROUP_WORDS`].
    pub fn write_first(&self, query: &[u8], first: usize, to: &mut [u32]) {
        let byte = |word: usize| word / GROUP_WORDS * (u32::BITS - self.dropped_bits) as usize;
        let bytes = &query[..self.first_bytes()][byte(first)..byte(first + to.len())];
        words_of_upper_bits(to, bytes, self.dropped_bits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_splits_into_what_it_was_joined_of() {
        for (dropped_bits, first) in [(0, 16), (4, 16), (5, 1000)] {
            let layout = QueryLayout { first, dropped_bits, second: 1, ciphertext: 3 };
            let words = (0..first as u32).map(|i| i.wrapping_mul(0x9e37_79b1).wrapping_sub(1));
            let first: Vec<u32> = words.map(|word| word >> dropped_bits << dropped_bits).collect();
            let query = layout.join(&[first[..8].to_vec(), first[8..].to_vec()], &[5], &[6, 7, 8]);
            assert_eq!(query.len(), layout.bytes());
            for piece in [0..layout.first, 8..16, layout.first - 8..layout.first] {
                let mut words = vec![0; piece.len()];
                layout.write_first(&query, piece.start, &mut words);
                assert_eq!(words, first[piece]);
            }
            let QueryParts { second, ciphertext } = layout.split(&query);
            assert_eq!((second, ciphertext), (&[5, 0, 0, 0][..], &[6, 7, 8][..]));
        }
    }
}
