//! `GET /v1/databases/{name}/hint`: a hint from its file, whole or from the byte where a download
//! broke off. `?blake3=HASH` names the hint; the default is the hint of the newest version's base.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, IF_NONE_MATCH, IF_RANGE,
    RANGE,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use spirea_backend::StoredFile;
use spirea_engine::HintFile;
use tokio::task::spawn_blocking;

use super::request::{Name, lists_tag, named_hash};
use super::response::entity_tag;
use crate::app::App;
use crate::file_body::FileBody;
use crate::range::{Asked, Slice, parse};
use crate::refused::Refused;

/// One address for all versions: a cache must ask whether its copy is still the hint.
const ASK_AGAIN: HeaderValue = HeaderValue::from_static("no-cache");

pub(super) async fn hint(
    State(app): State<Arc<App>>,
    Name(name): Name,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let hint = &named(&app, &name, &uri)?;
    let tag = entity_tag(&hint.blake3);
    if lists_tag(&headers, IF_NONE_MATCH, &tag) {
        return Ok((StatusCode::NOT_MODIFIED, [(ETAG, tag), (CACHE_CONTROL, ASK_AGAIN)]).into_response());
    }
    // A range applies to the hint that the client began with; for another hint the response has the
    // whole file.
    let same_hint = headers.get(IF_RANGE).is_none_or(|known| *known == tag);
    let asked = match headers.get(RANGE).and_then(|range| range.to_str().ok()) {
        Some(range) if same_hint => parse(range, hint.bytes),
        _ => Asked::Whole,
    };
    let (status, slice) = match asked {
        Asked::Whole => (StatusCode::OK, Slice { start: 0, length: hint.bytes }),
        Asked::Slice(slice) => (StatusCode::PARTIAL_CONTENT, slice),
        Asked::Outside => {
            let mut response = Refused::wrong_range(hint.bytes).into_response();
            response.headers_mut().insert(CONTENT_RANGE, value(format!("bytes */{}", hint.bytes)));
            return Ok(response);
        }
    };
    let body = open(&hint.file, hint.bytes, slice).await.map_err(unreadable)?;
    let mut response = (status, body).into_response();
    let headers = response.headers_mut();
    headers.insert(ETAG, tag);
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(CACHE_CONTROL, ASK_AGAIN);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(slice.length));
    if status == StatusCode::PARTIAL_CONTENT {
        let Slice { start, length } = slice;
        let range = format!("bytes {start}-{}/{}", start + length - 1, hint.bytes);
        headers.insert(CONTENT_RANGE, value(range));
    }
    Ok(response)
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

fn value(text: String) -> HeaderValue {
    HeaderValue::try_from(text).expect("digits and punctuation are a header's value")
}

async fn open(file: &StoredFile, bytes: u64, slice: Slice) -> std::io::Result<Body> {
    if slice.length == 0 {
        return Ok(Body::empty());
    }
    let opened = file.clone();
    let found = spawn_blocking(move || opened.bytes()).await.map_err(std::io::Error::other)??;
    if found != bytes {
        return Err(std::io::Error::other("the hint's file has changed since it was loaded"));
    }
    Ok(Body::new(FileBody::new(file.clone(), slice)))
}
