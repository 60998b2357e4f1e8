//! Jobs: the work of calls, on threads of their own, without the interpreter's lock.
//!
//! These threads never wait for the lock to report completion: a waiting caller polls, or watches a
//! descriptor. Hence an exiting interpreter neither waits for these threads nor cuts one off while
//! Rust frames are on its stack.

use std::io::{PipeReader, PipeWriter};
use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use pyo3::prelude::*;
use spirea_store::{Phase, Progress};

use crate::errors::Failure;

/// Interval at which a waiting thread runs signal handlers and reports progress.
const LOOK: Duration = Duration::from_millis(50);
/// Time to wait for stopped work to end.
const GRACE: Duration = Duration::from_secs(1);

/// The jobs of this process. Locked only by threads that hold the interpreter's lock, as a forking
/// thread does. Hence the mutex is free in a newly forked child.
static JOBS: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());
/// True once the interpreter exits.
static EXITING: AtomicBool = AtomicBool::new(false);
/// Number of threads that wait for jobs without the interpreter's lock.
static WAITING: AtomicUsize = AtomicUsize::new(0);

/// Converts a result to a Python object while the lock is held.
type Finish = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

#[derive(Default)]
struct State {
    is_done: bool,
    outcome: Option<Finish>,
    /// Closed when the work is done, so that readers of the other end notice.
    signal: Option<PipeWriter>,
    progress: Option<(String, u64, u64)>,
}

/// State shared by the thread of a job and the threads that wait for it.
#[derive(Default)]
pub struct Shared {
    state: Mutex<State>,
    ended: Condvar,
    stop: Arc<AtomicBool>,
}

impl Shared {
    /// Waits for the work, for at most `at_most`. Returns true if it is done.
    fn wait(&self, at_most: Duration) -> bool {
        let mut state = self.state.lock();
        self.ended.wait_while_for(&mut state, |state| !state.is_done, at_most);
        state.is_done
    }

    fn finish(&self, outcome: Finish) {
        let mut state = self.state.lock();
        state.outcome = Some(outcome);
        state.is_done = true;
        state.signal = None;
        self.ended.notify_all();
    }

    /// Flag that is true when the work must end.
    pub fn stop(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// True if the work must end.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Reports progress.
    pub fn tell(&self, phase: impl Into<String>, done: u64, total: u64) {
        self.state.lock().progress = Some((phase.into(), done, total));
    }
}

impl Progress for Shared {
    fn update(&self, phase: Phase, done: u64, total: u64) {
        self.tell(phase.to_string(), done, total);
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped()
    }
}

/// The process to which an object belongs.
#[derive(Clone, Copy)]
pub struct Owner(u32);

impl Owner {
    /// This process.
    pub fn here() -> Self {
        Self(std::process::id())
    }

    /// True if this is the process that the object belongs to.
    pub fn is_here(self) -> bool {
        self.0 == std::process::id()
    }

    /// Fails in another process: the copy in a forked process has no threads, and its connections
    /// belong to the parent.
    pub fn check(self, what: &str) -> Result<(), Failure> {
        if self.is_here() {
            return Ok(());
        }
        let message = format!(
            "this {what} belongs to process {}, from which this one was forked: its threads and connections did not come along; \
             make a new one here, or start processes by spawn or forkserver",
            self.0
        );
        Err(Failure::new("ForkError", message))
    }
}

/// Work on a thread of its own.
#[pyclass(frozen, module = "spirea._spirea")]
pub struct Job {
    shared: Arc<Shared>,
    reader: Mutex<Option<PipeReader>>,
    owner: Owner,
}

impl Job {
    /// Starts `work`; `convert` makes a Python object of its result.
    pub fn start<T: Send + 'static>(
        py: Python<'_>,
        work: impl FnOnce(&Arc<Shared>) -> Result<T, Failure> + Send + 'static,
        convert: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> PyResult<Self> {
        if EXITING.load(Ordering::Relaxed) {
            return Err(Failure::new("StoppedError", "the interpreter exits").raise(py));
        }
        let shared = Arc::<Shared>::default();
        let of_thread = Arc::clone(&shared);
        let run = move || {
            let outcome: Finish = match catch_unwind(AssertUnwindSafe(|| work(&of_thread))) {
                Ok(Ok(value)) => Box::new(move |py| convert(py, value)),
                Ok(Err(failure)) => Box::new(move |py| Err(failure.raise(py))),
                Err(_) => {
                    let message = "a defect ended the work; standard error has more. Please report it";
                    Box::new(move |py| Err(Failure::new("DefectError", message).raise(py)))
                }
            };
            of_thread.finish(outcome);
        };
        std::thread::Builder::new().name("spirea-job".into()).spawn(run)?;
        let mut jobs = JOBS.lock();
        jobs.retain(|job| job.strong_count() > 0);
        jobs.push(Arc::downgrade(&shared));
        Ok(Self { shared, reader: Mutex::default(), owner: Owner::here() })
    }

