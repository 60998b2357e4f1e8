//! HTTP endpoints of a worker for its coordinator.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post, put};
use bytes::Bytes;
use spirea_engine::{Database, EngineError, KeyRegistry, TraceContext};
use spirea_protocols::{KeysHash, ProtocolError};
use spirea_server::{Accounted, BodyError, Limits, RequestMemory, Span, Spans, declared_bytes, read_body};
use spirea_wire::{Keyed, ShareLimits, ShareRequest};

use super::metrics::WorkerMetrics;
use super::queue::{Batch, Computed, NoPartial, Queue};
use crate::status::{ShareState, ShareStatus};

/// Upper bound on the memory for receiving a request or computing a partial, in multiples of its
/// length.
const BUFFER_FACTOR: u64 = 2;
/// Path for batches.
const PARTIAL: &str = "/v1/partial";

/// A share, and the state needed to answer for it.
pub(super) struct Service {
    pub database: Arc<Database>,
    pub limits: ShareLimits,
    pub keys: Arc<KeyRegistry>,
    pub queue: Queue,
    /// Memory for bodies, computing and partials.
    pub memory: RequestMemory,
    /// Limits of the port, with the minimum rate of bodies.
    pub port: Limits,
    /// Bytes of the database that the worker holds.
    pub bytes: u64,
    pub metrics: WorkerMetrics,
    /// Receiver of spans, if any.
    pub spans: Option<Spans>,
    /// True if the worker is about to end.
    pub leaving: AtomicBool,
}

impl Service {
    /// Returns the limits of requests to a database's share.
    pub fn limits(database: &Database) -> ShareLimits {
        let responder = database.responder();
        ShareLimits {
            max_batch: responder.max_batch(),
            query_bytes: responder.sizes().query_bytes,
            keyed: if responder.partial_keys_bytes() > 0 { Keyed::Keys } else { Keyed::NoKeys },
        }
    }

    /// Returns the status report.
    pub fn status(&self) -> ShareStatus {
        let (queue, running) = self.queue.load();
        let leaving = self.leaving.load(Ordering::Relaxed);
        let state = if leaving { ShareState::Draining } else { ShareState::Ready };
        ShareStatus { queue, running, state, ..status(&self.database, self.bytes) }
    }

    /// Returns the memory in bytes that a batch needs from its arrival until its partial is sent,
    /// for a request of `length` bytes. The request needs twice its length: for its bytes, and for
    /// a buffer or the words of its queries. The partial also needs twice its length: for its
    /// bytes, and for the result over the rows.
    fn batch_bytes(&self, length: u64) -> u64 {
        let responder = self.database.responder();
        let partial = responder.partial_bytes(responder.share(), self.limits.most_queries(length)) as u64;
        BUFFER_FACTOR * (length + partial)
    }

    /// Returns the endpoints for the coordinator.
    pub fn router(self: &Arc<Self>) -> Router {
        Router::new()
            .route("/v1/share", get(share))
            .route("/v1/keys/{hash}", put(keys))
            .route(PARTIAL, post(partial))
            .with_state(Arc::clone(self))
    }

    /// Returns the endpoints for monitoring: without TLS, and without any data of queries.
    pub fn watched(self: &Arc<Self>) -> Router {
        Router::new()
            .route("/metrics", get(metrics))
            .route("/healthz", get(|| async { "ok\n" }))
            .route("/readyz", get(ready))
            .with_state(Arc::clone(self))
    }
}

/// Returns the status of a share while no batch waits.
pub(super) fn status(database: &Database, bytes: u64) -> ShareStatus {
    let (identity, responder) = (database.identity(), database.responder());
    ShareStatus {
        database: identity.name.clone(),
        version: identity.version.to_string(),
        share: responder.share().index(),
        shares: responder.share().count(),
        party: identity.party.map(spirea_protocols::Party::number),
        bytes,
        queue: 0,
        running: 0,
        max_batch: responder.max_batch(),
        keys_bytes: responder.partial_keys_bytes(),
        state: ShareState::Ready,
    }
}

