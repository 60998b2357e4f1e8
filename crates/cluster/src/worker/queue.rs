//! Queue of batches that wait for a worker, and the thread that computes them one after another.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use bytes::Bytes;
use spirea_engine::Database;
use spirea_protocols::{Partial, PreparedKeys, ProtocolError, Query};
use spirea_server::Accounted;
use tokio::sync::oneshot;

/// A batch; its queries have the length that the parameters require.
pub(super) struct Batch {
    /// Queries, each with the index of its keys.
    pub queries: Vec<(Option<usize>, Bytes)>,
    /// Keys that the queries name.
    pub keys: Vec<PreparedKeys>,
    /// Memory of the batch, reserved while the batch waits or is computed, even if its coordinator
    /// goes away.
    #[expect(dead_code, reason = "held until dropped")]
    pub memory: Accounted,
}

/// Reason why there is no partial of a batch.
#[derive(Debug)]
pub(super) enum NoPartial {
    /// The queue is full.
    Full,
    /// The protocol or its backend refused.
    Protocol(ProtocolError),
    /// The computation was aborted by a defect.
    Panicked,
}

/// A partial, and the time it took.
pub(super) struct Computed {
    pub partial: Partial,
    pub time: Duration,
}

type Outcome = Result<Computed, NoPartial>;

struct Job {
    batch: Batch,
    reply: oneshot::Sender<Outcome>,
}

#[derive(Default)]
struct Load {
    waiting: AtomicUsize,
    running: AtomicUsize,
}

/// The queue. When it is dropped, its thread computes the waiting batches and ends.
pub(super) struct Queue {
    jobs: SyncSender<Job>,
    load: Arc<Load>,
}

impl Queue {
    /// Creates a queue in which at most `places` batches wait while another one is computed.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn new(database: Arc<Database>, places: usize) -> std::io::Result<Self> {
        let (jobs, waiting) = sync_channel(places.max(1));
        let load = Arc::new(Load::default());
        let of_thread = Arc::clone(&load);
        let work = move || compute(&database, &waiting, &of_thread);
        std::thread::Builder::new().name("spirea-partial".into()).spawn(work)?;
        Ok(Self { jobs, load })
    }

    /// Computes the share's partial of a batch. If the future is dropped, a waiting batch is
    /// skipped.
    pub async fn partial(&self, batch: Batch) -> Outcome {
        let (reply, outcome) = oneshot::channel();
        self.load.waiting.fetch_add(1, Ordering::Relaxed);
        if let Err(error) = self.jobs.try_send(Job { batch, reply }) {
            self.load.waiting.fetch_sub(1, Ordering::Relaxed);
            return Err(match error {
                TrySendError::Full(_) => NoPartial::Full,
                TrySendError::Disconnected(_) => NoPartial::Panicked,
            });
        }
        outcome.await.unwrap_or(Err(NoPartial::Panicked))
    }

    /// Returns the numbers of batches that wait and that are being computed.
    pub fn load(&self) -> (usize, usize) {
        (self.load.waiting.load(Ordering::Relaxed), self.load.running.load(Ordering::Relaxed))
    }
}

fn compute(database: &Database, jobs: &Receiver<Job>, load: &Load) {
    while let Ok(Job { batch, reply }) = jobs.recv() {
        load.waiting.fetch_sub(1, Ordering::Relaxed);
        // Another replica answered first, or the coordinator is gone.
        if reply.is_closed() {
            continue;
        }
        load.running.store(1, Ordering::Relaxed);
        let began = Instant::now();
        let Batch { queries, keys, .. } = &batch;
        let queries: Vec<Query<'_>> = queries
            .iter()
            .map(|(place, bytes)| Query { bytes, keys: place.and_then(|place| keys.get(place)) })
            .collect();
        // A responder has no state that a query changes, so a panic leaves nothing half changed.
        let partial = catch_unwind(AssertUnwindSafe(|| database.partial(&queries)));
        let outcome = match partial {
            Ok(Ok(partial)) => Ok(Computed { partial, time: began.elapsed() }),
            Ok(Err(error)) => Err(NoPartial::Protocol(error)),
            Err(_) => Err(NoPartial::Panicked),
        };
        load.running.store(0, Ordering::Relaxed);
        // The receiver may be gone.
        let _ = reply.send(outcome);
    }
}
