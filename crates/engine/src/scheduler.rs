//! When which batch is computed: the direct path.
//!
//! One thread answers one request after another, in order of arrival; a request's queries are one batch.
//! The backend spreads a batch over all cores, so a second thread would gain nothing. The queue is bounded:
//! a request that finds it full is refused at once, with an estimate of when there may be room. A request
//! whose caller has gone leaves the queue at once and frees its place and memory.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use spirea_protocols::{PreparedKeys, Query};
use tokio::sync::oneshot;

use crate::{Database, EngineError};

/// The answers of a batch.
#[derive(Debug)]
pub struct Answers {
    /// For each part of the request, one for each query, in order.
    pub answers: Vec<Vec<Bytes>>,
    /// Time of computation for the whole batch.
    pub compute: Duration,
    /// Time spent waiting in the queue.
    pub waited: Duration,
}

type Outcome = Result<Answers, EngineError>;

/// Requests waiting and being answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Requests that wait.
    pub waiting: usize,
    /// Requests that are being answered: 0 or 1.
    pub running: usize,
}

/// The queries of a request to one database.
pub struct Part {
    /// The database.
    pub database: Arc<Database>,
    /// The client's evaluation keys; held until they have been used, whatever the registry drops meanwhile.
    pub keys: Option<PreparedKeys>,
    /// The queries, admitted.
    pub queries: Vec<Bytes>,
}

impl Part {
    fn answer(&self) -> Result<Vec<Bytes>, EngineError> {
        let query = |bytes| Query { bytes, keys: self.keys.as_ref() };
        self.database.answer(&self.queries.iter().map(|bytes| query(bytes)).collect::<Vec<_>>())
    }
}

struct Job {
    id: u64,
    parts: Vec<Part>,
    admitted: Instant,
    reply: oneshot::Sender<Outcome>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Job>,
    running: usize,
    next_id: u64,
    stopped: bool,
    /// A moving average of the time that a batch takes.
    batch_seconds: f64,
}

struct Shared {
    queue: Mutex<Queue>,
    arrived: Condvar,
    capacity: usize,
}

impl Shared {
    // Nothing that can panic runs under the lock.
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next job, or `None` when the scheduler is gone.
    fn next(&self) -> Option<Job> {
        let mut queue = self.lock();
        loop {
            if queue.stopped {
                return None;
            }
            if let Some(job) = queue.waiting.pop_front() {
                queue.running = 1;
                return Some(job);
            }
            queue = self.arrived.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn finished(&self, compute: Duration) {
        /// Weight of the latest batch in the average.
        const LATEST: f64 = 0.2;
        let mut queue = self.lock();
        queue.running = 0;
        queue.batch_seconds += LATEST * (compute.as_secs_f64() - queue.batch_seconds);
    }

    fn work(&self) {
        while let Some(Job { parts, admitted, reply, .. }) = self.next() {
            let started = Instant::now();
            // A responder has no state that a query changes, so nothing is left half changed by a panic.
            let outcome = catch_unwind(AssertUnwindSafe(|| parts.iter().map(Part::answer).collect()));
            let compute = started.elapsed();
            drop(parts);
            self.finished(compute);
            let outcome = outcome.unwrap_or(Err(EngineError::Panicked));
            let waited = started - admitted;
            // A caller that has gone wants no answer.
            let _ = reply.send(outcome.map(|answers| Answers { answers, compute, waited }));
        }
    }
}

/// The queue and its thread. Dropping it ends the thread after the batch at hand; requests that still wait
/// fail with [`EngineError::Stopping`].
pub(crate) struct Scheduler(Arc<Shared>);

impl Scheduler {
    /// A scheduler in which at most `capacity` requests wait, at least 1.
    pub fn new(capacity: usize) -> std::io::Result<Self> {
        let shared =
            Arc::new(Shared { queue: Mutex::default(), arrived: Condvar::new(), capacity: capacity.max(1) });
        let worker = Arc::clone(&shared);
        std::thread::Builder::new().name("spirea-answer".into()).spawn(move || worker.work())?;
        Ok(Self(shared))
    }

    /// Admits a batch whose lengths have been checked.
    pub fn submit(&self, parts: Vec<Part>) -> Result<Ticket, EngineError> {
        let mut queue = self.0.lock();
        if queue.waiting.len() >= self.0.capacity {
            let ahead = (queue.waiting.len() + queue.running) as f64;
            let seconds = (ahead * queue.batch_seconds).ceil().clamp(1.0, 60.0);
            return Err(EngineError::Overloaded { retry_after: Duration::from_secs(seconds as u64) });
        }
        let id = queue.next_id;
        queue.next_id += 1;
        let (reply, outcome) = oneshot::channel();
        queue.waiting.push_back(Job { id, parts, admitted: Instant::now(), reply });
        drop(queue);
        self.0.arrived.notify_one();
        Ok(Ticket { id, shared: Arc::clone(&self.0), outcome })
    }

    pub fn load(&self) -> Load {
        let queue = self.0.lock();
        Load { waiting: queue.waiting.len(), running: queue.running }
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        let abandoned = {
            let mut queue = self.0.lock();
            queue.stopped = true;
            std::mem::take(&mut queue.waiting)
        };
        drop(abandoned);
        self.0.arrived.notify_one();
    }
}

/// An admitted request: a future of its answers. Dropping it gives its place up, unless it is already being
/// answered.
pub struct Ticket {
    id: u64,
    shared: Arc<Shared>,
    outcome: oneshot::Receiver<Outcome>,
}

impl Future for Ticket {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        Pin::new(&mut self.outcome).poll(context).map(|outcome| outcome.unwrap_or(Err(EngineError::Stopping)))
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let abandoned = {
            let mut queue = self.shared.lock();
            let place = queue.waiting.iter().position(|job| job.id == self.id);
            place.and_then(|place| queue.waiting.remove(place))
        };
        drop(abandoned);
    }
}
