//! `POST /v1/databases/{name}/query`.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use spirea_engine::EngineError;
use spirea_protocols::ProtocolError;
use spirea_wire::{Code, Limits};

use super::{App, Name, protobuf};
use crate::body::Upload;
use crate::refused::Refused;

pub(super) async fn query(
    State(app): State<Arc<App>>,
    Name(name): Name,
    request: Request<Body>,
) -> Result<Response, Refused> {
    let (parts, body) = request.into_parts();
    let mut upload = Upload::new(&parts.headers, body);
    let outcome = answer(&app, &name, &parts.headers, &mut upload).await;
    match outcome {
        Ok(message) => Ok(protobuf(message)),
        Err(refused) => {
            if refused.code() != Code::SlowBody {
                upload.discard();
            }
            Err(refused)
        }
    }
}

async fn answer(app: &App, name: &str, headers: &HeaderMap, upload: &mut Upload) -> Result<Vec<u8>, Refused> {
    let database = app.engine.database(name)?;
    if !is_protobuf(headers) {
        return Err(Refused::wrong_content_type());
    }
    let sizes = database.sizes();
    let limits = Limits {
        query_bytes: sizes.query_bytes,
        answer_bytes: sizes.answer_bytes,
        max_batch: database.max_batch(),
    };
    let received = upload.receive(limits.request_bytes(), app.read_timeout, &app.memory).await?;
    let measured = app.metrics.of(name);
    measured.received.inc_by(received.bytes.len() as u64);
    let request = spirea_wire::Request::decode(received.bytes.clone(), &limits)?;
    let queries = request.queries.len();
    let ticket = app.engine.submit(name, &request.version, request.queries)?;
    let answers = ticket.await.inspect_err(log_failure)?;
    measured.answered(queries, answers.compute, answers.waited);
    let response = spirea_wire::Response {
        version: request.version,
        answers: answers.answers,
        compute: answers.compute,
    };
    Ok(response.encode())
}

fn is_protobuf(headers: &HeaderMap) -> bool {
    let essence = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()?.split(';').next());
    essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case(spirea_wire::CONTENT_TYPE))
}

/// The operator must learn why a computation failed; no error carries anything of a query's content.
fn log_failure(error: &EngineError) {
    match error {
        EngineError::Protocol(ProtocolError::Malformed { .. }) => (),
        _ => tracing::error!(%error, "a computation failed"),
    }
}
