//! `POST /v1/databases/{name}/keys`.

use std::sync::Arc;
use std::time::Instant;

use axum::Extension;
use axum::extract::{Request, State};
use axum::response::Response;
use bytes::Bytes;
use spirea_engine::{EngineError, Served};
use spirea_wire::{KeysHash, KeysRequest, KeysResponse, KeysUpload, Part};

use super::compute::{log_failure, on_blocking_thread};
use super::lengths::limits;
use super::request::Name;
use super::response::protobuf;
use crate::access::Caller;
use crate::app::App;
use crate::body::{Received, Upload};
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
        let protocol = versions.first().map_or("", |served| served.base().identity().params.name);
        return Err(Refused::no_keys_needed(protocol));
    }
    drop(versions);
    let received = app.receive(&name, upload, longest, &caller).await?;
    let version = KeysRequest::version(&received.bytes)?;
    let served = app.engine.named(&name, &version)?;
    let limits = limits(&served);
    let (keys, part) = match KeysUpload::decode(received.bytes.clone(), &limits)? {
        KeysUpload::Whole(KeysRequest { keys, part, .. }) => (keys, part),
        KeysUpload::Piece(piece) => {
            let length = limits.of(piece.part).map_or(0, |lengths| lengths.keys_bytes);
            let owner = caller.key_owner();
            let Some(keys) = app.pieces.add(&name, &piece, length, owner, Instant::now())? else {
                return Ok(protobuf(KeysResponse { blake3: piece.whole }.encode()));
            };
            if KeysHash::from(blake3::hash(&keys)) != piece.whole {
                return Err(Refused::other_keys());
            }
            (keys.into(), piece.part)
        }
    };
    let served = app.awake(&name, served).await?;
    let (_, blake3) = register(&app, &served, part, keys, received, &caller).await?;
    Ok(protobuf(KeysResponse { blake3 }.encode()))
}

/// Registers the keys of a caller for a part of a version. Returns the body that contained the
/// keys, and the hash of the keys.
pub(super) async fn register(
    app: &App,
    served: &Served,
    part: Part,
    keys: Bytes,
    received: Received,
    caller: &Caller,
) -> Result<(Received, KeysHash), Refused> {
    let database = match part {
        Part::Base => Some(served.base()),
        Part::Delta => served.delta(),
    };
    let database = Arc::clone(database.ok_or(EngineError::Stale { current: *served.version() })?);
    let engine = Arc::clone(&app.engine);
    let owner = caller.key_owner();
    // The registry prepares one set at a time; a request waiting here occupies no thread.
    let turn = Arc::clone(&app.preparing).lock_owned().await;
    let register = move || {
        // The body's memory stays reserved until the keys are prepared, even if the client goes
        // away.
        let _turn = turn;
        Ok((received, engine.register_keys(&database, &keys, owner)?))
    };
    Ok(on_blocking_thread(register).await.inspect_err(log_failure)?)
}
