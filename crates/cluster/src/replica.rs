//! A worker as its coordinator sees it: a connection, held while the worker is placed and until it
//! has answered all requests; the worker's state, and its standing.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::RETRY_AFTER;
use hyper::{Method, Request, Response, StatusCode};
use parking_lot::{Mutex, MutexGuard};
use spirea_backend::Share;
use spirea_engine::TraceContext;
use spirea_protocols::{BatchDigest, KeysHash, Partial, Version};
use spirea_server::expired;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::connection::{self, Connection, MAX_STATUS_BYTES, PATIENCE, Sender, line, read, send, told};
use crate::report::{ReplicaReport, ReplicaState};
use crate::standing::{Offence, Standing};
use crate::status::{ShareState, ShareStatus};
use crate::times::Latest;
use crate::tls::MutualTls;

/// Interval between status requests to a worker.
const POLL: Duration = Duration::from_millis(250);
/// Maximum time for a draining worker to finish its batches.
const DRAIN: Duration = Duration::from_secs(60);
/// Pauses between attempts to reach a worker.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(1)];
const MISREAD: &str = "it refused queries that the coordinator has read";
/// Maximum number of key hashes remembered per worker. Above it the set is cleared and keys are
/// sent again.
const MOST_KNOWN_KEYS: usize = 1 << 20;
/// Upper bound for the queue length that a worker reports; longer ones count as this length.
const MOST_QUEUED: usize = 1 << 16;

/// Version and share that a replica must serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Expected {
    pub version: Version,
    pub share: Share,
}

/// A batch for a share.
pub(crate) struct Ask {
    /// Encoded [`spirea_wire::ShareRequest`].
    pub request: Bytes,
    /// Number of queries.
    pub queries: usize,
    /// Evaluation keys that the queries name, if a share needs them: hash and bytes.
    pub keys: Vec<(KeysHash, Bytes)>,
    /// Trace to which the batch belongs.
    pub trace: Option<TraceContext>,
    /// Digest by which partials name the batch.
    pub batch: BatchDigest,
}

/// Reason why a replica sent no partial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The replica is overloaded or ends.
    Busy,
    /// The replica cannot be reached, or the connection was lost.
    Lost(String),
    /// The replica failed on the batch.
    Failed(String),
    /// The replica refused queries that the coordinator had parsed.
    Misread(String),
}

/// End of a connection.
enum Ended {
    /// The worker gets no more requests, and has answered all earlier ones.
    Done,
    /// Requests under way are lost.
    Broken(String),
    /// The worker takes no requests, or is not the expected one. If it drains, it still answers
    /// requests under way.
    Refused(String),
}

/// State of the connection.
struct Link {
    state: ReplicaState,
    cause: Option<String>,
    sender: Option<Sender>,
    /// True if the worker gets no more requests.
    left: bool,
    queue: usize,
    /// Hashes of the keys that the worker has received.
    known: HashSet<KeysHash>,
    latest: Latest,
    standing: Standing,
}

/// Counters of requests to a replica.
#[derive(Default)]
struct Counts {
    asked: AtomicU64,
    hedges: AtomicU64,
    failures: AtomicU64,
}

/// A worker that serves a share, or should.
pub(crate) struct Replica {
    url: String,
    expected: Expected,
    link: Mutex<Link>,
    counts: Counts,
    /// True until a batch has been drawn for comparing its partial with another replica's.
    new: AtomicBool,
    /// Notified when the replica becomes available or unavailable.
    changed: Arc<Notify>,
}

impl Replica {
    /// Creates a replica and starts connecting to it on `runtime`.
    pub fn connect(
        url: &str,
        expected: Expected,
        tls: &Arc<MutualTls>,
        changed: &Arc<Notify>,
        runtime: &tokio::runtime::Handle,
    ) -> Arc<Self> {
        let link = Link {
            state: ReplicaState::Connecting,
            cause: None,
            sender: None,
            left: false,
            queue: 0,
            known: HashSet::new(),
            latest: Latest::default(),
            standing: Standing::default(),
        };
        let replica = Arc::new(Self {
            url: url.into(),
            expected,
            link: Mutex::new(link),
            counts: Counts::default(),
            new: AtomicBool::new(true),
            changed: Arc::clone(changed),
        });
        runtime.spawn(Arc::clone(&replica).attend(Arc::clone(tls)));
        replica
    }

