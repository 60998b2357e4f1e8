//! Endpoints for operators, on their own port, for tokens with the scope `admin`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::UNIX_EPOCH;

use axum::extract::State;
use axum::response::Response;
use serde_json::{Value, json};
use spirea_engine::keys::Amount;
use spirea_engine::{KeyUsage, Status};

use super::control::describe_with_cause;
use super::response::json_body;
use crate::app::App;

/// Returns the databases with their versions and states, and the causes of failed databases and
/// failed last compactions.
pub(super) async fn databases(State(app): State<Arc<App>>) -> Response {
    json_body(&json!({ "databases": described(&app) }))
}

/// Describes the databases, with the cause for each that could not be loaded or compacted.
fn described(app: &App) -> Vec<Value> {
    let failed = app.library.iter().flat_map(|library| library.failed_compactions());
    let causes: BTreeMap<_, _> =
        failed.filter_map(|(name, failed)| Some((name.to_owned(), failed.last?))).collect();
    let describe = |status: &Status| {
        let mut described = describe_with_cause(status);
        if let Some(cause) = causes.get(&status.name) {
            described["compaction_failed"] = json!(cause);
        }
        described
    };
    app.engine.statuses().iter().map(describe).collect()
}

/// Returns the state of the server.
pub(super) async fn status(State(app): State<Arc<App>>) -> Response {
    let load = app.engine.load();
    let KeyUsage { memory, disk } = app.engine.key_usage();
    let amount = |amount: Amount| json!({ "sets": amount.sets, "bytes": amount.bytes });
    let expiry = app.certificate_expiry().and_then(|expiry| expiry.duration_since(UNIX_EPOCH).ok());
    json_body(&json!({
        "server": env!("CARGO_PKG_VERSION"),
        "uptime_seconds": app.started.elapsed().as_secs(),
        "leaving": app.leaving.load(Ordering::Relaxed),
        "load": { "waiting": load.waiting, "running": load.running },
        "keys": { "memory": amount(memory), "disk": amount(disk) },
        "connections": app.metrics.connections.get(),
        "requests": app.metrics.in_flight.get(),
        "body_memory_bytes": app.memory.taken(),
        "certificate_expiry_unix_seconds": expiry.map(|expiry| expiry.as_secs()),
        "databases": described(&app),
    }))
}
