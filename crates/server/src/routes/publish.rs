//! Endpoints for publishers: changes, snapshots, and selection of the current version.

use std::io::{self, Read};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::Uri;
use axum::response::Response;
use serde_json::json;
use spirea_store::repository::Shrinking;
use tokio::runtime::Handle;

use super::request::{Name, parameter};
use super::response::json_body;
use crate::app::App;
use crate::body::{BodyReader, Paced, has_type};
use crate::library::{Library, PublishError, Published};
use crate::refused::Refused;

/// Content type of changes: lines of JSON.
pub(super) const CHANGES_TYPE: &str = "application/x-ndjson";
/// Content type of a snapshot: a tar archive.
pub(super) const SNAPSHOT_TYPE: &str = "application/x-tar";

/// `GET /v1/admin/databases/{name}/versions`: the kept versions, newest first, and the table of the
/// newest.
pub(super) async fn versions(State(app): State<Arc<App>>, Name(name): Name) -> Result<Response, Refused> {
    let library = library(&app)?;
    let (versions, table) = (library.versions(&name)?, library.table(&name)?);
    Ok(json_body(&json!({ "versions": versions, "table": table })))
}

/// `POST /v1/admin/databases/{name}/changes`: applies changes, given as lines of JSON. Answers
/// include the changes once the response arrives.
pub(super) async fn changes(
    State(app): State<Arc<App>>,
    Name(name): Name,
    request: Request,
) -> Result<Response, Refused> {
    publish_upload(&app, request, CHANGES_TYPE, move |library, lines| library.change(&name, lines)).await
}

/// `POST /v1/admin/databases/{name}/snapshot`: publishes a tar archive of a snapshot, which answers
/// once the response arrives. `?shrinking=allow` also accepts a snapshot with less than half the
/// values.
pub(super) async fn snapshot(
    State(app): State<Arc<App>>,
    Name(name): Name,
    uri: Uri,
    request: Request,
) -> Result<Response, Refused> {
    let shrinking = shrinking(&uri)?;
    let take = move |library: &Arc<Library>, archive: &mut dyn Read| library.take(&name, shrinking, archive);
    publish_upload(&app, request, SNAPSHOT_TYPE, take).await
}

/// `POST /v1/admin/databases/{name}/rollback`: makes an earlier version answer again. `?to=VERSION`
/// names it, also by its first digits; the default is the previous version.
pub(super) async fn rollback(
    State(app): State<Arc<App>>,
    Name(name): Name,
    uri: Uri,
) -> Result<Response, Refused> {
    let to = parameter(&uri, "to").map(str::to_owned);
    if to.as_deref().is_some_and(|digits| !is_prefix(digits)) {
        return Err(Refused::bad_parameter("to", "it is a version, or its first hexadecimal digits"));
    }
    publish(&app, move |library| library.roll_back(&name, to.as_deref())).await
}

/// `POST /v1/admin/databases/{name}/compact`: builds a new base from the base and its changes.
pub(super) async fn compact(State(app): State<Arc<App>>, Name(name): Name) -> Result<Response, Refused> {
    publish(&app, move |library| library.compact(&name)).await
}

/// `POST /v1/admin/reload`: adopts the snapshots that took the places of served ones; with
/// `?shrinking=allow` also those with less than half the values.
pub(super) async fn reload(State(app): State<Arc<App>>, uri: Uri) -> Result<Response, Refused> {
    let (library, shrinking) = (Arc::clone(library(&app)?), shrinking(&uri)?);
    // The panic hook has written the panic's message to standard error.
    let reloaded = tokio::task::spawn_blocking(move || library.reload(shrinking)).await;
    let reloaded = reloaded.map_err(|_| Refused::internal("the reload was aborted by a defect"))?;
    app.metrics.reloaded("snapshots", reloaded.is_ok());
    Ok(json_body(&json!({ "databases": reloaded? })))
}

/// Returns true if a text can be the first digits of a version.
fn is_prefix(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns the treatment of smaller tables that a request asks for.
fn shrinking(uri: &Uri) -> Result<Shrinking, Refused> {
    match parameter(uri, "shrinking") {
        None | Some("refuse") => Ok(Shrinking::Refuse),
        Some("allow") => Ok(Shrinking::Allow),
        Some(_) => Err(Refused::bad_parameter("shrinking", "it is allow or refuse")),
    }
}

/// Returns the library; refuses if the caller loaded the databases.
pub(super) fn library(App { library, .. }: &App) -> Result<&Arc<Library>, Refused> {
    library.as_ref().ok_or_else(|| PublishError::UnknownDatabase.into())
}

/// Runs a publication on an upload, which its thread reads as fast as the data arrives; the data
/// must arrive at the minimum rate. A refusal is sent after the whole upload has been read.
/// Otherwise a publisher could miss the refusal of a snapshot that is longer than the server drains
/// while it sends a response. Publishers are allowed to send the whole snapshot anyway.
async fn publish_upload(
    app: &App,
    request: Request,
    content_type: &str,
    work: impl FnOnce(&Arc<Library>, &mut dyn Read) -> Result<Published, PublishError> + Send + 'static,
) -> Result<Response, Refused> {
    // An HTML form cannot send these types.
    if !has_type(request.headers(), content_type) {
        return Err(Refused::wrong_content_type(content_type));
    }
    let frames = Paced::new(request.into_body(), app.read_rate);
    let mut upload = BodyReader::new(frames, Handle::current());
    publish(app, move |library| {
        work(library, &mut upload).inspect_err(|_| {
            // Errors in the rest do not matter: the refusal reports the first problem.
            let _ = io::copy(&mut upload, &mut io::sink());
        })
    })
    .await
}

/// Runs a publication to its end on the blocking pool, even if its publisher goes away.
async fn publish(
    app: &App,
    work: impl FnOnce(&Arc<Library>) -> Result<Published, PublishError> + Send + 'static,
) -> Result<Response, Refused> {
    let library = Arc::clone(library(app)?);
    // The panic hook has written the panic's message to standard error.
    let published = tokio::task::spawn_blocking(move || work(&library)).await;
    let published = published.map_err(|_| Refused::internal("the publication was aborted by a defect"))?;
    let published = published.inspect_err(|error| tracing::error!(%error, "a publication failed"))?;
    Ok(json_body(&serde_json::to_value(published).expect("numbers and text are JSON")))
}