async fn share(State(service): State<Arc<Service>>) -> Response {
    let body = serde_json::to_vec(&service.status()).expect("a status is plain data");
    ([(CONTENT_TYPE, "application/json")], body).into_response()
}

async fn metrics(State(service): State<Arc<Service>>) -> Response {
    let (keys, memory) = (service.keys.usage(), service.memory.taken());
    let (content_type, text) = service.metrics.render(&service.status(), keys, memory);
    ([(CONTENT_TYPE, content_type)], text).into_response()
}

async fn ready(State(service): State<Arc<Service>>) -> Response {
    let status = service.status();
    let code = match status.state {
        ShareState::Ready => StatusCode::OK,
        ShareState::Draining => StatusCode::SERVICE_UNAVAILABLE,
    };
    (code, serde_json::to_vec(&status).expect("a status is plain data")).into_response()
}

/// Returns a refusal as a line of text, for a program of the same release and for readers of its
/// log.
fn refused(status: StatusCode, cause: impl std::fmt::Display) -> Response {
    (status, format!("{cause}\n")).into_response()
}

/// Returns a refusal that asks the coordinator to retry, here or at another replica.
fn busy(cause: &str) -> Response {
    let mut response = refused(StatusCode::SERVICE_UNAVAILABLE, cause);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(1u64));
    response
}

/// Reserves the memory that a request needs, given its length, and then reads its body of at most
/// `most` bytes.
async fn receive(
    service: &Service,
    headers: &HeaderMap,
    body: Body,
    most: u64,
    needed: impl FnOnce(u64) -> u64,
) -> Result<(Bytes, Accounted), Response> {
    let length = declared_bytes(headers).unwrap_or(most);
    if length > most {
        return Err(unread(BodyError::Long(most)));
    }
    let memory = service.memory.take(needed(length));
    let memory = memory.ok_or_else(|| busy("this worker's memory for requests is taken"))?;
    let body = read_body(body, length, &service.port).await.map_err(unread)?;
    Ok((body, memory))
}

/// Returns the refusal of a body that was not read to its end.
fn unread(error: BodyError) -> Response {
    refused(error.status(), error)
}

/// Registers a client's evaluation keys under the hash by which queries name them.
async fn keys(
    State(service): State<Arc<Service>>,
    Path(hash): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let response = take_keys(&service, &hash, &headers, body).await;
    service.metrics.uploaded(response.status().as_u16());
    response
}

async fn take_keys(service: &Arc<Service>, hash: &str, headers: &HeaderMap, body: Body) -> Response {
    let needed = service.database.responder().partial_keys_bytes();
    if needed == 0 {
        return refused(StatusCode::NOT_FOUND, "a share of this database needs no keys");
    }
    let Some(hash) = KeysHash::from_hex(hash) else {
        return refused(StatusCode::BAD_REQUEST, "keys are named by 64 hexadecimal digits");
    };
    // The registry itself limits the memory of prepared keys.
    let received = receive(service, headers, body, needed as u64, |length| BUFFER_FACTOR * length).await;
    let (bytes, memory) = match received {
        Ok(received) => received,
        Err(refusal) => return refusal,
    };
    let service = Arc::clone(service);
    let register = move || {
        // The memory stays reserved until the keys are prepared, even if the coordinator goes away.
        let _memory = memory;
        if KeysHash::from(blake3::hash(&bytes)) != hash {
            return Ok(None);
        }
        service.keys.register(&service.database, &bytes, None).map(Some)
    };
    match tokio::task::spawn_blocking(register).await {
        Ok(Ok(Some(_))) => StatusCode::NO_CONTENT.into_response(),
        Ok(Ok(None)) => refused(StatusCode::BAD_REQUEST, "the keys are not those of this hash"),
        Ok(Err(
            error @ (EngineError::Malformed(_) | EngineError::Protocol(ProtocolError::Malformed { .. })),
        )) => refused(StatusCode::UNPROCESSABLE_ENTITY, error),
        Ok(Err(error)) => refused(StatusCode::INSUFFICIENT_STORAGE, error),
        Err(_) => refused(StatusCode::INTERNAL_SERVER_ERROR, "preparing the keys was aborted by a defect"),
    }
}

