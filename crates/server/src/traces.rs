//! Traces of requests, sent to a collector by OTLP over HTTP, as JSON.
//!
//! A trace is a request, and of a query the time that it waited and that of its computation. It holds what metrics hold,
//! method, endpoint, database, status and batch, and the times: nothing of a query, of a token or of an address, and an
//! identity that is drawn at random. A collector that is slow or gone costs traces, and never a request.

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

/// Traces that wait to be sent, or are being sent, and their bytes in memory; more are dropped.
const WAITING: usize = 4096;
const WAITING_BYTES: usize = 16 << 20;
/// The most that are sent at once.
const BATCH: usize = 512;
/// How long the first of a batch waits for others.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest time for a batch to be taken.
const PATIENCE: Duration = Duration::from_secs(5);
/// Where collectors take traces.
const PATH: &str = "/v1/traces";
/// The kinds of spans: within the server, and what it answers.
const INTERNAL: u32 = 1;
const SERVER: u32 = 2;
/// The status of a span that failed.
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

/// What a query's response tells of its computation.
#[derive(Clone, Copy)]
pub(crate) struct Stages {
    /// From the request's admission to the beginning of the computation.
    pub waited: Duration,
    /// The computation, of the whole batch.
    pub compute: Duration,
    /// Queries that were computed together.
    pub batch: usize,
    /// When it was over.
    pub ended: std::time::Instant,
}

/// A request that has its response.
pub(crate) struct Trace {
    /// What it is called, and its own span.
    pub context: TraceContext,
    pub method: &'static str,
    /// With names in braces in the place of the client's words.
    pub endpoint: String,
    /// Empty where the request named none that exists.
    pub database: String,
    pub status: u16,
    pub began: SystemTime,
    pub took: Duration,
    /// Present for a query that was answered: its stages, and when its computation ended, counted from the beginning of
    /// the request.
    pub stages: Option<(Stages, Duration)>,
}

impl Trace {
    /// The request, and where there is a computation, the wait for it and itself.
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

/// A part of a trace.
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
    /// What a server did for another server's request, within the span that the request named: of an endpoint, with the
    /// database's name and how many queries there were.
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

    /// Bytes that it takes while it waits, about: each attribute is a tree of some small values.
    fn bytes(&self) -> usize {
        const ATTRIBUTE_BYTES: usize = 512;
        let words = self.attributes.iter().filter_map(|attribute| attribute["value"]["stringValue"].as_str());
        size_of::<Self>()
            + self.name.len()
            + self.attributes.len() * ATTRIBUTE_BYTES
            + words.map(str::len).sum::<usize>()
    }

    fn to_json(&self) -> Value {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let at =
            |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_string();
        let mut span = json!({
            "traceId": hex(&self.context.trace),
            "spanId": hex(&self.context.span),
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
            span["parentSpanId"] = json!(hex(parent));
        }
        span
    }
}

/// So many random bytes, for an identity.
fn drawn<const N: usize>() -> [u8; N] {
    let mut drawn = [0; N];
    // Without randomness all have one identity: they are of no use, but do no harm.
    let _ = getrandom::fill(&mut drawn);
    drawn
}

/// A trace that begins, and its first span.
pub(crate) fn begin() -> TraceContext {
    TraceContext { trace: drawn(), span: drawn() }
}

enum Message {
    /// The spans of a trace that this process has, and their room.
    Spans(Vec<Span>, OwnedSemaphorePermit),
    Flush(oneshot::Sender<()>),
}

/// Takes spans, and sends them from a task of its own.
pub struct Spans {
    sender: mpsc::Sender<Message>,
    room: Arc<Semaphore>,
    dropped: IntCounter,
}

impl Spans {
    /// Begins to send to a collector. The traces that cannot be sent are counted as dropped. Called where tasks run.
    pub fn start(collector: Collector, dropped: IntCounter) -> Self {
        let (spans, receiver) = Self::queue(dropped.clone());
        tokio::spawn(Exporter { collector, receiver, dropped, failing: false }.run());
        spans
    }

    /// Returns an empty queue, and the end from which spans are sent.
    fn queue(dropped: IntCounter) -> (Self, mpsc::Receiver<Message>) {
        let (sender, receiver) = mpsc::channel(WAITING);
        (Self { sender, room: Arc::new(Semaphore::new(WAITING_BYTES)), dropped }, receiver)
    }

    /// Takes spans of one trace, if there is room.
    pub fn take(&self, spans: Vec<Span>) {
        let bytes = spans.iter().map(Span::bytes).sum::<usize>().try_into().unwrap_or(u32::MAX);
        let room = Arc::clone(&self.room).try_acquire_many_owned(bytes).ok();
        let taken = room.and_then(|room| self.sender.try_send(Message::Spans(spans, room)).ok());
        if taken.is_none() {
            self.dropped.inc();
        }
    }

    /// Takes a request's trace, if there is room.
    pub(crate) fn take_trace(&self, trace: Trace) {
        self.take(trace.spans());
    }

    /// Sends what waits, for a few seconds at most.
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
    /// Whether the last batch was not taken: said once, not each second.
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
                // Who asked may have gone.
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

/// Sends a document; the collector must take it.
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
    // It ends with the exchange, whose error is told there.
    tokio::spawn(connection);
    let status = sender.send_request(request).await.map_err(io::Error::other)?.status();
    // What it says of single spans is of no use here.
    match status {
        StatusCode::OK => Ok(()),
        status => Err(io::Error::other(format!("it answered with status {status}"))),
    }
}

/// Spans as the collector takes them.
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
        // Each has its endpoint as a name and as an attribute.
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
