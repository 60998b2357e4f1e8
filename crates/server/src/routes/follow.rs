//! Endpoints for followers: the record of the current version, and the files of kept versions.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Extension;
use axum::extract::{Path, State};
use axum::http::header::{CACHE_CONTROL, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use spirea_protocols::Version;
use tokio::time::{Instant, timeout_at};

use super::publish::library;
use super::ranged::{ASK_AGAIN, ranged};
use super::request::{Name, lists_tag, named_hash, parameter, preferred_wait};
use super::response::{entity_tag, json_text};
use crate::access::Permit;
use crate::app::App;
use crate::follow::{ANSWERING, LONGEST_WAIT, PREFERENCE_APPLIED};
use crate::library::{FollowerId, PublishError};
use crate::refused::Refused;

/// `GET /v1/admin/databases/{name}/record`: the record of the current version, byte for byte, and
/// the version that answers, which may be the previous version; no content if nothing has been
/// published. `?follower=NAME&has=VERSION` reports what a follower has.
///
/// The entity tag covers the record and the answering version. With `If-None-Match: TAG` and
/// `Prefer: wait=SECONDS`, the response waits until the tag is another one, and then has the
/// header `Preference-Applied`. The server answers at once if too many requests wait, or if it is
/// about to stop.
pub(super) async fn record(
    State(app): State<Arc<App>>,
    Extension(permit): Extension<Permit>,
    Name(name): Name,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let library = library(&app)?;
    if let (Some(follower), Some(has)) = (follower(&uri)?, named_hash(&uri, "has")?) {
        library.report(&name, follower, has)?;
    }
    let mut changes = library.changes(&name)?;
    let mut wait = preferred_wait(&headers, LONGEST_WAIT)
        .and_then(|time| library.waiting_look().map(|place| (time, place)));
    let until = Instant::now() + wait.as_ref().map(|(time, _)| *time).unwrap_or_default();
    loop {
        let Some(record) = library.record(&name)? else {
            return Ok(StatusCode::NO_CONTENT.into_response());
        };
        let answering = app.engine.version(&name, None)?.version().to_string();
        let hash = blake3::Hasher::new().update(&record).update(answering.as_bytes()).finalize();
        let (tag, answering) = (entity_tag(hash), HeaderValue::try_from(answering));
        let same = lists_tag(&headers, IF_NONE_MATCH, &tag);
        wait = wait.filter(|_| !app.leaving.load(Ordering::Relaxed));
        if same && wait.is_some() {
            // Looks that wait leave the places for requests to clients.
            permit.release();
            if timeout_at(until, changes.changed()).await.is_ok() {
                continue;
            }
        }
        let mut response = match same {
            true => StatusCode::NOT_MODIFIED.into_response(),
            false => json_text(record.into()),
        };
        response.headers_mut().insert(ANSWERING, answering.expect("digits are a header's value"));
        response.headers_mut().insert(ETAG, tag);
        response.headers_mut().insert(CACHE_CONTROL, ASK_AGAIN);
        if let Some((time, _)) = &wait {
            let applied = format!("wait={}", time.as_secs());
            response.headers_mut().insert(PREFERENCE_APPLIED, applied.try_into().expect("ASCII"));
        }
        return Ok(response);
    }
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
