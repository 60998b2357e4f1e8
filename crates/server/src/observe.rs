//! Counts and logs every request: method, endpoint, status, bytes and a coarse duration. Neither
//! the counts nor the log contain a body, a query string, a header's value or an address.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use axum::extract::{MatchedPath, Request, State};
use axum::http::Method;
use axum::http::header::CONTENT_LENGTH;
use axum::middleware::Next;
use axum::response::Response;
use http_body::Body as _;
use spirea_wire::Refusal;

use crate::app::App;
use crate::traces::{Stages, Trace, begin};

/// Endpoint name for requests that match none.
pub(crate) const NO_ENDPOINT: &str = "none";
/// The endpoints of probes and monitors.
const PROBES: [&str; 4] = ["/healthz", "/livez", "/readyz", "/metrics"];

/// Counts a request that has no response yet, even if its client goes away.
struct InFlight<'a>(&'a prometheus::IntGauge);

impl<'a> InFlight<'a> {
    fn new(gauge: &'a prometheus::IntGauge) -> Self {
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.dec();
    }
}

pub(crate) async fn observe(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let _in_flight = InFlight::new(&app.metrics.in_flight);
    let (started, began) = (Instant::now(), SystemTime::now());
    let method = known(request.method());
    let endpoint = request.extensions().get::<MatchedPath>().cloned();
    let endpoint = endpoint.as_ref().map_or(NO_ENDPOINT, MatchedPath::as_str);
    // Names that do not exist are client input: they become neither labels nor log lines.
    let database =
        request.uri().path().strip_prefix("/v1/databases/").and_then(|rest| rest.split('/').next());
    let database = database.filter(|name| app.engine.knows(name)).unwrap_or_default().to_owned();

    let context = begin();
    request.extensions_mut().insert(context);
    let response = next.run(request).await;

    if let Some(Refusal { code, .. }) = response.extensions().get() {
        app.metrics.refused(*code);
    }
    let status = response.status().as_u16();
    let announced =
        response.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    let bytes = announced.or_else(|| response.body().size_hint().exact()).unwrap_or(0);
    app.metrics.responded(&database, endpoint, status, bytes);
    let elapsed = started.elapsed();
    let took = bucket(elapsed);
    // Requests of probes and monitors are frequent and carry no information.
    if PROBES.contains(&endpoint) {
        tracing::debug!(method, endpoint, status, bytes, took, "request");
    } else {
        tracing::info!(method, endpoint, database, status, bytes, took, "request");
    }
    if let Some(traces) = app.traces.as_ref().filter(|_| endpoint.starts_with("/v1/")) {
        let stages = response.extensions().get::<Stages>().copied();
        traces.take_trace(Trace {
            context,
            method,
            endpoint: endpoint.to_owned(),
            database,
            status,
            began,
            took: elapsed,
            stages: stages.map(|stages| (stages, stages.ended.saturating_duration_since(started))),
        });
    }
    response
}

/// Returns a method's name, or "other" for methods that a client made up, since those names are
/// client input.
fn known(method: &Method) -> &'static str {
    const KNOWN: [(Method, &str); 9] = [
        (Method::GET, "GET"),
        (Method::HEAD, "HEAD"),
        (Method::POST, "POST"),
        (Method::PUT, "PUT"),
        (Method::DELETE, "DELETE"),
        (Method::OPTIONS, "OPTIONS"),
        (Method::PATCH, "PATCH"),
        (Method::TRACE, "TRACE"),
        (Method::CONNECT, "CONNECT"),
    ];
    KNOWN.iter().find(|(known, _)| known == method).map_or("other", |(_, name)| name)
}

/// Returns the power of ten of a duration: enough to find what is slow, too little to tell requests
/// apart.
fn bucket(duration: Duration) -> &'static str {
    match duration.as_micros() {
        0..1_000 => "under 1 ms",
        1_000..10_000 => "1 to 10 ms",
        10_000..100_000 => "10 to 100 ms",
        100_000..1_000_000 => "0.1 to 1 s",
        1_000_000..10_000_000 => "1 to 10 s",
        _ => "over 10 s",
    }
}
