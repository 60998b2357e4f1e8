//! `POST /v1/databases/{name}/keys`.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use spirea_wire::{KeysRequest, KeysResponse};

use super::{App, Name, apart, limits, log_failure, protobuf};
use crate::body::Upload;
use crate::refused::Refused;

pub(super) async fn keys(
    State(app): State<Arc<App>>,
    Name(name): Name,
    request: Request,
) -> Result<Response, Refused> {
    let upload = Upload::new(request);
    let database = app.engine.database(&name)?;
    let limits = limits(&database);
    if limits.keys_bytes == 0 {
        return Err(Refused::no_keys_needed(database.identity().params.name()));
    }
    let received = app.receive(&name, upload, limits.keys_request_bytes()).await?;
    let KeysRequest { keys } = KeysRequest::decode(received.bytes.clone(), &limits)?;
    let engine = Arc::clone(&app.engine);
    // The registry prepares one set at a time; who waits for that here keeps no thread from others.
    let turn = Arc::clone(&app.preparing).lock_owned().await;
    let register = move || {
        // Also when the client goes away, the body's memory is taken until the keys are prepared.
        let _held = (received, turn);
        engine.register_keys(&name, &keys)
    };
    let blake3 = apart(register).await.inspect_err(log_failure)?;
    Ok(protobuf(KeysResponse { blake3 }.encode()))
}
