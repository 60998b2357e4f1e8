//! The bounded queue of requests, and the threads that answer them.

use std::any::Any;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use spirea_batcher::{Batch, Batcher, Full, Load, Next, Request, RequestNumber, Terms, Window};
use tokio::sync::oneshot;

use super::answer::{Clock, Computed, DatabaseQueries, Steps, answer};
use super::trace::{TraceContext, within};
use crate::EngineError;

/// The answers to a request.
#[derive(Debug)]
pub struct Answers {
    /// For each part, an answer for each query, in order.
    pub answers: Vec<Vec<Bytes>>,
    /// Time of computation for the whole batch.
    pub compute: Duration,
    /// Time between the request's arrival and the start of its computation.
    pub waited: Duration,
    /// Number of queries to the first part's database that were computed together, including those
    /// of other clients.
    pub batch: usize,
    /// Times of the computation's steps, by name, if they are measured.
    pub steps: Arc<Steps>,
    /// True if this request represents its batch in counts of batches: true for exactly one of the
    /// requests computed together.
    pub counts: bool,
}

type Outcome = Result<Answers, EngineError>;

struct Job {
    parts: Vec<DatabaseQueries>,
    trace: Option<TraceContext>,
    reply: oneshot::Sender<Outcome>,
}

/// Number of batches that may be computed at the same time; called before each batch.
pub type Slots = Box<dyn Fn() -> usize + Send + Sync>;

struct Queue {
    batcher: Batcher<Job>,
    /// Threads that compute a batch or wait for one.
    threads: usize,
    stopped: bool,
}

struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
    clock: Clock,
    slots: Slots,
}

impl Shared {
    /// Starts a thread that answers requests.
    fn start(self: &Arc<Self>) -> std::io::Result<()> {
        let worker = Arc::clone(self);
        std::thread::Builder::new().name("spirea-answer".into()).spawn(move || worker.work()).map(drop)
    }

    /// Returns the next batch and the time of its launch, or `None` after the scheduler was
    /// dropped.
    fn next(self: &Arc<Self>) -> Option<(Batch<Job>, Duration)> {
        let mut queue = self.queue.lock();
        while !queue.stopped {
            let now = (self.clock)();
            queue.batcher.set_slots((self.slots)());
            match queue.batcher.next(now) {
                Next::Launch(batch) => {
                    self.look_after(&mut queue);
                    return Some((batch, now));
                }
                Next::Idle => self.changed.wait(&mut queue),
                Next::Wait(until) => {
                    self.changed.wait_for(&mut queue, until.saturating_sub(now));
                }
            }
        }
        None
    }

    /// Lets another thread watch the queue if this thread has a batch to compute and a slot is
    /// free.
    fn look_after(self: &Arc<Self>, queue: &mut Queue) {
        if !queue.batcher.has_slot() {
            return;
        }
        if queue.threads > queue.batcher.batches() {
            self.changed.notify_one();
        } else if self.start().is_ok() {
            // If no thread starts, batches take turns on the existing threads.
            queue.threads += 1;
        }
    }

    fn work(self: &Arc<Self>) {
        while let Some((batch, launched)) = self.next() {
            let Batch { number, queries, requests, .. } = batch;
            let (mut parts, mut callers, mut trace) = (Vec::new(), Vec::new(), None);
            for Request { arrived, queries, item: Job { parts: of_request, trace: of_job, reply } } in
                requests
            {
                parts.push(of_request);
                trace = trace.or(of_job);
                callers.push((launched.saturating_sub(arrived), queries, reply));
            }
            let mut outcomes = Vec::with_capacity(callers.len());
            within(trace, || answer(&parts, &self.clock, &mut outcomes));
            if let Some(Ok(Computed { time, requests, .. })) = outcomes.first()
                && *requests == callers.len()
            {
                parts[0][0].database.note(queries, *time);
            }
            drop(parts);
            self.queue.lock().batcher.finished(number);
            tell(callers, outcomes);
        }
    }
}

/// Sends the outcomes to callers, each given by its waiting time, number of queries and channel.
fn tell(
    callers: Vec<(Duration, usize, oneshot::Sender<Outcome>)>,
    outcomes: Vec<Result<Computed, EngineError>>,
) {
    let mut callers = callers.into_iter().zip(outcomes).peekable();
    while let Some((_, outcome)) = callers.peek() {
        // Requests that were computed together are adjacent.
        let together = outcome.as_ref().map_or(1, |computed| computed.requests);
        let group: Vec<_> = callers.by_ref().take(together).collect();
        let batch = group.iter().map(|((_, queries, _), _)| queries).sum();
        let mut counts = true;
        for ((waited, _, reply), outcome) in group {
            let answers = outcome.map(|Computed { answers, time, steps, .. }| Answers {
                answers,
                compute: time,
                steps,
                waited,
                batch,
                counts,
            });
            // A caller that has gone receives no answer, so it cannot represent the batch in
            // counts.
            counts &= reply.send(answers).is_err();
        }
    }
}

