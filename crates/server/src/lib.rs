//! The HTTP server.
//!
//! The server binds its ports first and loads its databases in the background; `/readyz` reports
//! when they answer. This crate alone picks the backend.
//!
//! | endpoint | what it does |
//! |---|---|
//! | `GET /` | a page that tells a browser where it is |
//! | `GET /healthz`, `/livez` | 200 while the process runs |
//! | `GET /readyz` | 200 when all databases answer, else 503; states and causes as JSON |
//! | `GET /metrics` | metrics for Prometheus |
//! | `GET /openapi.json` | these endpoints, as OpenAPI 3.1 |
//! | `GET /v1/databases` | the databases: JSON, or protobuf if `Accept` asks for it |
//! | `GET /v1/databases/{name}/config` | the configuration for clients; entity tag: the version |
//! | `GET /v1/databases/{name}/hint` | the hint, with ranges; entity tag: its BLAKE3 |
//! | `POST /v1/databases/{name}/query` | queries to answers |
//! | `POST /v1/databases/{name}/keys` | evaluation keys, for queries to name by their hash |
//!
//! For Apple's clients, if a snapshot has tables for them
//! ([`docs/apple.md`](../../../docs/apple.md)):
//!
//! | endpoint | what it does |
//! |---|---|
//! | `POST /config` | configurations of use cases, and the evaluation keys that they need |
//! | `POST /key` | evaluation keys of a client |
//! | `POST /queries` | queries to responses |
//! | `GET /.well-known/private-token-issuer-directory` | keys of the issuer of private tokens |
//! | `GET /token-key-for-user-token` | the key that signs a user's tokens |
//! | `POST /issue` | a private token for a user |
//!
//! On another port, for operators:
//!
//! | endpoint | what it does |
//! |---|---|
//! | `GET /v1/admin/databases` | the databases with their versions and states |
//! | `GET /v1/admin/status` | load, keys, connections and uptime |
//! | `POST /v1/admin/reload` | adopts snapshots that took the places of served ones |
//! | `.../databases/{name}/record`, `snapshots` | the current version and its files, for followers |
//! | `.../databases/{name}/versions`, `changes`, `snapshot`, `rollback`, `compact` | versions of a repository |
//! | probes, `/metrics` and `/openapi.json` | as above |
//!
//! The server speaks HTTP/1.1, and HTTP/2 if TLS negotiates it. Endpoints below `/v1` need a token
//! if the server has a file of tokens. Every response with a status of 400 or above carries a
//! protobuf [`Error`](spirea_wire::proto::Error) with the cause and a remedy. If `Accept` prefers
//! JSON or HTML, problem details (RFC 9457) state the cause and the remedy instead.

mod accept;
mod access;
mod activity;
mod app;
mod apple;
mod backend;
mod background;
mod body;
mod config;
mod connections;
mod demo;
mod descriptors;
mod drain;
mod extension;
mod file_body;
mod follow;
mod gpu_memory;
mod held;
mod library;
mod logs;
mod memory;
mod metrics;
mod observe;
mod pace;
mod pieces;
mod problem;
mod range;
mod refused;
mod reload;
mod routes;
mod server;
pub mod settings;
mod shared_keys;
mod tls;
mod traces;

pub use access::{OperatorNames, Quota, QuotaError, REQUEST_ID, Scope, Secret, TOKEN_PREFIX, TokensError};
pub use apple::{AppleConfig, GatewayKeysError, PrivateTokensError, parse_tier};
pub use backend::{BackendChoice, PimChoice, PimMachine, Processor, ShareBackends, gpu_demand};
pub use background::{Background, Readiness};
pub use body::{BodyError, declared_bytes, read_body};
pub use config::{Limits, ServerConfig, WrongSetting};
pub use connections::{Stopper, serve_router};
pub use demo::DemoError;
pub use extension::Extension;
pub use follow::Follow;
pub use library::SignerError;
pub use logs::{LogConfig, LogFormat, Logs, init_logs};
pub use memory::{Accounted, RequestMemory};
pub use reload::Reloader;
pub use server::{Addresses, ServeError, Server, heed_signals, key_registry, listening, serve};
pub use shared_keys::RedisUrl;
pub use spirea_engine::keys::{Amount, ClientBudget, KeyOptions};
pub use spirea_protocols::Party;
pub use tls::{Identity, TlsError, TlsFiles, expired, expiry, peer_expiry};
pub use traces::{Collector, Span, Spans};
