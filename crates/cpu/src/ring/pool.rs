//! Reused memory.
//!
//! The system clears every page that it hands out. For the leaves of a query, clearing takes a
//! considerable part of the time in which they are computed. Buffers of leaves and ciphertexts, and
//! the threads' working memory, therefore return to their backend, for use with any database.
//! Returned buffers and buffers in use together never exceed the maximum that was in use at one
//! time.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use spirea_backend::BackendError;

use super::scratch::Scratch;
use crate::memory::HugeBuffer;

/// Working memory of a backend's computations.
#[derive(Debug, Default)]
pub(crate) struct WorkingMemory {
    buffers: Arc<Pool<HugeBuffer>>,
    scratch: Arc<Pool<Scratch>>,
}

impl WorkingMemory {
    /// Lends `count` words with arbitrary content.
    ///
    /// # Errors
    /// [`BackendError::Unavailable`] if there is no memory for `what`, or `count` is `None` because
    /// the number would overflow.
    pub(super) fn words(&self, count: Option<usize>, what: &str) -> Result<Words, BackendError> {
        self.buffers.words(count, what)
    }

    /// Lends a thread's working memory.
    pub(super) fn scratch(&self) -> Lent<Scratch> {
        self.scratch.any()
    }
}

/// Piece of memory that a pool counts.
pub(super) trait Piece {
    /// Returns the piece's contribution to the size in use.
    fn size(&self) -> usize;
}

impl Piece for HugeBuffer {
    fn size(&self) -> usize {
        self.as_words().len()
    }
}

impl Piece for Scratch {
    /// Returns 1, since each thread has one piece of about the same size.
    fn size(&self) -> usize {
        1
    }
}

/// Pool of pieces of memory that wait for reuse.
#[derive(Debug)]
struct Pool<T>(Mutex<Stock<T>>);

/// The pieces, most recently returned last, and sums of sizes.
#[derive(Debug)]
struct Stock<T> {
    kept: VecDeque<T>,
    kept_size: usize,
    lent_size: usize,
    /// Maximum size that was lent at one time.
    most: usize,
}

/// A lent piece, which returns to its pool when dropped.
#[derive(Debug)]
pub(super) struct Lent<T: Piece> {
    /// Present until the piece is returned.
    piece: Option<T>,
    pool: Arc<Pool<T>>,
}

/// Lent words.
pub(super) type Words = Lent<HugeBuffer>;

impl<T> Default for Pool<T> {
    fn default() -> Self {
        let stock = Stock { kept: VecDeque::new(), kept_size: 0, lent_size: 0, most: 0 };
        Self(Mutex::new(stock))
    }
}

impl<T: Piece> Stock<T> {
    /// Takes the most recently returned piece that fits.
    fn take(&mut self, fits: impl Fn(&T) -> bool) -> Option<T> {
        let place = self.kept.iter().rposition(fits)?;
        let piece = self.kept.remove(place)?;
        self.kept_size -= piece.size();
        Some(piece)
    }

    /// Removes pieces, least recently returned first, until there is room for `size` more.
    fn make_room(&mut self, size: usize) -> Vec<T> {
        let lent = self.lent_size.saturating_add(size);
        let room = self.most.max(lent) - lent;
        let mut excess = Vec::new();
        while self.kept_size > room {
            let Some(piece) = self.kept.pop_front() else { break };
            self.kept_size -= piece.size();
            excess.push(piece);
        }
        excess
    }

    fn note_lent(&mut self, size: usize) {
        self.lent_size += size;
        self.most = self.most.max(self.lent_size);
    }

    fn give_back(&mut self, piece: T) -> Vec<T> {
        self.lent_size -= piece.size();
        self.kept_size += piece.size();
        self.kept.push_back(piece);
        self.make_room(0)
    }
}

impl<T: Piece> Pool<T> {
    fn stock(&self) -> MutexGuard<'_, Stock<T>> {
        // No code panics while it changes the stock, so a poisoned lock holds a valid stock.
        self.0.lock()
    }

    fn lend(self: &Arc<Self>, piece: T) -> Lent<T> {
        self.stock().note_lent(piece.size());
        Lent { piece: Some(piece), pool: Arc::clone(self) }
    }
}

impl<T: Piece + Default> Pool<T> {
    /// Lends any piece.
    fn any(self: &Arc<Self>) -> Lent<T> {
        let piece = self.stock().take(|_| true);
        self.lend(piece.unwrap_or_default())
    }
}

impl Pool<HugeBuffer> {
    fn words(self: &Arc<Self>, count: Option<usize>, what: &str) -> Result<Words, BackendError> {
        let fitting = self.stock().take(|piece| Some(piece.size()) == count);
        if let Some(piece) = fitting {
            return Ok(self.lend(piece));
        }
        // Unmapped outside the lock, and before new memory is requested.
        let excess = self.stock().make_room(count.unwrap_or(0));
        drop(excess);
        Ok(self.lend(HugeBuffer::words(count, what)?))
    }
}

impl<T: Piece> Drop for Lent<T> {
    fn drop(&mut self) {
        if let Some(piece) = self.piece.take() {
            let excess = self.pool.stock().give_back(piece);
            drop(excess);
        }
    }
}

impl<T: Piece> Deref for Lent<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.piece.as_ref().expect("a piece on loan")
    }
}

impl<T: Piece> DerefMut for Lent<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.piece.as_mut().expect("a piece on loan")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(pool: &Pool<HugeBuffer>) -> (usize, usize) {
        let stock = pool.stock();
        assert_eq!(stock.kept_size, stock.kept.iter().map(Piece::size).sum::<usize>());
        (stock.lent_size, stock.kept_size)
    }

    #[test]
    fn no_more_is_held_than_was_in_use_at_one_time() {
        let pool = Arc::new(Pool::default());
        let words = |count| pool.words(Some(count), "a test").unwrap();
        drop([words(1000), words(1000)]);
        assert_eq!(held(&pool), (0, 2000));

        let again = words(1000);
        assert_eq!(held(&pool), (1000, 1000));
        // Room for another length is made before the memory is taken.
        let other = words(600);
        assert_eq!(held(&pool), (1600, 0));
        drop((again, other));
        assert_eq!(held(&pool), (0, 1600));

        let largest = words(5000);
        assert_eq!(held(&pool), (5000, 0));
        drop(largest);
        for count in [300, 500, 700] {
            drop(words(count));
        }
        assert!(held(&pool).1 <= 5000);
    }

    #[test]
    fn memory_that_is_not_there_is_not_counted() {
        let pool = Arc::new(Pool::default());
        assert!(pool.words(None, "more than any number").is_err());
        assert!(pool.words(Some(usize::MAX / 8), "more than there is").is_err());
        drop(pool.words(Some(100), "a test").unwrap());
        drop(pool.words(Some(50), "a test").unwrap());
        assert_eq!(held(&pool), (0, 50));
    }
}
