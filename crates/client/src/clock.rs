use std::sync::Arc;
use std::time::Duration;

/// A clock that only goes forward; clones show the same time.
///
/// With this clock a client measures the age of its keys, its pauses, and the cost of look-ups. The
/// time reveals nothing of a look-up's content.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Duration + Send + Sync>);

impl Clock {
    /// Creates a clock from `now`, which returns the time since a fixed but arbitrary origin and
    /// never decreases.
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

    /// Returns the time since the clock's origin.
    pub fn now(&self) -> Duration {
        self.0()
    }
}
