//! Coordinator: a server whose databases lie on other machines.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use prometheus::proto::MetricFamily;
use prometheus::{GaugeVec, IntCounterVec, IntGaugeVec, Opts, Registry};
use spirea_backend::BackendError;
use spirea_engine::Engine;
use spirea_server::{
    Addresses, Extension, Limits, Processor, ServeError, Server, ServerConfig, Stopper, heed_signals,
    key_registry, read_body,
};
use tokio::runtime::Handle;

use crate::databases::{DatabaseReport, Databases, Means, SnapshotReport};
use crate::group::Patience;
use crate::placement::{MAX_PLACEMENT_BYTES, Placement, PlacementError};
use crate::remote::Ending;
use crate::report::ReplicaReport;
use crate::stamp::Stamp;
use crate::tls::{MutualFiles, MutualTls, MutualTlsError};

/// Interval between looks at the placement file.
const LOOK: Duration = Duration::from_millis(200);

/// Configuration of a coordinator.
#[derive(Clone, Debug)]
pub struct CoordinatorConfig {
    /// Settings of the server for clients and operators; the placement names the snapshots.
    pub server: ServerConfig,
    /// Placement file.
    pub placement: PathBuf,
    /// Certificates by which the coordinator and its workers authenticate each other.
    pub tls: MutualFiles,
    /// Maximum time that an accepted query waits for lost machines.
    pub patience: Duration,
    /// Maximum time that reachable machines may take for a query.
    pub batch_timeout: Duration,
}

