//! Endpoints for followers: the record of the current version, and the files of kept versions.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::header::{CACHE_CONTROL, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use spirea_protocols::Version;

use super::publish::library;
use super::ranged::{ASK_AGAIN, ranged};
use super::request::{Name, lists_tag, named_hash, parameter};
use super::response::{entity_tag, json_text};
use crate::app::App;
use crate::follow::ANSWERING;
use crate::library::{FollowerId, PublishError};
use crate::refused::Refused;

/// `GET /v1/admin/databases/{name}/record`: the record of the current version, byte for byte, and
/// the version that answers, which may be the previous version; no content if nothing has been
/// published. `?follower=NAME&has=VERSION` reports what a follower has.
pub(super) async fn record(
    State(app): State<Arc<App>>,
    Name(name): Name,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let library = library(&app)?;
    if let (Some(follower), Some(has)) = (follower(&uri)?, named_hash(&uri, "has")?) {
        library.report(&name, follower, has)?;
    }
    let Some(record) = library.record(&name)? else {
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    let answering = app.engine.version(&name, None)?.version().to_string();
    let answering = HeaderValue::try_from(answering).expect("digits are a header's value");
    let tag = entity_tag(blake3::hash(&record));
    let mut response = match lists_tag(&headers, IF_NONE_MATCH, &tag) {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => json_text(record.into()),
    };
    response.headers_mut().insert(ANSWERING, answering);
    response.headers_mut().insert(ETAG, tag);
    response.headers_mut().insert(CACHE_CONTROL, ASK_AGAIN);
    Ok(response)
}

/// Returns the name of the follower that sent the request, if the query string has one.
fn follower(uri: &Uri) -> Result<Option<FollowerId>, Refused> {
    let Some(digits) = parameter(uri, "follower") else { return Ok(None) };
    let bad = || Refused::bad_parameter("follower", "it has 32 hexadecimal digits");
    if digits.len() != 32 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err(bad());
    }
    u128::from_str_radix(digits, 16).map(|name| Some(name.to_be_bytes())).map_err(|_| bad())
}

/// `GET /v1/admin/databases/{name}/snapshots/{version}/{file}`: a file of a snapshot that a kept
/// version names, whole or in ranges.
pub(super) async fn file(
    State(app): State<Arc<App>>,
    Path((name, version, file)): Path<(String, String, String)>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let version = Version::from_hex(&version).ok_or_else(|| Refused::bad_hash("version"))?;
    let (entry, file) = library(&app)?.file(&name, &version, &file, follower(&uri)?)?;
    ranged(&file, entry.bytes, &entry.blake3, &headers).await.map_err(|error| {
        // The version may have been removed since it was looked up.
        if error.kind() == std::io::ErrorKind::NotFound {
            return PublishError::UnknownFile.into();
        }
        tracing::error!(%error, file = %file.path().display(), "a file cannot be read");
        Refused::internal("the file cannot be read")
    })
}
