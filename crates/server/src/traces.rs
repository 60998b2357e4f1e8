//! Traces of requests, sent to a collector as JSON by OTLP over HTTP.
//!
//! A trace describes a request; for a query also its waiting time and its computation. A trace
//! contains the data of metrics (method, endpoint, database, status and batch size), the times, and
//! a random id. It contains nothing of a query, a token or an address. A slow or missing collector
//! costs traces, never a request.

use std::fmt;
use std::io;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::http::uri::{Authority, PathAndQuery, Scheme, Uri};
use axum::http::{Request, StatusCode, header};
use http_body_util::Full;
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use prometheus::IntCounter;
use serde_json::{Value, json};
use spirea_engine::TraceContext;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

/// Limits for traces that wait or are being sent: their number and their bytes in memory. Traces
/// above the limits are dropped.
const WAITING: usize = 4096;
const WAITING_BYTES: usize = 16 << 20;
/// Maximum number of traces in one request to the collector.
const BATCH: usize = 512;
/// Time for which the first trace of a batch waits for others.
const PAUSE: Duration = Duration::from_secs(1);
/// Timeout for sending a batch.
const PATIENCE: Duration = Duration::from_secs(5);
/// Path for traces, appended to a collector's address.
const PATH: &str = "/v1/traces";
/// Kinds of spans: internal work of the server, and an answered request.
const INTERNAL: u32 = 1;
const SERVER: u32 = 2;
/// Status of a failed span.
const ERROR: u32 = 2;

/// The address of a collector, such as `http://127.0.0.1:4318`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collector {
    authority: Authority,
    path: PathAndQuery,
}

impl FromStr for Collector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted =
            || "a collector's address is one such as http://127.0.0.1:4318, without a password".to_owned();
        let uri: Uri = text.parse().map_err(|_| wanted())?;
        let authority = uri.authority().filter(|authority| !authority.as_str().contains('@'));
        match (uri.scheme(), authority, uri.query()) {
            (Some(scheme), Some(authority), None) if *scheme == Scheme::HTTP => {
                let path = format!("{}{PATH}", uri.path().trim_end_matches('/'));
                let path = path.parse().map_err(|_| wanted())?;
                Ok(Self { authority: authority.clone(), path })
            }
            (Some(scheme), Some(_), None) if *scheme == Scheme::HTTPS => {
                Err("traces are sent without TLS: run a collector on this machine, which sends them on"
                    .into())
            }
            _ => Err(wanted()),
        }
    }
}

impl fmt::Display for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.authority, self.path)
    }
}

/// Computation of a query, as reported by its response.
#[derive(Clone, Copy)]
pub(crate) struct Stages {
    /// Time from the request's admission to the beginning of the computation.
    pub waited: Duration,
    /// Time of the computation, for the whole batch.
    pub compute: Duration,
    /// Number of queries that were computed together.
    pub batch: usize,
    /// End of the computation.
    pub ended: std::time::Instant,
}

/// A request that has its response.
pub(crate) struct Trace {
    /// Id of the trace and of the request's span.
    pub context: TraceContext,
    pub method: &'static str,
    /// Path pattern, with names in braces in place of client input.
    pub endpoint: String,
    /// Database; empty if the request named no existing one.
    pub database: String,
    pub status: u16,
    pub began: SystemTime,
    pub took: Duration,
    /// For an answered query: its stages, and the end of its computation relative to the beginning
    /// of the request.
    pub stages: Option<(Stages, Duration)>,
}

impl Trace {
    /// Returns the spans: the request and, if there was a computation, the wait and the
    /// computation.
    fn spans(self) -> Vec<Span> {
        let Self { context, method, endpoint, database, status, began, took, stages } = self;
        let name = format!("{method} {endpoint}");
        let within = |name: &str, begins: Duration, took: Duration, attributes| Span {
            context: TraceContext { span: drawn(), ..context },
            parent: Some(context.span),
            name: name.into(),
            kind: INTERNAL,
            began: began + begins,
            took,
            attributes,
            failed: false,
        };
        let stages = stages.map(|(stages, ended)| {
            let begun = ended.saturating_sub(stages.compute);
            let batch = vec![number("spirea.batch.queries", stages.batch as u64)];
            let wait = within("wait", begun.saturating_sub(stages.waited), stages.waited, Vec::new());
            [wait, within("compute", begun, stages.compute, batch)]
        });
        let attributes = vec![
            text("http.request.method", method),
            text("http.route", &endpoint),
            number("http.response.status_code", status.into()),
            text("spirea.database", &database),
        ];
        let failed = status >= 500;
        let whole = Span { context, parent: None, name, kind: SERVER, began, took, attributes, failed };
        [whole].into_iter().chain(stages.into_iter().flatten()).collect()
    }
}

