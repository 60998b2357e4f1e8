//! Words of queries that are written where a backend needs them.

use crate::{Backend, map_each};

/// Number of words of a group; a source is only asked for whole groups.
pub const GROUP_WORDS: usize = 8;

/// Number of words that a thread writes at once, a whole number of groups.
const PIECE_WORDS: usize = 1 << 16;

/// Source of the words of a batch's queries, such as their packed bytes. A backend lets several
/// threads write the words to the memory that its fold reads.
pub trait QueryWords: Sync {
    /// Returns the number of words of all queries, a multiple of [`GROUP_WORDS`].
    fn count(&self) -> usize;

    /// Fills `to` with the words from number `first` on, of all queries one after another. `first`
    /// and the length of `to` are multiples of [`GROUP_WORDS`].
    ///
    /// # Panics
    /// If `to` extends past the last word.
    fn write(&self, first: usize, to: &mut [u32]);
}

/// Returns all words of `queries`, which the threads of [`Backend::each`] write.
pub(crate) fn written<B: Backend + ?Sized>(backend: &B, queries: &dyn QueryWords) -> Vec<u32> {
    let mut words = vec![0; queries.count()];
    let pieces = words.chunks_mut(PIECE_WORDS).enumerate();
    map_each(backend, pieces, |(i, piece)| queries.write(i * PIECE_WORDS, piece));
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NaiveBackend;

    /// Source of words that are their own numbers.
    struct Numbers(usize);

    impl QueryWords for Numbers {
        fn count(&self) -> usize {
            self.0
        }

        fn write(&self, first: usize, to: &mut [u32]) {
            assert!(first.is_multiple_of(GROUP_WORDS) && to.len().is_multiple_of(GROUP_WORDS));
            to.iter_mut().zip(first..self.0).for_each(|(to, number)| *to = number as u32);
        }
    }

    #[test]
    fn every_word_is_written_at_its_place() {
        for count in [0, GROUP_WORDS, PIECE_WORDS, PIECE_WORDS + GROUP_WORDS, 3 * PIECE_WORDS] {
            assert!(written(&NaiveBackend, &Numbers(count)).into_iter().eq(0..count as u32), "{count} words");
        }
    }
}