    /// Sends no more requests. Requests under way go on; if the connection is lost, another replica
    /// is asked.
    pub fn leave(&self) {
        let mut link = self.link();
        (link.left, link.state, link.sender) = (true, ReplicaState::Draining, None);
        drop(link);
        self.changed.notify_waiters();
    }

    /// Returns the worker's address.
    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn state(&self) -> ReplicaState {
        self.link().state
    }

    /// Returns the sort key for choosing a replica. Its first part is `true` if the share's other
    /// replicas are preferred; its second part is the expected seconds of a batch.
    pub fn rank(&self) -> (bool, f64) {
        let (link, now) = (self.link(), Instant::now());
        (link.standing.avoided(now).is_some(), link.standing.burden(link.queue, now))
    }

    /// Ranks the share's other replicas before this one for a while.
    pub fn offend(&self, offence: Offence, why: &str) {
        self.link().standing.offend(offence, why, Instant::now());
        if offence == Offence::Lie {
            tracing::warn!(replica = %self.url, %why, "others are asked first");
        }
    }

    fn in_flight(&self) -> usize {
        self.link().standing.in_flight()
    }

    /// Counts a request sent here because another replica was slow.
    pub fn note_hedge(&self) {
        self.counts.hedges.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that a batch has been drawn for comparing its partial with another replica's.
    pub fn note_drawn(&self) {
        self.new.store(false, Ordering::Relaxed);
    }

    /// Returns true if no batch has been drawn yet.
    pub fn is_new(&self) -> bool {
        self.new.load(Ordering::Relaxed)
    }

    /// Reports the state.
    pub fn report(&self) -> ReplicaReport {
        let link = self.link();
        let millis = |share| link.latest.quantile(share).map(|time| time.as_secs_f64() * 1e3);
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ReplicaReport {
            url: self.url.clone(),
            state: link.state,
            cause: link.cause.clone(),
            avoided: link.standing.avoided(Instant::now()).map(Into::into),
            queue: link.queue,
            in_flight: link.standing.in_flight(),
            p50_ms: millis(0.5),
            p99_ms: millis(0.99),
            requests: count(&self.counts.asked),
            hedges: count(&self.counts.hedges),
            failures: count(&self.counts.failures),
        }
    }

    /// Returns the replica's partial of a batch, `bytes` long. Dropping the future cancels the
    /// request.
    pub async fn partial(&self, ask: &Ask, bytes: usize) -> Result<Partial, Refusal> {
        let in_flight = InFlight::new(self);
        let outcome = self.uncounted(ask, bytes).await;
        match &outcome {
            Ok(_) => in_flight.answered(),
            Err(refusal) => in_flight.refused(refusal),
        }
        outcome
    }

    /// Returns the replica's partial of a batch, `bytes` long, without an influence on its counts,
    /// its times or its standing.
    pub async fn uncounted(&self, ask: &Ask, bytes: usize) -> Result<Partial, Refusal> {
        self.give_keys(ask).await?;
        let mut response = self.post(ask).await?;
        if response.status() == StatusCode::FAILED_DEPENDENCY {
            // The worker has evicted the keys, or was restarted.
            ask.keys.iter().for_each(|(hash, _)| {
                self.link().known.remove(hash);
            });
            self.give_keys(ask).await?;
            response = self.post(ask).await?;
        }
        match response.status() {
            StatusCode::OK => {
                let body = read(response, bytes).await.map_err(Refusal::Lost)?;
                self.checked(body, ask, bytes)
            }
            StatusCode::UNPROCESSABLE_ENTITY => {
                let body = read(response, MAX_STATUS_BYTES).await.map_err(Refusal::Lost)?;
                Err(Refusal::Misread(line(&body)))
            }
            _ => Err(refused(response).await),
        }
    }

    /// Checks that the body is a partial of the batch and of this share.
    fn checked(&self, body: Bytes, ask: &Ask, bytes: usize) -> Result<Partial, Refusal> {
        let found = body.len();
        match Partial::from_bytes(body.into()) {
            Ok(partial)
                if found == bytes && partial.share() == self.expected.share && partial.is_of(&ask.batch) =>
            {
                Ok(partial)
            }
            _ => Err(Refusal::Failed(format!(
                "it sent {found} bytes that are not its partial of the batch, of {bytes} bytes"
            ))),
        }
    }

    /// Sends the keys that the worker has not received.
    async fn give_keys(&self, ask: &Ask) -> Result<(), Refusal> {
        for (hash, keys) in &ask.keys {
            if self.link().known.contains(hash) {
                continue;
            }
            let path = format!("/v1/keys/{hash}");
            let response = self.send(Method::PUT, &path, keys.clone(), ask.trace).await?;
            if response.status() != StatusCode::NO_CONTENT {
                return Err(refused(response).await);
            }
            let mut link = self.link();
            if link.known.len() == MOST_KNOWN_KEYS {
                link.known.clear();
            }
            link.known.insert(*hash);
        }
        Ok(())
    }

    async fn post(&self, ask: &Ask) -> Result<Response<Incoming>, Refusal> {
        self.send(Method::POST, "/v1/partial", ask.request.clone(), ask.trace).await
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
        trace: Option<TraceContext>,
    ) -> Result<Response<Incoming>, Refusal> {
        let sender = self.link().sender.clone();
        let sender = sender.ok_or_else(|| Refusal::Lost("it is not connected".into()))?;
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.url));
        if let Some(trace) = trace {
            request = request.header("traceparent", trace.to_string());
        }
        let request = request.body(Full::new(body));
        let request = request.map_err(|error| Refusal::Failed(error.to_string()))?;
        send(sender, request).await.map_err(Refusal::Lost)
    }

    /// Reconnects until the worker gets no more requests and has answered all earlier ones.
    async fn attend(self: Arc<Self>, tls: Arc<MutualTls>) {
        let [mut pause, longest] = PAUSES;
        while !self.link().left {
            match Connection::open(&self.url, &tls).await {
                Ok(connection) => {
                    pause = PAUSES[0];
                    // Dropping the connection fails the requests under way, which then go to
                    // another replica.
                    let Connection { sender, mut driver, expires, tasks: _tasks } = connection;
                    let ended = tokio::select! {
                        ended = &mut driver => match ended {
                            Ok(Some(Err(error))) => Ended::Broken(told(&error)),
                            _ => Ended::Refused("it closed the connection".into()),
                        },
                        // After the expiry, the holder of the certificate's key may no longer be
                        // the worker.
                        () = expired(expires) => Ended::Broken("its certificate has expired".into()),
                        ended = self.watch(sender) => ended,
                    };
                    match ended {
                        Ended::Done => return,
                        Ended::Refused(cause) => {
                            self.drained().await;
                            self.lost(&cause);
                        }
                        Ended::Broken(cause) => self.lost(&cause),
                    }
                }
                Err(cause) => self.lost(&cause),
            }
            sleep(pause).await;
            pause = (pause * 2).min(longest);
        }
    }

    /// If the worker drains, waits until it has answered the requests under way.
    async fn drained(&self) {
        if self.state() == ReplicaState::Draining {
            self.link().sender = None;
            let answered = async {
                while self.in_flight() > 0 {
                    sleep(POLL).await;
                }
            };
            let _ = timeout(DRAIN, answered).await;
        }
    }

    fn lost(&self, cause: &str) {
        // A worker's own words, or the names in a stranger's certificate, may be part of the cause.
        let cause = line(cause.as_bytes());
        let mut link = self.link();
        if link.cause.as_ref() != Some(&cause) {
            tracing::warn!(replica = %self.url, %cause, "a replica cannot be asked");
        }
        (link.state, link.cause, link.sender) = (ReplicaState::Failed, Some(cause), None);
        link.known.clear();
        drop(link);
        self.changed.notify_waiters();
    }

    /// Polls the worker's status until a poll fails or the replica is no longer needed.
    async fn watch(&self, sender: Sender) -> Ended {
        while !self.is_done_with() {
            match timeout(PATIENCE, self.checked_status(sender.clone())).await {
                Err(_) => return Ended::Broken("it does not say how it does".into()),
                Ok(Err(cause)) => return Ended::Refused(cause),
                Ok(Ok(status)) => self.heard(&status, &sender),
            }
            sleep(POLL).await;
        }
        Ended::Done
    }

    /// Returns true if the worker gets no more requests and has answered all.
    fn is_done_with(&self) -> bool {
        let link = self.link();
        link.left && link.standing.in_flight() == 0
    }

    /// Records a status report.
    fn heard(&self, status: &ShareStatus, sender: &Sender) {
        let state = match status.state {
            ShareState::Ready => ReplicaState::Ready,
            ShareState::Draining => ReplicaState::Draining,
        };
        let mut link = self.link();
        if link.left {
            return;
        }
        let before = link.state;
        let queued = status.queue.min(MOST_QUEUED) + status.running.min(1);
        (link.state, link.cause, link.queue) = (state, None, queued);
        link.standing.heard();
        link.sender.get_or_insert_with(|| sender.clone());
        drop(link);
        if before != state {
            tracing::info!(replica = %self.url, ?state, "a replica has changed");
            self.changed.notify_waiters();
        }
    }

    /// Returns the worker's status, if the worker serves the expected share.
    async fn checked_status(&self, sender: Sender) -> Result<ShareStatus, String> {
        let status = connection::status(sender, &self.url).await?;
        let Expected { version, share } = self.expected;
        if status.version != version.to_string()
            || (status.share, status.shares) != (share.index(), share.count())
        {
            return Err(format!(
                "it serves share {}/{} of {}, and share {}/{} of {version} is placed there",
                status.share,
                status.shares,
                status.version,
                share.index(),
                share.count()
            ));
        }
        Ok(status)
    }

    fn link(&self) -> MutexGuard<'_, Link> {
        self.link.lock()
    }
}