    fn own(&self, py: Python<'_>) -> PyResult<()> {
        self.owner.check("call").map_err(|failure| failure.raise(py))
    }
}

#[pymethods]
impl Job {
    /// Waits without the lock, and meanwhile runs signal handlers and calls `report` with the
    /// phase, the amount done, and the total.
    #[pyo3(signature = (report: "Callable[[str, int, int], object] | None" = None) -> "_T")]
    fn wait(&self, py: Python<'_>, report: Option<Bound<'_, PyAny>>) -> PyResult<Py<PyAny>> {
        self.own(py)?;
        loop {
            WAITING.fetch_add(1, Ordering::Relaxed);
            let is_done = py.detach(|| self.shared.wait(LOOK));
            WAITING.fetch_sub(1, Ordering::Relaxed);
            if is_done {
                return self.take(py);
            }
            let mut outcome = py.check_signals();
            let progress = self.shared.state.lock().progress.clone();
            if let (Ok(()), Some(report), Some(progress)) = (&outcome, &report, progress) {
                outcome = report.call1(progress).map(drop);
            }
            if outcome.is_ok() && EXITING.load(Ordering::Relaxed) {
                outcome = Err(Failure::stopped().raise(py));
            }
            if let Err(error) = outcome {
                self.stop();
                py.detach(|| self.shared.wait(GRACE));
                return Err(error);
            }
        }
    }

    /// Takes the result of completed work.
    #[pyo3(signature = () -> "_T")]
    fn take(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.own(py)?;
        let outcome = self.shared.state.lock().outcome.take();
        let missing =
            || Err(Failure::new("DefectError", "the call is not done, or its result was taken").raise(py));
        outcome.map_or_else(missing, |finish| finish(py))
    }

    /// True if the work is done.
    fn is_done(&self, py: Python<'_>) -> PyResult<bool> {
        self.own(py)?;
        Ok(self.shared.state.lock().is_done)
    }

    /// Returns a descriptor that becomes readable when the work is done. It belongs to the job.
    fn fileno(&self, py: Python<'_>) -> PyResult<i32> {
        self.own(py)?;
        let mut kept = self.reader.lock();
        if let Some(reader) = &*kept {
            return Ok(reader.as_raw_fd());
        }
        let (reader, writer) = std::io::pipe()?;
        let mut state = self.shared.state.lock();
        if !state.is_done {
            state.signal = Some(writer);
        }
        Ok(kept.insert(reader).as_raw_fd())
    }

    /// Returns the phase, the amount done and the total that were last reported.
    fn progress(&self, py: Python<'_>) -> PyResult<Option<(String, u64, u64)>> {
        self.own(py)?;
        Ok(self.shared.state.lock().progress.clone())
    }

    /// Asks the work to end. The work stops at its next check.
    fn stop(&self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        // No one will receive the result.
        self.stop();
    }
}

/// Forgets the jobs of the parent process, in a newly forked child. Their threads do not exist
/// here, so an exit of this process must not wait for them.
#[pyfunction]
pub fn forget_all() {
    JOBS.lock().clear();
    WAITING.store(0, Ordering::Relaxed);
}

/// Stops all jobs of this process when the interpreter exits. Waits a moment until they have ended
/// and no thread waits for them, because the interpreter would cut off threads that wait for its
/// lock.
#[pyfunction]
pub fn stop_all(py: Python<'_>) {
    EXITING.store(true, Ordering::Relaxed);
    let jobs = std::mem::take(&mut *JOBS.lock());
    let jobs: Vec<_> = jobs.iter().filter_map(Weak::upgrade).collect();
    jobs.iter().for_each(|job| job.stop.store(true, Ordering::Relaxed));
    let deadline = Instant::now() + 2 * GRACE;
    py.detach(|| {
        for job in jobs {
            job.wait(deadline.saturating_duration_since(Instant::now()));
        }
        while WAITING.load(Ordering::Relaxed) > 0 && Instant::now() < deadline {
            std::thread::sleep(LOOK / 10);
        }
    });
}
