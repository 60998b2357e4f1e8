//! `POST /v1/databases/{name}/keys`.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Request, State};
use axum::response::Response;
use spirea_engine::{EngineError, Served};
use spirea_wire::{KeysRequest, KeysResponse, Part};

use super::compute::{log_failure, on_blocking_thread};
use super::lengths::limits;
use super::request::Name;
use super::response::protobuf;
use crate::access::Caller;
use crate::app::App;
use crate::body::Upload;
use crate::refused::Refused;

pub(super) async fn keys(
    State(app): State<Arc<App>>,
    Name(name): Name,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Refused> {
    let upload = Upload::new(request);
    let versions = app.engine.versions(&name)?;
    let longest = versions.iter().map(|served| limits(served).keys_request_bytes()).max().unwrap_or(0);
    if versions.iter().flat_map(Served::parts).all(|part| part.sizes().keys_bytes == 0) {
        let protocol = versions.first().map_or("", |served| served.base().identity().params.name());
        return Err(Refused::no_keys_needed(protocol));
    }
    drop(versions);
    let received = app.receive(&name, upload, longest, &caller).await?;
    let version = KeysRequest::version(&received.bytes)?;
    let served = app.engine.version(&name, Some(&version))?;
    let KeysRequest { keys, part, .. } = KeysRequest::decode(received.bytes.clone(), &limits(&served))?;
    let database = match part {
        Part::Base => Some(served.base()),
        Part::Delta => served.delta(),
    };
    let database = Arc::clone(database.ok_or(EngineError::Stale { current: version })?);
    let engine = Arc::clone(&app.engine);
    // The registry prepares one set at a time; a request waiting here occupies no thread.
    let turn = Arc::clone(&app.preparing).lock_owned().await;
    let register = move || {
        // The body's memory stays reserved until the keys are prepared, even if the client goes
        // away.
        let _held = (received, turn);
        engine.register_keys(&database, &keys, caller.key_owner())
    };
    let blake3 = on_blocking_thread(register).await.inspect_err(log_failure)?;
    Ok(protobuf(KeysResponse { blake3 }.encode()))
}
