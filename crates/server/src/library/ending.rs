//! Signal of a server's end, for threads that wait.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// True once the server has ended.
#[derive(Default)]
pub(super) struct Ending {
    ended: Mutex<bool>,
    told: Condvar,
}

impl Ending {
    /// Ends all waits.
    pub fn end(&self) {
        *self.locked() = true;
        self.told.notify_all();
    }

    /// Returns true if the server has ended.
    pub fn has_come(&self) -> bool {
        *self.locked()
    }

    /// Waits for a time, or until the server ends; returns true if it has ended.
    pub fn wait(&self, time: Duration) -> bool {
        let waited = self.told.wait_timeout_while(self.locked(), time, |ended| !*ended);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn locked(&self) -> MutexGuard<'_, bool> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
