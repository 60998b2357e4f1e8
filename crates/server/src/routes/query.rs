//! `POST /v1/databases/{name}/query`.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use spirea_engine::{EngineError, Ticket};

use super::{App, Name, apart, limits, log_failure, protobuf};
use crate::body::Upload;
use crate::refused::Refused;

pub(super) async fn query(
    State(app): State<Arc<App>>,
    Name(name): Name,
    request: Request,
) -> Result<Response, Refused> {
    let upload = Upload::new(request);
    let database = app.engine.database(&name)?;
    let limits = limits(&database);
    let received = app.receive(&name, upload, limits.request_bytes()).await?;
    let request = spirea_wire::Request::decode(received.bytes.clone(), &limits)?;
    let version = request.version;
    let measured = app.metrics.of(&name);
    let ticket = admit(&app, name, request).await.inspect_err(|error| match error {
        EngineError::UnknownKeys => measured.unknown_keys.inc(),
        error => log_failure(error),
    })?;
    let answers = ticket.await.inspect_err(log_failure)?;
    measured.answered(&answers);
    let compute = answers.compute;
    let answers = answers.answers.into_iter().flatten().collect();
    let response = spirea_wire::Response { version, answers, compute };
    Ok(protobuf(response.encode()))
}

async fn admit(app: &App, name: String, request: spirea_wire::Request) -> Result<Ticket, EngineError> {
    let spirea_wire::Request { version, keys, queries } = request;
    let engine = Arc::clone(&app.engine);
    let submit = move || engine.submit(&name, &version, keys, queries);
    // The keys may have to be prepared first.
    if keys.is_some() { apart(submit).await } else { submit() }
}
