//! Memory that is used again.
//!
//! The system clears every page that it hands out, which for the leaves of a query takes as long as a good part of
//! their computation. Buffers of leaves and ciphertexts, and the threads' working memory, therefore go back to
//! the tables they belong to: as much as the largest batch so far has needed.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use spirea_backend::BackendError;

use crate::memory::HugeBuffer;

/// Most pieces that are kept.
const KEPT: usize = 64;

/// Pieces of memory that wait to be used again.
#[derive(Debug)]
pub(super) struct Pool<T>(Mutex<Vec<T>>);

/// A piece that returns to its pool.
#[derive(Debug)]
pub(super) struct Lent<T> {
    /// There until it is returned.
    piece: Option<T>,
    pool: Arc<Pool<T>>,
}

/// Words on loan.
pub(super) type Words = Lent<HugeBuffer>;

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Pool<T> {
    fn pieces(&self) -> MutexGuard<'_, Vec<T>> {
        // Whoever panicked left whole pieces.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Default> Pool<T> {
    /// Any piece.
    pub(super) fn any(self: &Arc<Self>) -> Lent<T> {
        let piece = self.pieces().pop();
        Lent { piece: Some(piece.unwrap_or_default()), pool: Arc::clone(self) }
    }
}

impl Pool<HugeBuffer> {
    /// So many words, of any content.
    ///
    /// # Errors
    /// [`BackendError::Unavailable`] if there is no memory for `what`, or more than any number is needed.
    pub(super) fn words(self: &Arc<Self>, count: Option<usize>, what: &str) -> Result<Words, BackendError> {
        let fitting = {
            let mut pieces = self.pieces();
            let fitting = pieces.iter().position(|piece| Some(piece.as_words().len()) == count);
            fitting.map(|i| pieces.swap_remove(i))
        };
        let piece = fitting.map_or_else(|| HugeBuffer::words(count, what), Ok)?;
        Ok(Lent { piece: Some(piece), pool: Arc::clone(self) })
    }
}

impl<T> Drop for Lent<T> {
    fn drop(&mut self) {
        let mut pieces = self.pool.pieces();
        if pieces.len() == KEPT {
            pieces.remove(0);
        }
        pieces.extend(self.piece.take());
    }
}

impl<T> Deref for Lent<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.piece.as_ref().expect("a piece on loan")
    }
}

impl<T> DerefMut for Lent<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.piece.as_mut().expect("a piece on loan")
    }
}