/// Answers a batch with the share's partial.
async fn partial(State(service): State<Arc<Service>>, request: Request) -> Response {
    let began = SystemTime::now();
    let (parts, body) = request.into_parts();
    let (response, queries) = match read(&service, &parts.headers, body).await {
        Ok((request, memory)) => (compute(&service, &request, memory).await, request.queries.len()),
        Err(refusal) => (refusal, 0),
    };
    service.metrics.responded(response.status().as_u16());
    if let Some(spans) = &service.spans
        && let Some(trace) = traced(&parts.headers)
    {
        let took = began.elapsed().unwrap_or(Duration::ZERO);
        let of = (&*service.database.identity().name, queries);
        spans.take(vec![Span::within(trace, PARTIAL, (began, took), of)]);
    }
    response
}

/// Reads and checks a batch for this share, in memory that suffices until its partial is sent;
/// returns the refusal if the batch is not accepted.
async fn read(
    service: &Service,
    headers: &HeaderMap,
    body: Body,
) -> Result<(ShareRequest, Accounted), Response> {
    if service.leaving.load(Ordering::Relaxed) {
        return Err(busy("this worker ends"));
    }
    let most = service.limits.request_bytes();
    let (body, memory) = receive(service, headers, body, most, |length| service.batch_bytes(length)).await?;
    let request = ShareRequest::decode(&body, &service.limits)
        .map_err(|error| refused(StatusCode::BAD_REQUEST, error))?;
    if request.version != service.database.identity().version {
        return Err(refused(StatusCode::GONE, "this worker serves another snapshot"));
    }
    Ok((request, memory))
}

async fn compute(service: &Arc<Service>, request: &ShareRequest, memory: Accounted) -> Response {
    let ShareRequest { keys, queries, .. } = request;
    let keys = match prepared(service, keys.clone()).await {
        Ok(keys) => keys,
        Err(refusal) => return refusal,
    };
    let batch = Batch { queries: queries.clone(), keys, memory: memory.clone() };
    match service.queue.partial(batch).await {
        Ok(Computed { partial, time }) => {
            service.metrics.computed(queries.len(), time);
            let bytes = partial.into_bytes();
            let mut response = ([(CONTENT_TYPE, "application/octet-stream")], bytes).into_response();
            response.extensions_mut().insert(memory);
            response
        }
        Err(NoPartial::Full) => busy("this worker's queue is full"),
        Err(NoPartial::Protocol(error @ ProtocolError::Malformed { .. })) => {
            refused(StatusCode::UNPROCESSABLE_ENTITY, error)
        }
        Err(NoPartial::Protocol(error)) => {
            tracing::error!(%error, "a computation failed");
            refused(StatusCode::INTERNAL_SERVER_ERROR, error)
        }
        Err(NoPartial::Panicked) => {
            refused(StatusCode::INTERNAL_SERVER_ERROR, "the computation was aborted by a defect")
        }
    }
}

/// Returns the prepared keys that a batch names.
async fn prepared(
    service: &Arc<Service>,
    hashes: Vec<KeysHash>,
) -> Result<Vec<spirea_protocols::PreparedKeys>, Response> {
    if hashes.is_empty() {
        return Ok(Vec::new());
    }
    let service = Arc::clone(service);
    // Keys that were evicted from memory are prepared again.
    let prepare = move || {
        hashes.iter().map(|hash| service.keys.get(&service.database, hash)).collect::<Result<Vec<_>, _>>()
    };
    match tokio::task::spawn_blocking(prepare).await {
        Ok(Ok(keys)) => Ok(keys),
        Ok(Err(EngineError::UnknownKeys)) => {
            Err(refused(StatusCode::FAILED_DEPENDENCY, "keys that the batch names are not here: put them"))
        }
        Ok(Err(error)) => Err(refused(StatusCode::INTERNAL_SERVER_ERROR, error)),
        Err(_) => {
            let cause = "preparing keys was aborted by a defect";
            Err(refused(StatusCode::INTERNAL_SERVER_ERROR, cause))
        }
    }
}

fn traced(headers: &HeaderMap) -> Option<TraceContext> {
    headers.get("traceparent")?.to_str().ok()?.parse().ok()
}
