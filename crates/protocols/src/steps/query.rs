//! How a query lies in its bytes.

use crate::bytes::words_to_bytes;

/// A query of folds: the words of the first fold's queries, those of the second's, and the ring ciphertext that
/// expands. Client and server agree on it by the parameters; a protocol without one of the three has nothing of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueryLayout {
    /// Words of the first fold's queries, one after another.
    pub first: usize,
    /// Words of the second fold's query.
    pub second: usize,
    /// Bytes of the ciphertext.
    pub ciphertext: usize,
}

/// What stands where in a query.
pub(crate) struct QueryParts<'a> {
    /// The words of the first fold's queries, little-endian.
    pub first: &'a [u8],
    /// Those of the second fold's query.
    pub second: &'a [u8],
    /// The ciphertext.
    pub ciphertext: &'a [u8],
}

impl QueryLayout {
    /// Bytes of a query.
    pub fn bytes(&self) -> usize {
        (self.first + self.second) * 4 + self.ciphertext
    }

    /// A query of these parts.
    pub fn join(&self, first: &[Vec<u32>], second: &[u32], ciphertext: &[u8]) -> Vec<u8> {
        let mut query = Vec::with_capacity(self.bytes());
        first.iter().for_each(|words| query.extend(words_to_bytes(words)));
        query.extend(words_to_bytes(second));
        query.extend(ciphertext);
        debug_assert_eq!(query.len(), self.bytes(), "the parts are those of the layout");
        query
    }

    /// The parts of a query of [`QueryLayout::bytes`] bytes.
    pub fn split<'a>(&self, query: &'a [u8]) -> QueryParts<'a> {
        let (first, rest) = query.split_at(self.first * 4);
        let (second, ciphertext) = rest.split_at(self.second * 4);
        QueryParts { first, second, ciphertext }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_splits_into_what_it_was_joined_of() {
        let layout = QueryLayout { first: 4, second: 1, ciphertext: 3 };
        let query = layout.join(&[vec![1, 2], vec![3, u32::MAX]], &[5], &[6, 7, 8]);
        assert_eq!(query.len(), layout.bytes());
        let QueryParts { first, second, ciphertext } = layout.split(&query);
        assert_eq!(first, [1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 255, 255, 255, 255]);
        assert_eq!((second, ciphertext), (&[5, 0, 0, 0][..], &[6, 7, 8][..]));
    }
}
