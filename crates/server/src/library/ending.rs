//! Signal of a server's end, for threads that wait.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// True once the server has ended.
#[derive(Default)]
pub(super) struct Ending {
    ended: Mutex<bool>,
    told: Condvar,
}

impl Ending {
    /// Ends all waits.
    pub fn end(&self) {
        *self.ended.lock() = true;
        self.told.notify_all();
    }

    /// Returns true if the server has ended.
    pub fn has_come(&self) -> bool {
        *self.ended.lock()
    }

    /// Waits for a time, or until the server ends; returns true if it has ended.
    pub fn wait(&self, time: Duration) -> bool {
        let mut ended = self.ended.lock();
        self.told.wait_while_for(&mut ended, |ended| !*ended, time);
        *ended
    }
}