/// A span of a trace.
pub struct Span {
    context: TraceContext,
    parent: Option<[u8; 8]>,
    name: String,
    kind: u32,
    began: SystemTime,
    took: Duration,
    attributes: Vec<Value>,
    failed: bool,
}

impl Span {
    /// Creates the span of work for another server's request, as a child of the span that the
    /// request named. The span has the endpoint, the database's name and the number of queries.
    pub fn within(
        parent: TraceContext,
        endpoint: &str,
        (began, took): (SystemTime, Duration),
        (database, queries): (&str, usize),
    ) -> Self {
        Self {
            context: TraceContext { span: drawn(), ..parent },
            parent: Some(parent.span),
            name: endpoint.into(),
            kind: SERVER,
            began,
            took,
            attributes: vec![
                text("spirea.database", database),
                number("spirea.batch.queries", queries as u64),
            ],
            failed: false,
        }
    }

    /// Returns the approximate bytes that the span takes while it waits; each attribute is a tree
    /// of a few small values.
    fn bytes(&self) -> usize {
        const ATTRIBUTE_BYTES: usize = 512;
        let words = self.attributes.iter().filter_map(|attribute| attribute["value"]["stringValue"].as_str());
        size_of::<Self>()
            + self.name.len()
            + self.attributes.len() * ATTRIBUTE_BYTES
            + words.map(str::len).sum::<usize>()
    }

    fn to_json(&self) -> Value {
        let at =
            |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_string();
        let mut span = json!({
            "traceId": hex::encode(self.context.trace),
            "spanId": hex::encode(self.context.span),
            "name": self.name,
            "kind": self.kind,
            "startTimeUnixNano": at(self.began),
            "endTimeUnixNano": at(self.began + self.took),
            "attributes": self.attributes,
        });
        if self.failed {
            span["status"] = json!({ "code": ERROR });
        }
        if let Some(parent) = &self.parent {
            span["parentSpanId"] = json!(hex::encode(parent));
        }
        span
    }
}

/// Returns `N` random bytes for an id.
fn drawn<const N: usize>() -> [u8; N] {
    let mut drawn = [0; N];
    // Without randomness all ids are equal: useless but harmless.
    let _ = getrandom::fill(&mut drawn);
    drawn
}

/// Starts a trace with its first span.
pub(crate) fn begin() -> TraceContext {
    TraceContext { trace: drawn(), span: drawn() }
}

enum Message {
    /// Spans of one trace from this process, with their reserved room.
    Spans(Vec<Span>, OwnedSemaphorePermit),
    Flush(oneshot::Sender<()>),
}

/// Queue of spans, sent from a background task.
pub struct Spans {
    sender: mpsc::Sender<Message>,
    room: Arc<Semaphore>,
    dropped: IntCounter,
}

impl Spans {
    /// Starts sending to a collector; counts traces that cannot be sent as dropped. Must be called
    /// inside a Tokio runtime.
    pub fn start(collector: Collector, dropped: IntCounter) -> Self {
        let (spans, receiver) = Self::queue(dropped.clone());
        tokio::spawn(Exporter { collector, receiver, dropped, failing: false }.run());
        spans
    }

    /// Returns an empty queue and its output end.
    fn queue(dropped: IntCounter) -> (Self, mpsc::Receiver<Message>) {
        let (sender, receiver) = mpsc::channel(WAITING);
        (Self { sender, room: Arc::new(Semaphore::new(WAITING_BYTES)), dropped }, receiver)
    }

    /// Queues the spans of one trace if there is room.
    pub fn take(&self, spans: Vec<Span>) {
        let bytes = spans.iter().map(Span::bytes).sum::<usize>().try_into().unwrap_or(u32::MAX);
        let room = Arc::clone(&self.room).try_acquire_many_owned(bytes).ok();
        let taken = room.and_then(|room| self.sender.try_send(Message::Spans(spans, room)).ok());
        if taken.is_none() {
            self.dropped.inc();
        }
    }

    /// Queues a request's trace if there is room.
    pub(crate) fn take_trace(&self, trace: Trace) {
        self.take(trace.spans());
    }

    /// Sends all queued spans, for a few seconds at most.
    pub async fn flush(&self) {
        let (sent, done) = oneshot::channel();
        let flush = async {
            if self.sender.send(Message::Flush(sent)).await.is_ok() {
                let _ = done.await;
            }
        };
        let _ = tokio::time::timeout(PATIENCE, flush).await;
    }
}

struct Exporter {
    collector: Collector,
    receiver: mpsc::Receiver<Message>,
    dropped: IntCounter,
    /// True if the last batch was not taken, so that this is logged once and not every second.
    failing: bool,
}

