//! Host memory through which queries and answers travel, kept from one batch to the next.

use std::sync::{Arc, Mutex, PoisonError};

use spirea_backend::BackendError;

use crate::driver::{Event, Pinned, Stream, View};

/// Words of queries that the driver takes at the call, of any memory, and copies in the stream's order. More of them
/// it would wait for.
const TAKEN_AT_ONCE: usize = (64 << 10) / 4;

/// Pinned buffers, as large as the largest batch so far.
#[derive(Debug, Default)]
pub(crate) struct Staging {
    queries: Mutex<Queries>,
    answers: Mutex<Option<Pinned<u32>>>,
}

#[derive(Debug, Default)]
struct Queries {
    pinned: Option<Arc<Pinned<u32>>>,
    /// The end of the copy before.
    copied: Option<Event>,
}

impl Staging {
    /// Queues the copy of `queries` to the device. They may change when it returns.
    pub(super) fn upload(
        &self,
        stream: &Stream,
        queries: &[u32],
        to: &View<'_, u32>,
    ) -> Result<(), BackendError> {
        if queries.len() <= TAKEN_AT_ONCE {
            return Ok(stream.upload(queries, to)?);
        }
        let mut staged = self.queries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(copied) = staged.copied.take() {
            copied.wait()?;
        }
        let fits = staged.pinned.take().filter(|pinned| pinned.len() >= queries.len());
        let mut pinned = match fits {
            Some(pinned) => pinned,
            None => Arc::new(Pinned::new(stream.device(), queries.len())?),
        };
        let room = Arc::get_mut(&mut pinned).expect("the staging alone has the buffer");
        room[..queries.len()].copy_from_slice(queries);
        let pinned = staged.pinned.insert(pinned);
        stream.upload_pinned(pinned, 0..queries.len(), to)?;
        staged.copied = Some(stream.record()?);
        Ok(())
    }

    /// The values, when all that is queued is done.
    pub(super) fn download(&self, stream: &Stream, from: &View<'_, u32>) -> Result<Vec<u32>, BackendError> {
        let mut staged = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = staged.take().filter(|pinned| pinned.len() >= from.len());
        let pinned = match fits {
            Some(pinned) => staged.insert(pinned),
            None => staged.insert(Pinned::new(stream.device(), from.len())?),
        };
        stream.download(from, &mut pinned[..from.len()])?;
        Ok(pinned[..from.len()].to_vec())
    }
}