/// Returns the refusal that a response states.
async fn refused(response: Response<Incoming>) -> Refusal {
    match response.status() {
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
            if response.headers().contains_key(RETRY_AFTER) =>
        {
            Refusal::Busy
        }
        status => {
            let cause = read(response, MAX_STATUS_BYTES).await.unwrap_or_default();
            Refusal::Failed(format!("status {status}: {}", line(&cause)))
        }
    }
}

/// A request without a response yet. Dropping it cancels the request.
struct InFlight<'a> {
    replica: &'a Replica,
    began: Instant,
    batch: u64,
}

impl<'a> InFlight<'a> {
    fn new(replica: &'a Replica) -> Self {
        replica.counts.asked.fetch_add(1, Ordering::Relaxed);
        let began = Instant::now();
        let batch = replica.link().standing.began(began);
        Self { replica, began, batch }
    }

    fn answered(&self) {
        let mut link = self.replica.link();
        link.latest.note(self.began.elapsed());
        link.standing.answered(self.batch, Instant::now());
    }

    fn refused(&self, refusal: &Refusal) {
        let replica = self.replica;
        replica.link().standing.refused(self.batch);
        match refusal {
            Refusal::Lost(cause) | Refusal::Failed(cause) | Refusal::Misread(cause) => {
                replica.counts.failures.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(replica = %replica.url, %cause, "a replica gave no partial");
            }
            Refusal::Busy => (),
        }
        match refusal {
            Refusal::Failed(cause) => replica.offend(Offence::Fault, cause),
            Refusal::Busy => replica.offend(Offence::Fault, "it has too much to do"),
            Refusal::Misread(cause) => replica.offend(Offence::Lie, &format!("{MISREAD}: {cause}")),
            // A lost connection is reported by the connection itself.
            Refusal::Lost(_) => (),
        }
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.replica.link().standing.given_up(self.batch, Instant::now());
    }
}
