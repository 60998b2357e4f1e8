//! Traces of requests, sent to a collector by OTLP over HTTP, as JSON.
//!
//! A trace is a request, and of a query the time that it waited and that of its computation. It holds what metrics hold,
//! method, endpoint, database, status and batch, and the times: nothing of a query, of a token or of an address, and an
//! identity that is drawn at random. A collector that is slow or gone costs traces, and never a request.

use std::fmt;
use std::io;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::http::uri::{Authority, PathAndQuery, Scheme, Uri};
use axum::http::{Request, StatusCode, header};
use http_body_util::Full;
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use prometheus::IntCounter;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};

/// Traces that wait to be sent; more are dropped.
const WAITING: usize = 4096;
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
    pub method: String,
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

enum Message {
    Trace(Box<Trace>),
    Flush(oneshot::Sender<()>),
}

/// Takes traces, and sends them from a task of its own.
pub(crate) struct Traces {
    sender: mpsc::Sender<Message>,
    dropped: IntCounter,
}

impl Traces {
    /// Begins to send to a collector. What cannot be sent is counted as dropped.
    pub fn start(collector: Collector, dropped: IntCounter) -> Self {
        let (sender, receiver) = mpsc::channel(WAITING);
        tokio::spawn(Exporter { collector, receiver, dropped: dropped.clone(), failing: false }.run());
        Self { sender, dropped }
    }

    /// Takes a trace, if there is room.
    pub fn take(&self, trace: Trace) {
        if self.sender.try_send(Message::Trace(Box::new(trace))).is_err() {
            self.dropped.inc();
        }
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
            let (mut traces, mut flushed) = (Vec::new(), None);
            let mut next = Some(first);
            let pause = tokio::time::sleep(PAUSE);
            tokio::pin!(pause);
            while let Some(message) = next {
                match message {
                    Message::Trace(trace) => traces.push(*trace),
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
            if let Some(sent) = flushed {
                // Who asked may have gone.
                let _ = sent.send(());
            }
        }
    }

    async fn send(&mut self, traces: &[Trace]) {
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

/// Traces as the collector takes them.
fn document(traces: &[Trace]) -> Value {
    let spans: Vec<Value> = traces.iter().flat_map(spans).collect();
    let resource = [text("service.name", "spirea"), text("service.version", env!("CARGO_PKG_VERSION"))];
    json!({ "resourceSpans": [{
        "resource": { "attributes": resource },
        "scopeSpans": [{ "scope": { "name": "spirea" }, "spans": spans }],
    }] })
}

/// The request, and where there is a computation, the wait for it and itself.
fn spans(trace: &Trace) -> Vec<Value> {
    let [trace_id, request, wait, compute] = identities();
    let span =
        |id: &String, name: &str, kind: u32, begins: Duration, took: Duration, attributes: Vec<Value>| {
            let at = |after: Duration| {
                let since = trace.began.duration_since(UNIX_EPOCH).unwrap_or_default();
                (since + after).as_nanos().to_string()
            };
            json!({
                "traceId": trace_id,
                "spanId": id,
                "name": name,
                "kind": kind,
                "startTimeUnixNano": at(begins),
                "endTimeUnixNano": at(begins + took),
                "attributes": attributes,
            })
        };
    let attributes = vec![
        text("http.request.method", &trace.method),
        text("http.route", &trace.endpoint),
        number("http.response.status_code", trace.status.into()),
        text("spirea.database", &trace.database),
    ];
    let name = format!("{} {}", trace.method, trace.endpoint);
    let mut whole = span(&request, &name, SERVER, Duration::ZERO, trace.took, attributes);
    if trace.status >= 500 {
        whole["status"] = json!({ "code": ERROR });
    }
    let mut spans = vec![whole];
    if let Some((stages, ended)) = trace.stages {
        let begun = ended.saturating_sub(stages.compute);
        let batch = vec![number("spirea.batch.queries", stages.batch as u64)];
        spans.push(span(
            &wait,
            "wait",
            INTERNAL,
            begun.saturating_sub(stages.waited),
            stages.waited,
            Vec::new(),
        ));
        spans.push(span(&compute, "compute", INTERNAL, begun, stages.compute, batch));
    }
    for child in &mut spans[1..] {
        child["parentSpanId"] = json!(request);
    }
    spans
}

/// Of a trace, 16 bytes, and of its three spans, 8 each, as hexadecimal digits.
fn identities() -> [String; 4] {
    let mut drawn = [0; 40];
    // Without randomness all traces have one identity: they are of no use, but do no harm.
    let _ = getrandom::fill(&mut drawn);
    [0..16, 16..24, 24..32, 32..40]
        .map(|range| drawn[range].iter().map(|byte| format!("{byte:02x}")).collect())
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
}
