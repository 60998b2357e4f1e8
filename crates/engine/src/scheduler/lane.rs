//! A queue of a version's own.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::answer::DatabaseQueries;
use super::queue::{Scheduler, Slots, Ticket};
use super::trace::TraceContext;
use super::{Load, Window};
use crate::EngineError;

/// How long a client waits for a thread that the system refused.
const THREAD_RETRY: Duration = Duration::from_secs(1);

/// A version's queue where others compute: made when the version is first asked. Clones are the same one. It ends with the
/// last of them, and each request in it has one.
#[derive(Clone, Default)]
pub(crate) struct Lane(Arc<OnceLock<Scheduler>>);

impl Lane {
    /// Admits a request to the lane, in which at most `queue` wait.
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
                // The system gives no thread: there may be some later.
                let overloaded = |_| EngineError::Overloaded { retry_after: THREAD_RETRY };
                let made = Scheduler::of_slots(queue, Window::default(), slots()).map_err(overloaded)?;
                // Of two that are made at the same time one ends at once.
                self.0.get_or_init(|| made)
            }
        };
        Ok(scheduler.submit_traced(parts, trace)?.keeping(Arc::<OnceLock<Scheduler>>::clone(&self.0)))
    }

    /// Requests waiting and being answered.
    pub fn load(&self) -> Load {
        self.0.get().map(Scheduler::load).unwrap_or_default()
    }

    /// Whether nobody has it but who asks.
    pub fn is_left(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }
}
