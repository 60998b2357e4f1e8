//! Endpoints for followers: the record of the current version, and the files of kept versions.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::header::{CACHE_CONTROL, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};

use super::publish::library;
use super::ranged::{ASK_AGAIN, ranged};
use super::request::{Name, lists_tag};
use super::response::{entity_tag, json_text};
use crate::app::App;
use crate::library::PublishError;
use crate::refused::Refused;

/// `GET /v1/admin/databases/{name}/record`: the record of the current version, byte for byte; no
/// content if nothing has been published.
pub(super) async fn record(
    State(app): State<Arc<App>>,
    Name(name): Name,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let Some(record) = library(&app)?.record(&name)? else {
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    let tag = entity_tag(blake3::hash(&record).as_bytes());
    let mut response = match lists_tag(&headers, IF_NONE_MATCH, &tag) {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => json_text(record.into()),
    };
    response.headers_mut().insert(ETAG, tag);
    response.headers_mut().insert(CACHE_CONTROL, ASK_AGAIN);
    Ok(response)
}

/// `GET /v1/admin/databases/{name}/snapshots/{version}/{file}`: a file of a snapshot that a kept
/// version names, whole or in ranges.
pub(super) async fn file(
    State(app): State<Arc<App>>,
    Path((name, version, file)): Path<(String, String, String)>,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let version = blake3::Hash::from_hex(&version).map_err(|_| Refused::bad_hash("version"))?;
    let (entry, file) = library(&app)?.file(&name, version.as_bytes(), &file)?;
    ranged(&file, entry.bytes, &entry.blake3, &headers).await.map_err(|error| {
        // The version may have been removed since it was looked up.
        if error.kind() == std::io::ErrorKind::NotFound {
            return PublishError::UnknownFile.into();
        }
        tracing::error!(%error, file = %file.path().display(), "a file cannot be read");
        Refused::internal("the file cannot be read")
    })
}
