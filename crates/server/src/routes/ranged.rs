//! Files as responses, whole or from the byte where a download broke off.

use axum::body::Body;
use axum::http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, IF_NONE_MATCH, IF_RANGE,
    RANGE,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use spirea_backend::StoredFile;
use spirea_protocols::FileHash;
use tokio::task::spawn_blocking;

use super::request::lists_tag;
use super::response::entity_tag;
use crate::file_body::FileBody;
use crate::range::{Asked, Slice, parse};
use crate::refused::Refused;

/// Makes caches revalidate their copy before each use.
pub(super) const ASK_AGAIN: HeaderValue = HeaderValue::from_static("no-cache");

/// Returns the part of a file that the headers ask for. The file must have `bytes` bytes; its hash
/// is its entity tag.
///
/// # Errors
/// If the file cannot be read, or has another length.
pub(super) async fn ranged(
    file: &StoredFile,
    bytes: u64,
    blake3: &FileHash,
    headers: &HeaderMap,
) -> std::io::Result<Response> {
    let tag = entity_tag(blake3);
    if lists_tag(headers, IF_NONE_MATCH, &tag) {
        return Ok((StatusCode::NOT_MODIFIED, [(ETAG, tag), (CACHE_CONTROL, ASK_AGAIN)]).into_response());
    }
    // A range applies to the file that the client began with; for another file the response has the
    // whole file.
    let same_file = headers.get(IF_RANGE).is_none_or(|known| *known == tag);
    let asked = match headers.get(RANGE).and_then(|range| range.to_str().ok()) {
        Some(range) if same_file => parse(range, bytes),
        _ => Asked::Whole,
    };
    let (status, slice) = match asked {
        Asked::Whole => (StatusCode::OK, Slice { start: 0, length: bytes }),
        Asked::Slice(slice) => (StatusCode::PARTIAL_CONTENT, slice),
        Asked::Outside => {
            let mut response = Refused::wrong_range(bytes).into_response();
            response.headers_mut().insert(CONTENT_RANGE, value(format!("bytes */{bytes}")));
            return Ok(response);
        }
    };
    let body = open(file, bytes, slice).await?;
    let mut response = (status, body).into_response();
    let headers = response.headers_mut();
    headers.insert(ETAG, tag);
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(CACHE_CONTROL, ASK_AGAIN);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(slice.length));
    if status == StatusCode::PARTIAL_CONTENT {
        let Slice { start, length } = slice;
        headers.insert(CONTENT_RANGE, value(format!("bytes {start}-{}/{bytes}", start + length - 1)));
    }
    Ok(response)
}

fn value(text: String) -> HeaderValue {
    HeaderValue::try_from(text).expect("digits and punctuation are a header's value")
}

/// Returns a part of a file as a body.
///
/// # Errors
/// If the file cannot be read, or does not have `bytes` bytes.
pub(super) async fn open(file: &StoredFile, bytes: u64, slice: Slice) -> std::io::Result<Body> {
    if slice.length == 0 {
        return Ok(Body::empty());
    }
    let opened = file.clone();
    let found = spawn_blocking(move || opened.bytes()).await.map_err(std::io::Error::other)??;
    if found != bytes {
        return Err(std::io::Error::other("the file has changed since it was loaded"));
    }
    Ok(Body::new(FileBody::new(file.clone(), slice)))
}
