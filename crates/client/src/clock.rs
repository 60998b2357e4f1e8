use std::sync::Arc;
use std::time::Duration;

/// A clock that only goes forward; clones show the same time.
///
/// A client measures with it the age of its keys, the pauses, and the cost of look-ups. The time
/// reveals nothing of a look-up's content.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Duration + Send + Sync>);

impl Clock {
    /// Creates a clock from `now`, which returns the time since a moment of its choice and never
    /// decreases.
    pub fn new(now: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// Creates a clock of the system's time, which on most systems stands still while the machine
    /// is suspended.
    #[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
    pub fn system() -> Self {
        let start = std::time::Instant::now();
        Self::new(move || start.elapsed())
    }

    /// Returns the time since the clock's moment.
    pub fn now(&self) -> Duration {
        self.0()
    }
}
