//! A version's separate queue.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::answer::DatabaseQueries;
use super::queue::{Scheduler, Slots, Ticket};
use super::trace::TraceContext;
use super::{Load, Window};
use crate::EngineError;

/// Retry delay for a client if the system gave no thread.
const THREAD_RETRY: Duration = Duration::from_secs(1);

/// Queue of a version that other machines compute, created by the version's first request. Clones
/// share the queue. It lives until its last clone is dropped; every pending request holds a clone.
#[derive(Clone, Default)]
pub(crate) struct Lane(Arc<OnceLock<Scheduler>>);

impl Lane {
    /// Admits a request to the queue, in which at most `queue` requests wait.
    pub fn submit(
        &self,
        queue: usize,
        slots: impl FnOnce() -> Slots,
        parts: Vec<DatabaseQueries>,
        trace: Option<TraceContext>,
    ) -> Result<Ticket, EngineError> {
        let scheduler = match self.0.get() {
            Some(scheduler) => scheduler,
            None => {
                // The system gave no thread, but may give one later.
                let overloaded = |_| EngineError::Overloaded { retry_after: THREAD_RETRY };
                let made = Scheduler::of_slots(queue, Window::default(), slots()).map_err(overloaded)?;
                // If two requests create a scheduler at the same time, one of the schedulers ends
                // at once.
                self.0.get_or_init(|| made)
            }
        };
        Ok(scheduler.submit_traced(parts, trace)?.keeping(Arc::<OnceLock<Scheduler>>::clone(&self.0)))
    }

    /// Returns the numbers of requests that wait and that are being answered.
    pub fn load(&self) -> Load {
        self.0.get().map(Scheduler::load).unwrap_or_default()
    }

    /// Returns true if the caller has the only clone.
    pub fn is_left(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }
}
