//! Backends whose operations are observed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::{BackendError, Composed, Operation};

/// Observer of a backend's operations.
pub trait Observer: Send + Sync + 'static {
    /// Runs an operation and returns its result.
    ///
    /// # Errors
    /// Errors of the operation.
    fn observe<T>(
        &self,
        operation: Operation,
        work: impl FnOnce() -> Result<T, BackendError>,
    ) -> Result<T, BackendError>;
}

/// Backend whose operations an observer runs. Protocols run on it unchanged.
pub struct Observed<B, O> {
    inner: Arc<B>,
    observer: Arc<O>,
}

impl<B, O: Default> Observed<B, O> {
    /// Wraps `inner` with a new observer.
    pub fn new(inner: Arc<B>) -> Self {
        Self { inner, observer: Arc::default() }
    }
}

impl<B, O> Observed<B, O> {
    /// Returns the observer.
    pub fn observer(&self) -> &Arc<O> {
        &self.observer
    }
}

impl<B: Send + Sync + 'static, O: Observer> Composed for Observed<B, O> {
    type Rings = B;
    type Shares = B;

    fn rings(&self) -> &B {
        &self.inner
    }

    fn shares(&self) -> &B {
        &self.inner
    }

    fn run<T>(
        &self,
        operation: Operation,
        work: impl FnOnce() -> Result<T, BackendError>,
    ) -> Result<T, BackendError> {
        self.observer.observe(operation, work)
    }
}

/// Clock of steps: the time of each step, by its name in the documentation of steps. Times of
/// several threads are added up. A step ends when the backend returns. If a device continues to
/// work after that, its time counts in the step that waits for it.
#[derive(Debug, Default)]
pub struct StepTimes(Mutex<BTreeMap<&'static str, Duration>>);

impl StepTimes {
    /// Returns the time of each step since the last call, and resets the times.
    pub fn take(&self) -> BTreeMap<&'static str, Duration> {
        std::mem::take(&mut self.0.lock())
    }

    /// Adds `time` to a step.
    pub fn add(&self, step: &'static str, time: Duration) {
        let mut times = self.0.lock();
        *times.entry(step).or_default() += time;
    }
}

impl Observer for StepTimes {
    fn observe<T>(
        &self,
        operation: Operation,
        work: impl FnOnce() -> Result<T, BackendError>,
    ) -> Result<T, BackendError> {
        let started = Instant::now();
        let result = work();
        self.add(operation.step(), started.elapsed());
        result
    }
}

/// A backend with a clock.
pub type Timed<B> = Observed<B, StepTimes>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Backend, NaiveBackend, PanelLayout};

    /// Observer that records operations and their success.
    #[derive(Default)]
    struct Notes(Mutex<Vec<(Operation, bool)>>);

    impl Observer for Notes {
        fn observe<T>(
            &self,
            operation: Operation,
            work: impl FnOnce() -> Result<T, BackendError>,
        ) -> Result<T, BackendError> {
            let result = work();
            self.0.lock().push((operation, result.is_ok()));
            result
        }
    }

    #[test]
    fn observers_see_every_operation_with_its_shape_and_its_end() {
        let backend = Observed::<_, Notes>::new(Arc::new(NaiveBackend));
        let layout = PanelLayout::covering(32, 4).unwrap();
        let matrix = backend.upload(layout, &[1; 128]).unwrap();
        assert_eq!(backend.layout(&matrix), layout);
        assert!(backend.scalar_fold(&matrix, &[1; 3]).is_err());
        let folded = backend.scalar_fold(&matrix, &[1; 8]).unwrap();
        assert_eq!(backend.words(folded).unwrap(), [4; 64]);
        let fold = |words| Operation::ScalarFold { layout, words };
        let seen =
            [(Operation::Upload(layout), true), (fold(3), false), (fold(8), true), (Operation::Words, true)];
        assert_eq!(*backend.observer().0.lock(), seen);
    }

    #[test]
    fn times_are_those_of_steps_until_they_are_taken() {
        let timed = Timed::new(Arc::new(NaiveBackend));
        let matrix = timed.upload(PanelLayout::covering(32, 4).unwrap(), &[1; 128]).unwrap();
        timed.words(timed.scalar_fold(&matrix, &[1; 4]).unwrap()).unwrap();
        let steps: Vec<_> = timed.observer().take().into_keys().collect();
        assert_eq!(steps, ["reinterpret", "scalar_fold"]);
        assert!(timed.observer().take().is_empty());
    }
}
