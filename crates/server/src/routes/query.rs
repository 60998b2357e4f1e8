//! `POST /v1/databases/{name}/query`.

use std::sync::Arc;
use std::time::Instant;

use axum::Extension;
use axum::extract::{Request, State};
use axum::response::Response;
use bytes::Bytes;
use spirea_engine::{Asked, EngineError, Served, Ticket, TraceContext};
use spirea_wire::{Part, Queries};

use super::compute::{log_failure, on_blocking_thread};
use super::keys::register;
use super::lengths::limits;
use super::request::Name;
use super::response::protobuf;
use crate::access::Caller;
use crate::app::App;
use crate::body::Upload;
use crate::memory::ResponseMemory;
use crate::refused::Refused;
use crate::traces::Stages;

pub(super) async fn query(
    State(app): State<Arc<App>>,
    Name(name): Name,
    Extension(caller): Extension<Caller>,
    Extension(trace): Extension<TraceContext>,
    Extension(memory): Extension<ResponseMemory>,
    request: Request,
) -> Result<Response, Refused> {
    let upload = Upload::new(request);
    let versions = app.engine.versions(&name)?;
    let longest = versions.iter().map(|served| limits(served).request_bytes()).max().unwrap_or(0);
    let mut received = app.receive(&name, upload, longest, &caller).await?;
    // The version is read first because it decides which lengths are valid; a client with an
    // outdated version is told so.
    let version = spirea_wire::Request::version(&received.bytes)?;
    let served = app.engine.named(&name, &version)?;
    let limits = limits(&served);
    let (request, sent_keys) = spirea_wire::Request::decode_with_keys(received.bytes.clone(), &limits)?;
    check_names(&request, &sent_keys)?;
    // The answer's memory is reserved before the computation: without memory, the answer could not
    // be sent.
    let reserved = memory.reserve(limits.response_bytes(request.base.queries.len()));
    let reserved = reserved.ok_or_else(Refused::short_of_connection_memory)?;
    let measured = app.metrics.of(&name);
    let charge = caller.charge(&received.bytes, request.base.queries.len())?;
    let served = app.awake(&name, served).await?;
    for (part, keys) in sent_keys {
        (received, _) = register(&app, &served, part, keys, received, &caller).await?;
    }
    let ticket = admit(&app, served, request, trace).await.inspect_err(|error| match error {
        EngineError::UnknownKeys => measured.unknown_keys.inc(),
        error => log_failure(error),
    })?;
    charge.keep();
    let answers = ticket.await.inspect_err(log_failure)?;
    measured.answered(&answers);
    let stages = Stages {
        waited: answers.waited,
        compute: answers.compute,
        batch: answers.batch,
        ended: Instant::now(),
    };
    let mut parts = answers.answers.into_iter();
    let newest = app.engine.version(&name, None).map_or(version, |served| *served.version());
    let response = spirea_wire::Response {
        version,
        newest,
        answers: parts.next().unwrap_or_default(),
        delta_answers: parts.next(),
        compute: answers.compute,
    };
    let mut response = protobuf(response.encode());
    response.extensions_mut().insert(stages);
    response.extensions_mut().insert(reserved);
    Ok(response)
}

/// Checks that keys sent with queries are those that the queries name, before they are prepared.
fn check_names(request: &spirea_wire::Request, sent: &[(Part, Bytes)]) -> Result<(), Refused> {
    let named = |part: &Part| match part {
        Part::Base => request.base.keys,
        Part::Delta => request.delta.as_ref().and_then(|delta| delta.keys),
    };
    match sent.iter().all(|(part, keys)| named(part) == Some(blake3::hash(keys).into())) {
        true => Ok(()),
        false => Err(Refused::other_keys()),
    }
}

async fn admit(
    app: &App,
    served: Served,
    request: spirea_wire::Request,
    trace: TraceContext,
) -> Result<Ticket, EngineError> {
    let parts = [request.base].into_iter().chain(request.delta);
    let asked: Vec<_> = parts.map(|Queries { keys, queries }| Asked { keys, queries }).collect();
    let keyed = asked.iter().any(|part| part.keys.is_some());
    let engine = Arc::clone(&app.engine);
    let submit = move || engine.submit_traced(&served, asked, Some(trace));
    // The keys may need preparing first.
    if keyed { on_blocking_thread(submit).await } else { submit() }
}
