use std::sync::Arc;
use std::time::Duration;

/// A clock that only goes forward. Clones go together.
///
/// A client asks it how old its keys are, when a pause is over, and what look-ups cost. Nothing of a look-up's content
/// follows from it.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Duration + Send + Sync>);

impl Clock {
    /// A clock that `now` reads: the time since a moment of its choice, which never becomes less.
    pub fn new(now: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// The system's, which on most systems stands still while the machine is suspended.
    #[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
    pub fn system() -> Self {
        let start = std::time::Instant::now();
        Self::new(move || start.elapsed())
    }

    /// The time since the clock's moment.
    pub fn now(&self) -> Duration {
        self.0()
    }
}
