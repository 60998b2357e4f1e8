//! The server of one share, for a coordinator alone.

mod metrics;
mod queue;
mod service;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use spirea_backend::{Residence, Share};
use spirea_engine::keys::KeyFolderError;
use spirea_engine::{KeyOptions, KeyRegistry, LoadError};
use spirea_protocols::{Opening, Party, Role};
use spirea_server::{
    BackendChoice, Collector, Limits, OperatorNames, ShareBackends, Spans, Stopper, listening, serve_router,
};
use spirea_store::{Snapshot, StoreError};
use tokio::net::TcpListener;

use self::metrics::WorkerMetrics;
use self::queue::Queue;
use self::service::Service;
use crate::status::ShareStatus;
use crate::tls::{MutualFiles, MutualTls, MutualTlsError};

/// What a worker serves, and how.
#[derive(Clone, Debug)]
pub struct WorkerConfig {
    /// The folder of the snapshot, of which only the share's bytes need be there.
    pub snapshot: PathBuf,
    /// The version that the snapshot must have; any if none is named.
    pub version: Option<[u8; 32]>,
    /// Which share.
    pub share: Share,
    /// Which of a protocol's two servers, where it has two.
    pub party: Option<Party>,
    /// The address for the coordinator; port 0 takes a free one.
    pub listen: SocketAddr,
    /// By what it and the coordinator know each other.
    pub tls: MutualFiles,
    /// The address of metrics and probes, without TLS; none if there is none.
    pub metrics: Option<SocketAddr>,
    /// Host names under which metrics and probes may be asked, beside addresses and `localhost`.
    pub metrics_names: Vec<String>,
    /// Which backend computes. A worker whose device fails ends: whoever starts it again has it on one that does not.
    pub backend: BackendChoice,
    /// Threads that compute on the processor; 0 for as many as there are cores.
    pub threads: usize,
    /// How the share is held.
    pub residence: Residence,
    /// The most batches that wait while one is computed.
    pub queue: usize,
    /// Where clients' evaluation keys are held, and how many, if the share needs any.
    pub keys: KeyOptions,
    /// Where spans of batches are sent to; none are without it.
    pub traces: Option<Collector>,
    /// How long it goes on when it is to stop, so that its coordinator sees it, before it takes no batch any more.
    pub drain_delay: Duration,
}