impl Exporter {
    async fn run(mut self) {
        while let Some(first) = self.receiver.recv().await {
            let (mut traces, mut rooms, mut flushed) = (Vec::new(), Vec::new(), None);
            let mut next = Some(first);
            let pause = tokio::time::sleep(PAUSE);
            tokio::pin!(pause);
            while let Some(message) = next {
                match message {
                    Message::Spans(spans, room) => {
                        traces.push(spans);
                        rooms.push(room);
                    }
                    Message::Flush(sent) => flushed = Some(sent),
                }
                next = if traces.len() == BATCH || flushed.is_some() {
                    None
                } else {
                    tokio::select! {
                        () = &mut pause => None,
                        message = self.receiver.recv() => message,
                    }
                };
            }
            if !traces.is_empty() {
                self.send(&traces).await;
            }
            drop(rooms);
            if let Some(sent) = flushed {
                // The caller of `flush` may be gone.
                let _ = sent.send(());
            }
        }
    }

    async fn send(&mut self, traces: &[Vec<Span>]) {
        let sent = tokio::time::timeout(PATIENCE, post(&self.collector, document(traces).to_string())).await;
        let outcome = sent.unwrap_or_else(|elapsed| Err(elapsed.into()));
        if outcome.is_err() {
            self.dropped.inc_by(traces.len() as u64);
        }
        match (&outcome, self.failing) {
            (Err(error), false) => {
                tracing::warn!(%error, collector = %self.collector, "traces are dropped: the collector takes none");
            }
            (Ok(()), true) => tracing::info!("the collector takes traces again"),
            _ => (),
        }
        self.failing = outcome.is_err();
    }
}

/// Sends a document; an error unless the collector accepts it.
async fn post(collector: &Collector, body: String) -> io::Result<()> {
    let authority = collector.authority.as_str();
    let port = collector.authority.port_u16().unwrap_or(80);
    let host = collector.authority.host().trim_matches(['[', ']']);
    let stream = TcpStream::connect((host, port)).await?;
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    let request = Request::post(collector.path.as_str())
        .header(header::HOST, authority)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::CONNECTION, "close")
        .body(Full::new(bytes::Bytes::from(body)))
        .map_err(io::Error::other)?;
    // The connection ends with the exchange, which reports the connection's errors.
    tokio::spawn(connection);
    let status = sender.send_request(request).await.map_err(io::Error::other)?.status();
    // Details about single spans in the reply are of no use here.
    match status {
        StatusCode::OK => Ok(()),
        status => Err(io::Error::other(format!("it answered with status {status}"))),
    }
}

/// Returns spans in the collector's format.
fn document(traces: &[Vec<Span>]) -> Value {
    let spans: Vec<Value> = traces.iter().flatten().map(Span::to_json).collect();
    let resource = [text("service.name", "spirea"), text("service.version", env!("CARGO_PKG_VERSION"))];
    json!({ "resourceSpans": [{
        "resource": { "attributes": resource },
        "scopeSpans": [{ "scope": { "name": "spirea" }, "spans": spans }],
    }] })
}

fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

fn number(key: &str, value: u64) -> Value {
    json!({ "key": key, "value": { "intValue": value.to_string() } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collectors_have_plain_addresses() {
        for (text, shown) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("http://collector.test:4318/", "http://collector.test:4318/v1/traces"),
            ("http://[::1]:4318/otlp", "http://[::1]:4318/otlp/v1/traces"),
        ] {
            assert_eq!(text.parse::<Collector>().unwrap().to_string(), shown);
        }
        for wrong in
            ["", "127.0.0.1:4318", "http://", "http://me:secret@host", "ftp://host", "http://host/?a=b"]
        {
            let error = wrong.parse::<Collector>().unwrap_err();
            assert!(error.contains("http://127.0.0.1:4318") && !error.contains("secret"), "{wrong}: {error}");
        }
        assert!("https://host".parse::<Collector>().unwrap_err().contains("TLS"));
    }

    #[test]
    fn traces_that_nobody_collects_take_bounded_memory() {
        const REQUESTS: usize = 1000;
        let dropped = IntCounter::new("dropped", "traces").unwrap();
        let (queue, mut collected) = Spans::queue(dropped.clone());
        let long = "x".repeat(64 << 10);
        let take = || {
            queue.take_trace(Trace {
                context: begin(),
                method: "GET",
                endpoint: long.clone(),
                database: String::new(),
                status: 200,
                began: UNIX_EPOCH,
                took: Duration::ZERO,
                stages: None,
            });
        };
        (0..REQUESTS).for_each(|_| take());
        let mut kept = Vec::new();
        while let Ok(Message::Spans(spans, room)) = collected.try_recv() {
            kept.push((spans, room));
        }
        // Each span has its endpoint as a name and as an attribute.
        let words = kept.len() * 2 * long.len();
        assert!(words <= WAITING_BYTES && words > WAITING_BYTES * 9 / 10, "{words}");
        assert_eq!(kept.len() + dropped.get() as usize, REQUESTS);
        take();
        assert!(collected.try_recv().is_err(), "there is room before any was sent");
        drop(kept);
        take();
        assert!(collected.try_recv().is_ok(), "there is no room after all were sent");
    }
}