/// The queue and its threads. Dropping it ends each thread after its current batch; requests that
/// still wait fail with [`EngineError::Stopping`].
pub struct Scheduler(Arc<Shared>);

impl Scheduler {
    /// Creates a scheduler in which at most `capacity` requests wait, at least 1.
    ///
    /// # Errors
    /// Fails if the system gives no thread.
    pub fn new(capacity: usize, window: Window) -> std::io::Result<Self> {
        Self::of_slots(capacity, window, Box::new(|| 1))
    }

    /// Creates a scheduler that computes as many batches at the same time as there are slots.
    ///
    /// # Errors
    /// Fails if the system gives no thread.
    pub fn of_slots(capacity: usize, window: Window, slots: Slots) -> std::io::Result<Self> {
        let origin = Instant::now();
        Self::start(capacity, window, Arc::new(move || origin.elapsed()), slots)
    }

    /// Creates a scheduler with another clock. It waits for windows in real time and then checks
    /// them on the clock.
    ///
    /// # Errors
    /// Fails if the system gives no thread.
    pub fn with_clock(capacity: usize, window: Window, clock: Clock) -> std::io::Result<Self> {
        Self::start(capacity, window, clock, Box::new(|| 1))
    }

    fn start(capacity: usize, window: Window, clock: Clock, slots: Slots) -> std::io::Result<Self> {
        let queue = Queue { batcher: Batcher::new(window, capacity), threads: 1, stopped: false };
        let shared = Arc::new(Shared { queue: Mutex::new(queue), changed: Condvar::new(), clock, slots });
        shared.start()?;
        Ok(Self(shared))
    }

    /// Admits a request. It shares batches with requests whose first part is for the same database;
    /// that part's queries count towards the size of a batch.
    ///
    /// # Errors
    /// [`EngineError::Malformed`] if it has no parts, [`EngineError::Overloaded`] if the queue is
    /// full.
    pub fn submit(&self, parts: Vec<DatabaseQueries>) -> Result<Ticket, EngineError> {
        self.submit_traced(parts, None)
    }

    /// Admits a request as [`Scheduler::submit`] does, with its trace.
    ///
    /// # Errors
    /// Errors of [`Scheduler::submit`].
    pub fn submit_traced(
        &self,
        parts: Vec<DatabaseQueries>,
        trace: Option<TraceContext>,
    ) -> Result<Ticket, EngineError> {
        let Some(DatabaseQueries { database, queries, .. }) = parts.first() else {
            return Err(EngineError::Malformed("a request without parts".into()));
        };
        let (limit, pace) = (database.max_batch(), database.pace());
        let (terms, queries) = (Terms { group: database.instance(), limit, pace }, queries.len());
        let (reply, outcome) = oneshot::channel();
        let arrived =
            self.0.queue.lock().batcher.arrive((self.0.clock)(), terms, queries, Job { parts, trace, reply });
        match arrived {
            Ok(number) => {
                self.0.changed.notify_one();
                Ok(Ticket { number, shared: Arc::clone(&self.0), outcome, kept: None })
            }
            Err(Full { backlog, .. }) => {
                let seconds = backlog.as_secs_f64().ceil().clamp(1.0, 60.0);
                Err(EngineError::Overloaded { retry_after: Duration::from_secs(seconds as u64) })
            }
        }
    }

    /// Returns the numbers of requests that wait and that are being answered.
    pub fn load(&self) -> Load {
        self.0.queue.lock().batcher.load()
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        let abandoned = {
            let mut queue = self.0.queue.lock();
            queue.stopped = true;
            queue.batcher.drain()
        };
        drop(abandoned);
        self.0.changed.notify_all();
    }
}

/// An admitted request: a future of its answers. Dropping the ticket gives up its place in the
/// queue, unless the request is already being answered.
pub struct Ticket {
    number: RequestNumber,
    shared: Arc<Shared>,
    outcome: oneshot::Receiver<Outcome>,
    /// Value kept alive as long as the ticket.
    kept: Option<Arc<dyn Any + Send + Sync>>,
}

impl Ticket {
    /// Keeps `kept` alive as long as the ticket.
    pub(super) fn keeping(mut self, kept: Arc<dyn Any + Send + Sync>) -> Self {
        self.kept = Some(kept);
        self
    }
}

impl Future for Ticket {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        Pin::new(&mut self.outcome).poll(context).map(|outcome| outcome.unwrap_or(Err(EngineError::Stopping)))
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let abandoned = self.shared.queue.lock().batcher.withdraw(self.number);
        drop(abandoned);
    }
}
