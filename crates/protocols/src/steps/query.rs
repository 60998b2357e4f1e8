//! Layout of a query's bytes.

use crate::bytes::{extend_upper_bits, words_of_upper_bits, words_to_bytes};

/// Words that a thread unpacks at once: a multiple of 8.
const PIECE_WORDS: usize = 1 << 16;

/// Layout of a query of folds: the words of the first folds' queries, those of the second fold's
/// query, and the ring ciphertext that expands. Client and server derive the layout from the
/// parameters. A part that a protocol lacks is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueryLayout {
    /// Total words of the first folds' queries: a multiple of 8.
    pub first: usize,
    /// Number of their low bits that are 0 and not sent.
    pub dropped_bits: u32,
    /// Words of the second fold's query.
    pub second: usize,
    /// Bytes of the ciphertext.
    pub ciphertext: usize,
}

/// Parts of a query.
pub(crate) struct QueryParts<'a> {
    /// Words of the first folds' queries without the dropped bits, concatenated, lowest bits first.
    pub first: &'a [u8],
    /// Words of the second fold's query.
    pub second: &'a [u8],
    /// Ring ciphertext.
    pub ciphertext: &'a [u8],
}

/// Piece of the words of the first folds' queries.
pub(crate) struct FirstPiece<'a> {
    words: &'a mut [u32],
    bytes: &'a [u8],
    dropped: u32,
}

impl FirstPiece<'_> {
    /// Fills the words from their bytes.
    pub fn fill(self) {
        words_of_upper_bits(self.words, self.bytes, self.dropped);
    }
}

impl QueryLayout {
    /// Returns the number of bytes of a query.
    pub fn bytes(&self) -> usize {
        self.first_bytes() + self.second * 4 + self.ciphertext
    }

    fn first_bytes(&self) -> usize {
        self.first / 8 * (u32::BITS - self.dropped_bits) as usize
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

    /// Splits a query of [`QueryLayout::bytes`] bytes into its parts.
    pub fn split<'a>(&self, query: &'a [u8]) -> QueryParts<'a> {
        let (first, rest) = query.split_at(self.first_bytes());
        let (second, ciphertext) = rest.split_at(self.second * 4);
        QueryParts { first, second, ciphertext }
    }

    /// Divides the first folds' queries of `query` into pieces that fill `words`, which must hold
    /// [`QueryLayout::first`] words.
    pub fn first_pieces<'a>(
        &self,
        words: &'a mut [u32],
        query: &'a [u8],
    ) -> impl Iterator<Item = FirstPiece<'a>> {
        let dropped = self.dropped_bits;
        let bytes = self.split(query).first.chunks(PIECE_WORDS / 8 * (u32::BITS - dropped) as usize);
        words.chunks_mut(PIECE_WORDS).zip(bytes).map(move |(words, bytes)| FirstPiece {
            words,
            bytes,
            dropped,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_splits_into_what_it_was_joined_of() {
        for (dropped_bits, first) in [(0, 16), (4, 16), (5, 2 * PIECE_WORDS + 8)] {
            let layout = QueryLayout { first, dropped_bits, second: 1, ciphertext: 3 };
            let words = (0..first as u32).map(|i| i.wrapping_mul(0x9e37_79b1).wrapping_sub(1));
            let first: Vec<u32> = words.map(|word| word >> dropped_bits << dropped_bits).collect();
            let query = layout.join(&[first[..8].to_vec(), first[8..].to_vec()], &[5], &[6, 7, 8]);
            assert_eq!(query.len(), layout.bytes());
            let mut words = vec![0; layout.first];
            layout.first_pieces(&mut words, &query).for_each(FirstPiece::fill);
            assert_eq!(words, first);
            let QueryParts { second, ciphertext, .. } = layout.split(&query);
            assert_eq!((second, ciphertext), (&[5, 0, 0, 0][..], &[6, 7, 8][..]));
        }
    }
}
