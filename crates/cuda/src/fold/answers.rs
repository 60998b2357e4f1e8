//! Host memory that receives answers.

use std::sync::{Mutex, PoisonError};

use spirea_backend::BackendError;

use crate::driver::{Pinned, Stream, View};

/// Pinned buffer, as large as the largest answers so far.
#[derive(Debug, Default)]
pub(crate) struct Arrivals(Mutex<Option<Pinned<u32>>>);

impl Arrivals {
    /// Returns the values, after all queued work.
    pub(super) fn download(&self, stream: &Stream, from: &View<'_, u32>) -> Result<Vec<u32>, BackendError> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = kept.take().filter(|pinned| pinned.len() >= from.len());
        let pinned = match fits {
            Some(pinned) => kept.insert(pinned),
            None => kept.insert(Pinned::new(stream.device(), from.len())?),
        };
        stream.download(from, &mut pinned[..from.len()])?;
        Ok(pinned[..from.len()].to_vec())
    }
}
