//! What operators see: on a port of its own, for tokens with the scope admin.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::UNIX_EPOCH;

use axum::extract::State;
use axum::response::Response;
use serde_json::{Value, json};
use spirea_engine::KeyUsage;
use spirea_engine::keys::Amount;

use super::control::describe_with_cause;
use super::response::json_body;
use crate::app::App;

/// The databases with their versions and states, and why any failed.
pub(super) async fn databases(State(app): State<Arc<App>>) -> Response {
    let databases: Vec<Value> = app.engine.statuses().iter().map(describe_with_cause).collect();
    json_body(&json!({ "databases": databases }))
}

/// How the server does.
pub(super) async fn status(State(app): State<Arc<App>>) -> Response {
    let load = app.engine.load();
    let KeyUsage { memory, disk } = app.engine.key_usage();
    let amount = |amount: Amount| json!({ "sets": amount.sets, "bytes": amount.bytes });
    let expiry = app.certificate_expiry().and_then(|expiry| expiry.duration_since(UNIX_EPOCH).ok());
    let databases: Vec<Value> = app.engine.statuses().iter().map(describe_with_cause).collect();
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
        "databases": databases,
    }))
}
