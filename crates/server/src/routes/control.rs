//! Probes, metrics, and descriptions of databases.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::extract::State;
use axum::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use spirea_engine::{Database, Served, State as Loading, Status};
use spirea_protocols::signature::Signature;
use spirea_protocols::{Party, Version};
use spirea_wire::{Config, DatabaseState, Listing, PartConfig, Summary};

use super::lengths::lengths;
use super::request::{Name, lists_tag, named_hash};
use super::response::{entity_tag, json_body, protobuf};
use crate::accept::{JSON, prefers};
use crate::app::App;
use crate::refused::Refused;

/// Reports that the process runs, whatever the state of its databases.
pub(super) async fn alive() -> &'static str {
    "ok\n"
}

/// Reports whether all databases answer, with causes if not, and whether the server is leaving.
pub(super) async fn ready(State(app): State<Arc<App>>) -> Response {
    let statuses = app.engine.statuses();
    let leaving = app.leaving.load(Ordering::Relaxed);
    let ready = !leaving && statuses.iter().all(|status| matches!(status.state, Loading::Ready(_)));
    let databases: Vec<Value> = statuses.iter().map(describe_with_cause).collect();
    let code = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let body = json!({ "ready": ready, "leaving": leaving, "server": env!("CARGO_PKG_VERSION"), "databases": databases });
    (code, json_body(&body)).into_response()
}

pub(super) async fn metrics(State(app): State<Arc<App>>) -> Response {
    let added = app.extension.as_ref().map_or_else(Vec::new, |extension| extension.metrics());
    let library = app.library.as_deref();
    let (content_type, text) =
        app.metrics.render(&app.engine, library, &app.memory, app.certificate_expiry(), &app.apple, added);
    ([(CONTENT_TYPE, HeaderValue::from_static(content_type))], text).into_response()
}

/// Returns the list of databases, as JSON unless protobuf is preferred.
pub(super) async fn databases(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    let statuses = app.engine.statuses();
    let mut response = if prefers(&headers, spirea_wire::CONTENT_TYPE, JSON) {
        let summary = |status: Status| Summary {
            state: match status.state {
                Loading::Loading => DatabaseState::Loading,
                Loading::Ready(_) => DatabaseState::Ready,
                Loading::Failed(_) => DatabaseState::Failed,
            },
            name: status.name,
            version: status.version,
        };
        protobuf(Listing { databases: statuses.into_iter().map(summary).collect() }.encode())
    } else {
        json_body(&json!({ "databases": statuses.iter().map(describe).collect::<Vec<_>>() }))
    };
    response.headers_mut().insert(VARY, HeaderValue::from(ACCEPT));
    response
}

/// Describes a database for operators, with the cause if it could not be loaded.
pub(super) fn describe_with_cause(status: &Status) -> Value {
    let mut described = describe(status);
    if let Loading::Failed(cause) = &status.state {
        described["error"] = json!(cause);
    }
    if let Some(cause) = &status.refused {
        described["refused"] = json!(cause);
    }
    described
}

fn describe(status: &Status) -> Value {
    let mut described = json!({ "name": status.name, "version": status.version });
    described["state"] = json!(match &status.state {
        Loading::Loading => "loading",
        Loading::Failed(_) => "failed",
        Loading::Ready(versions) => {
            described["versions"] = versions.iter().map(|served| json!(served.version())).collect();
            if let [newest, ..] = &versions[..] {
                let identity = newest.base().identity();
                described["protocol"] = json!(identity.params.name);
                described["kind"] = json!(identity.table.kind);
                described["entries"] = json!(newest.values().unwrap_or(identity.table.entries));
                described["changes"] =
                    json!(newest.delta().map_or(0, |delta| delta.identity().table.entries));
            }
            "ready"
        }
    });
    described
}

/// Returns the configuration that a client needs before its first query; "not modified" if the
/// client already has it. `?version=VERSION` names a version; the default is the newest.
pub(super) async fn config(
    State(app): State<Arc<App>>,
    Name(name): Name,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let named = named_hash(&uri, "version")?;
    let served = app.engine.version(&name, named.as_ref())?;
    let tag = entity_tag(served.version());
    let mut response = if lists_tag(&headers, IF_NONE_MATCH, &tag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let versions = app.engine.versions(&name)?.iter().map(|served| *served.version()).collect();
        protobuf(described_for_clients(&served, versions, app.request_bytes).encode())
    };
    response.headers_mut().insert(ETAG, tag);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Ok(response)
}

fn described_for_clients(served: &Served, versions: Vec<Version>, request_bytes: u64) -> Config {
    let identity = served.base().identity();
    Config {
        name: identity.name.clone(),
        version: *served.version(),
        base: part(served.base()),
        delta: served.delta().map(|delta| part(delta)),
        max_batch: served.max_batch(),
        party: identity.party.map(Party::number),
        versions,
        signature: served.signature().map(Signature::to_json).unwrap_or_default().into(),
        request_bytes,
    }
}

fn part(database: &Database) -> PartConfig {
    let identity = database.identity();
    PartConfig {
        protocol_params: identity.params.to_json().into(),
        table: serde_json::to_vec(&identity.table).expect("a table is plain data").into(),
        hint_bytes: identity.hint.bytes,
        hint_blake3: identity.hint.blake3,
        lengths: lengths(database),
        manifest: identity.manifest.clone(),
    }
}