/// Why a worker does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkerError {
    /// The snapshot, or the share's bytes of it, cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The folder has another version than the one that was asked for.
    #[error("{folder}: the snapshot has version {found}, not {wanted}; copy the snapshot again", folder = .folder.display())]
    OtherVersion {
        /// The snapshot's folder.
        folder: PathBuf,
        /// The version found, in hexadecimal digits.
        found: String,
        /// The version asked for, in hexadecimal digits.
        wanted: String,
    },
    /// The share cannot be opened.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The certificates.
    #[error(transparent)]
    Tls(#[from] MutualTlsError),
    /// The folder for evaluation keys.
    #[error(transparent)]
    Keys(#[from] KeyFolderError),
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {source}; {}", listening(*.address, .source))]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// The system refused something else.
    #[error("the system refused {what}: {source}")]
    System {
        /// What was asked for.
        what: &'static str,
        /// What it said.
        source: std::io::Error,
    },
    /// The metrics contradict each other: a defect.
    #[error("the metrics could not be set up: {0}")]
    Metrics(#[from] prometheus::Error),
}

/// A worker that has its share and its ports.
pub struct Worker {
    service: Arc<Service>,
    backend: String,
    tls: Arc<MutualTls>,
    listener: TcpListener,
    address: SocketAddr,
    metrics: Option<(TcpListener, SocketAddr)>,
    metrics_names: OperatorNames,
    drain_delay: Duration,
    stopper: Stopper,
}

impl Worker {
    /// Verifies and opens the share, then binds the ports. It takes as long as reading the share does.
    ///
    /// # Errors
    /// [`WorkerError`].
    pub async fn open(config: WorkerConfig) -> Result<Self, WorkerError> {
        let tls = MutualTls::open(&config.tls)?;
        let keys = Arc::new(KeyRegistry::open(&config.keys)?);
        let stopper = Stopper::new();
        let WorkerConfig { snapshot, version, share, party, residence, .. } = config;
        let backends = ShareBackends {
            choice: config.backend,
            threads: config.threads,
            keys: (Arc::clone(&keys), config.keys.memory_bytes),
            lost: {
                let stopper = stopper.clone();
                Box::new(move |reason| {
                    tracing::error!(%reason, "the device that computes has failed: this worker ends");
                    stopper.stop();
                })
            },
        };
        let open = move || {
            let snapshot = pinned(&snapshot, version)?;
            snapshot.verify_share(share)?;
            let opening = Opening { residence, party, role: Role::Folds(share) };
            let (database, backend) = backends.open(&snapshot, opening)?;
            tracing::info!(%backend, "the share is ready");
            let ranges = snapshot.manifest().protocol.share_bytes(share);
            let bytes = ranges.iter().map(|range| range.end - range.start).sum();
            Ok::<_, WorkerError>((Arc::new(database), backend, bytes))
        };
        let opened = tokio::task::spawn_blocking(open).await;
        let (database, backend, bytes) = match opened {
            Ok(opened) => opened?,
            Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
        };
        let limits = Service::limits(&database);
        let queue = Queue::new(Arc::clone(&database), config.queue);
        let queue = queue.map_err(|source| WorkerError::System { what: "a thread", source })?;
        let (listener, address) = listen(config.listen).await?;
        let metrics_port = match config.metrics {
            Some(address) => Some(listen(address).await?),
            None => None,
        };
        let leaving = AtomicBool::new(false);
        let service = {
            let metrics = WorkerMetrics::new(&service::status(&database, bytes))?;
            let spans =
                config.traces.map(|collector| Spans::start(collector, metrics.dropped_traces.clone()));
            Service { database, limits, keys, queue, bytes, metrics, spans, leaving }
        };
        Ok(Self {
            service: Arc::new(service),
            backend,
            tls,
            listener,
            address,
            metrics: metrics_port,
            metrics_names: OperatorNames::Listed(config.metrics_names),
            drain_delay: config.drain_delay,
            stopper,
        })
    }

    /// Where it listens for the coordinator.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where its metrics are.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().map(|(_, address)| *address)
    }

    /// The name of what computes.
    pub fn backend(&self) -> &str {
        &self.backend
    }

    /// What it serves.
    pub fn status(&self) -> ShareStatus {
        self.service.status()
    }

    /// Stops it when asked to.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Serves until it is stopped. Then it says so for the drain delay, takes no batch any more, and ends when those that
    /// it has are computed.
    pub async fn run(self) {
        let Self { service, tls, listener, metrics, metrics_names, drain_delay, stopper, .. } = self;
        let watching = tokio::spawn(Arc::clone(&tls).watch());
        let Limits { connections, connection_memory, .. } = Limits::default();
        // Its one client is the coordinator.
        let limits = Limits {
            client_connections: connections,
            client_connection_memory: connection_memory,
            ..Limits::default()
        };
        let (stop_batches, stop_metrics) = (Stopper::new(), Stopper::new());
        let leave = async {
            stopper.stopped().await;
            service.leaving.store(true, Ordering::Relaxed);
            tokio::time::sleep(drain_delay).await;
            stop_batches.stop();
        };
        let serve = async {
            let tls = Some(tls.acceptor());
            serve_router(listener, tls, service.router(), limits.clone(), &stop_batches).await;
            stop_metrics.stop();
        };
        let serve_metrics = async {
            if let Some((listener, _)) = metrics {
                let router = metrics_names.guard(service.watched());
                serve_router(listener, None, router, limits.clone(), &stop_metrics).await;
            }
        };
        tokio::join!(leave, serve, serve_metrics);
        if let Some(spans) = &service.spans {
            spans.flush().await;
        }
        watching.abort();
    }
}

/// Opens a snapshot, and refuses any version but the one that was asked for.
fn pinned(folder: &Path, version: Option<[u8; 32]>) -> Result<Snapshot, WorkerError> {
    let snapshot = Snapshot::open(folder)?;
    match version {
        Some(wanted) if wanted != snapshot.version() => Err(WorkerError::OtherVersion {
            folder: folder.into(),
            found: snapshot.version_hex(),
            wanted: blake3::Hash::from_bytes(wanted).to_hex().to_string(),
        }),
        _ => Ok(snapshot),
    }
}

async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), WorkerError> {
    let refused = |source| WorkerError::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    Ok((listener, address))
}
