//! Buffers that are used again.
//!
//! The system clears every page that it hands out, which for the leaves of a query takes as long as a quarter of
//! their computation. Buffers of leaves and ciphertexts therefore go back to the tables they belong to, up to as
//! many as the largest batch had.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

use spirea_backend::BackendError;

use crate::matrix::HugeBuffer;

/// Most buffers that are kept.
const KEPT: usize = 64;

/// Buffers that wait to be used again.
#[derive(Debug, Default)]
pub(super) struct Pool(Mutex<Vec<HugeBuffer>>);

/// Words that return to their pool.
#[derive(Debug)]
pub(super) struct Words {
    buffer: Option<HugeBuffer>,
    pool: Arc<Pool>,
}

impl Pool {
    /// So many words, of any content.
    ///
    /// # Errors
    /// [`BackendError::Unavailable`] if there is no memory for `what`, or None is said to be needed.
    pub(super) fn take(self: &Arc<Self>, count: Option<usize>, what: &str) -> Result<Words, BackendError> {
        let used = {
            let mut buffers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let fitting = buffers.iter().position(|buffer| Some(buffer.as_words().len()) == count);
            fitting.map(|i| buffers.swap_remove(i))
        };
        let buffer = used.map_or_else(|| HugeBuffer::words(count, what), Ok)?;
        Ok(Words { buffer: Some(buffer), pool: Arc::clone(self) })
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        let mut buffers = self.pool.0.lock().unwrap_or_else(PoisonError::into_inner);
        if buffers.len() == KEPT {
            buffers.remove(0);
        }
        buffers.extend(self.buffer.take());
    }
}

impl Deref for Words {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        self.buffer.as_ref().map_or(&[], HugeBuffer::as_words)
    }
}

impl DerefMut for Words {
    fn deref_mut(&mut self) -> &mut [u32] {
        self.buffer.as_mut().map_or(&mut [], HugeBuffer::as_words_mut)
    }
}