/// Reason why a coordinator does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CoordinatorError {
    /// The server cannot start.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The certificates for mutual TLS with workers cannot be used.
    #[error(transparent)]
    Tls(#[from] MutualTlsError),
    /// The processor backend cannot be opened.
    #[error(transparent)]
    Processor(#[from] BackendError),
    /// The file of the placement cannot be read.
    #[error("{}: the placement cannot be read: {source}; name a file with --placement", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// The contents of the placement file cannot be used.
    #[error("{}: {cause}", .path.display())]
    Placement {
        /// The file.
        path: PathBuf,
        /// Error in the placement.
        cause: PlacementError,
    },
}

/// A coordinator with bound ports.
pub struct Coordinator {
    server: Server,
    databases: Arc<Databases>,
    placement: PathBuf,
    seen: Option<Stamp>,
    tls: Arc<MutualTls>,
    ending: Ending,
}

fn read(path: &Path) -> Result<Placement, CoordinatorError> {
    let json =
        std::fs::read(path).map_err(|source| CoordinatorError::Unreadable { path: path.into(), source })?;
    Placement::from_json(&json).map_err(|cause| CoordinatorError::Placement { path: path.into(), cause })
}

impl Coordinator {
    /// Reads the placement, binds the ports and starts connecting to the workers.
    ///
    /// # Errors
    /// [`CoordinatorError`].
    pub async fn bind(config: CoordinatorConfig) -> Result<Self, CoordinatorError> {
        let CoordinatorConfig { server, placement, tls, patience, batch_timeout } = config;
        let seen = Stamp::of(&placement);
        let first = read(&placement)?;
        let tls = MutualTls::open(&tls)?;
        let engine = Arc::new(Engine::of_remote(server.queue, key_registry(&server)?));
        let ending = Ending::new();
        let means = Means {
            engine: Arc::clone(&engine),
            processor: Processor::new(server.threads)?,
            tls: Arc::clone(&tls),
            party: server.party,
            patience: Patience { lost: patience, computing: batch_timeout },
            runtime: Handle::current(),
            ending: ending.clone(),
        };
        let databases = Databases::new(means);
        let extension = Arc::new(Operations { databases: Arc::clone(&databases) });
        let server = Server::bind_extended(&server, engine, extension).await?;
        databases.apply(first);
        Ok(Self { server, databases, placement, seen, tls, ending })
    }

    /// Returns the addresses on which the coordinator listens.
    pub fn addresses(&self) -> Addresses {
        self.server.addresses()
    }

    /// Returns a handle that stops the coordinator.
    pub fn stopper(&self) -> Stopper {
        self.server.stopper()
    }

    /// Stops on signals that ask the process to end.
    ///
    /// # Errors
    /// [`CoordinatorError::Serve`] if the system refuses signals.
    pub fn heed_signals(&self) -> Result<(), CoordinatorError> {
        heed_signals(self.server.stopper(), self.server.reloader())
            .map_err(|source| ServeError::System { what: "signals", source }.into())
    }

    /// Serves until stopped, then finishes accepted requests.
    ///
    /// # Errors
    /// [`CoordinatorError::Serve`].
    pub async fn run(self) -> Result<(), CoordinatorError> {
        let Self { server, databases, placement, seen, tls, ending } = self;
        let tasks = [
            tokio::spawn(Arc::clone(&databases).attend()),
            tokio::spawn(tls.watch()),
            tokio::spawn(watch(Arc::clone(&databases), placement, seen)),
        ];
        let ended = server.run().await;
        ending.end().await;
        tasks.iter().for_each(tokio::task::JoinHandle::abort);
        Ok(ended?)
    }
}

/// Applies the placement's file whenever it changes.
async fn watch(databases: Arc<Databases>, path: PathBuf, mut seen: Option<Stamp>) {
    loop {
        tokio::time::sleep(LOOK).await;
        let now = Stamp::of(&path);
        if now == seen {
            continue;
        }
        seen = now;
        let (databases, path) = (Arc::clone(&databases), path.clone());
        let read = move || match read(&path) {
            Ok(placement) => {
                tracing::info!(placement = %path.display(), "the placement was read again");
                databases.apply(placement);
            }
            Err(error) => tracing::error!(%error, "the placement stays as it was"),
        };
        // A panic is harmless: the next change of the file is applied as usual.
        let _ = tokio::task::spawn_blocking(read).await;
    }
}

/// Endpoints and metrics for operators that only a coordinator has.
struct Operations {
    databases: Arc<Databases>,
}

impl Extension for Operations {
    fn admin(&self) -> Router {
        Router::new()
            .route("/v1/placement", get(placement).put(place))
            .with_state(Arc::clone(&self.databases))
    }

    fn metrics(&self) -> Vec<MetricFamily> {
        gathered(&self.databases.report()).unwrap_or_else(|error| {
            tracing::error!(%error, "the metrics of replicas contradict each other");
            Vec::new()
        })
    }
}

fn json(value: &impl serde::Serialize) -> Response {
    let mut response = Response::new(Body::from(serde_json::to_vec(value).expect("reports are plain data")));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Returns the placement with the state of each replica.
async fn placement(State(databases): State<Arc<Databases>>) -> Response {
    json(&serde_json::json!({ "databases": databases.report() }))
}

/// Applies another placement, which stays in effect until the file changes.
async fn place(State(databases): State<Arc<Databases>>, body: Body) -> Response {
    let refused = |status: StatusCode, cause: String| (status, format!("{cause}\n")).into_response();
    let body = match read_body(body, MAX_PLACEMENT_BYTES as u64, &Limits::default()).await {
        Ok(body) => body,
        Err(error) => return refused(error.status(), error.to_string()),
    };
    let applied = tokio::task::spawn_blocking(move || {
        let placement = Placement::from_json(&body)?;
        databases.apply(placement);
        Ok::<_, PlacementError>(databases)
    });
    match applied.await {
        Ok(Ok(databases)) => json(&serde_json::json!({ "databases": databases.report() })),
        Ok(Err(error)) => refused(StatusCode::BAD_REQUEST, error.to_string()),
        Err(_) => refused(StatusCode::INTERNAL_SERVER_ERROR, "the placement was aborted by a defect".into()),
    }
}

/// Converts the reports to metrics.
fn gathered(reports: &[DatabaseReport]) -> prometheus::Result<Vec<MetricFamily>> {
    let registry = Registry::new();
    let gauges = |name: &str, help: &str, labels: &[&str]| {
        let gauges = IntGaugeVec::new(Opts::new(name, help), labels)?;
        registry.register(Box::new(gauges.clone()))?;
        prometheus::Result::Ok(gauges)
    };
    let counters = |name: &str, help: &str, labels: &[&str]| {
        let counters = IntCounterVec::new(Opts::new(name, help), labels)?;
        registry.register(Box::new(counters.clone()))?;
        prometheus::Result::Ok(counters)
    };
    const REPLICA: [&str; 4] = ["database", "version", "share", "replica"];
    let ready = gauges("spirea_replica_ready", "1 if the replica of a share can be asked.", &REPLICA)?;
    let queue = gauges("spirea_replica_queue", "Batches at a replica, as it says.", &REPLICA)?;
    let requests =
        counters("spirea_replica_requests_total", "Batches that a replica was asked for.", &REPLICA)?;
    let hedges = counters(
        "spirea_replica_hedges_total",
        "Batches that a replica was asked for since another one was slow.",
        &REPLICA,
    )?;
    let failures = counters(
        "spirea_replica_failures_total",
        "Batches that a replica was lost at, or failed at.",
        &REPLICA,
    )?;
    let seconds = GaugeVec::new(
        Opts::new("spirea_replica_seconds", "Time of a replica's latest batches, by quantile."),
        &["database", "version", "share", "replica", "quantile"],
    )?;
    registry.register(Box::new(seconds.clone()))?;
    let waiting =
        gauges("spirea_database_queue_requests", "Requests for a database that wait.", &["database"])?;
    let queries = counters(
        "spirea_database_queries_total",
        "Queries of a database that were answered.",
        &["database"],
    )?;
    for DatabaseReport { name, waiting: waits, queries: answered, snapshots, .. } in reports {
        waiting.with_label_values(&[name]).set(*waits as i64);
        queries.with_label_values(&[name]).inc_by(*answered);
        for SnapshotReport { version, shares, .. } in snapshots {
            let version: String = version.iter().flat_map(|version| version.chars().take(16)).collect();
            for (share, replicas) in shares.iter().enumerate() {
                let share = share.to_string();
                for replica in replicas {
                    let ReplicaReport { url, queue: queued, p50_ms, p99_ms, .. } = replica;
                    let label = &[&**name, &*version, &*share, &**url];
                    ready.with_label_values(label).set(i64::from(replica.is_ready()));
                    queue.with_label_values(label).set(*queued as i64);
                    requests.with_label_values(label).inc_by(replica.requests);
                    hedges.with_label_values(label).inc_by(replica.hedges);
                    failures.with_label_values(label).inc_by(replica.failures);
                    for (quantile, millis) in [("0.5", p50_ms), ("0.99", p99_ms)] {
                        if let Some(millis) = millis {
                            let [database, version, share, url] = *label;
                            seconds
                                .with_label_values(&[database, version, share, url, quantile])
                                .set(millis / 1e3);
                        }
                    }
                }
            }
        }
    }
    Ok(registry.gather())
}
