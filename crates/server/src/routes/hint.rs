//! `GET /v1/databases/{name}/hint`: a hint from its file, whole or from the byte where a download
//! broke off. `?blake3=HASH` names the hint; the default is the hint of the newest version's base.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, Uri};
use axum::response::{IntoResponse, Response};
use spirea_engine::HintFile;

use super::ranged::{ASK_AGAIN, open, ranged};
use super::request::{Name, named_hash};
use crate::app::App;
use crate::range::Slice;
use crate::refused::Refused;

pub(super) async fn hint(
    State(app): State<Arc<App>>,
    Name(name): Name,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let HintFile { file, bytes, blake3, .. } = &named(&app, &name, &uri)?;
    ranged(file, *bytes, blake3, &headers).await.map_err(unreadable)
}

/// `GET /v1/databases/{name}/hint/rows`: the hashes of a hint's rows. A client with the hint of
/// another version compares them to find the changed rows.
pub(super) async fn rows(
    State(app): State<Arc<App>>,
    Name(name): Name,
    uri: Uri,
) -> Result<Response, Refused> {
    let hint = named(&app, &name, &uri)?;
    let length = hint.rows_bytes;
    let body = open(&hint.rows, length, Slice { start: 0, length }).await.map_err(unreadable)?;
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, ASK_AGAIN);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    Ok(response)
}

/// Returns the hint that a request names, of any answering version; the default is the hint of the
/// newest base.
fn named(app: &App, database: &str, uri: &Uri) -> Result<HintFile, Refused> {
    match named_hash(uri, "blake3")? {
        Some(hash) => app.engine.hint(database, &hash)?.ok_or_else(Refused::unknown_hint),
        None => Ok(app.engine.version(database, None)?.base().identity().hint.clone()),
    }
}

/// Returns the refusal for a file that cannot be read. A file that was missing when its version was
/// loaded may still be missing.
fn unreadable(error: std::io::Error) -> Refused {
    if error.kind() == std::io::ErrorKind::NotFound {
        return Refused::unknown_hint();
    }
    tracing::error!(%error, "the hint cannot be read");
    Refused::internal("the hint cannot be read")
}
