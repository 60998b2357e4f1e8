//! The host's memory in which answers arrive.

use std::sync::{Mutex, PoisonError};

use spirea_backend::BackendError;

use crate::driver::{Pinned, Stream, View};

/// A pinned buffer, as large as the largest answers so far.
#[derive(Debug, Default)]
pub(crate) struct Arrivals(Mutex<Option<Pinned<u32>>>);

impl Arrivals {
    /// The values, when all that is queued is done.
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
