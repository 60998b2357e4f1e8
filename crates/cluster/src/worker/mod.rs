//! Server of one share, for a coordinator alone.

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
use spirea_protocols::{Opening, Party, Role, Version};
use spirea_server::{
    BackendChoice, Collector, Limits, OperatorNames, RequestMemory, ShareBackends, Spans, Stopper, listening,
    serve_router,
};
use spirea_store::{Snapshot, StoreError};
use tokio::net::TcpListener;

use self::metrics::WorkerMetrics;
use self::queue::Queue;
use self::service::Service;
use crate::status::ShareStatus;
use crate::tls::{MutualFiles, MutualTls, MutualTlsError};

/// Configuration of a worker.
#[derive(Clone, Debug)]
pub struct WorkerConfig {
    /// Folder of the snapshot; only the share's bytes need to be there.
    pub snapshot: PathBuf,
    /// Required version of the snapshot; `None` accepts any.
    pub version: Option<Version>,
    /// Share to serve.
    pub share: Share,
    /// Party, for a protocol with two servers.
    pub party: Option<Party>,
    /// Address for the coordinator; port 0 takes a free port.
    pub listen: SocketAddr,
    /// Certificates by which the worker and the coordinator authenticate each other.
    pub tls: MutualFiles,
    /// Address of metrics and probes, without TLS; `None` for no such endpoints.
    pub metrics: Option<SocketAddr>,
    /// Host names under which metrics and probes may be asked, besides addresses and `localhost`.
    pub metrics_names: Vec<String>,
    /// Backend that computes. A worker whose device fails ends, so that a supervisor can restart it
    /// on a working device.
    pub backend: BackendChoice,
    /// Number of threads that compute on the processor; 0 for the number of cores.
    pub threads: usize,
    /// Form in which the share is held.
    pub residence: Residence,
    /// Maximum number of batches that wait while another one is computed.
    pub queue: usize,
    /// Limits of both ports. `body_memory` bounds all that requests hold: bodies, computing and
    /// partials.
    pub limits: Limits,
    /// Storage and quota of clients' evaluation keys, if the share needs any.
    pub keys: KeyOptions,
    /// Collector for spans of batches; `None` for no spans.
    pub traces: Option<Collector>,
    /// Time for which the worker keeps its endpoints open after the stop signal, so that the
    /// coordinator sees that it drains. It refuses new batches during this time.
    pub drain_delay: Duration,
}

/// Reason why a worker does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkerError {
    /// The snapshot, or the share's bytes of it, cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The folder has a version other than the required one.
    #[error("{folder}: the snapshot has version {found}, not {wanted}; copy the snapshot again", folder = .folder.display())]
    OtherVersion {
        /// Folder of the snapshot.
        folder: PathBuf,
        /// Version found, in hexadecimal digits.
        found: String,
        /// Required version, in hexadecimal digits.
        wanted: String,
    },
    /// The share cannot be opened.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The certificates cannot be used.
    #[error(transparent)]
    Tls(#[from] MutualTlsError),
    /// The folder for evaluation keys cannot be used.
    #[error(transparent)]
    Keys(#[from] KeyFolderError),
    /// The worker cannot listen on an address.
    #[error("cannot listen on {address}: {source}; {}", listening(*.address, .source))]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Error of the system.
        source: std::io::Error,
    },
    /// The system refused another resource.
    #[error("the system refused {what}: {source}")]
    System {
        /// Resource that was requested.
        what: &'static str,
        /// Error of the system.
        source: std::io::Error,
    },
    /// The metrics contradict each other: a defect.
    #[error("the metrics could not be set up: {0}")]
    Metrics(#[from] prometheus::Error),
}

/// A worker with its share opened and its ports bound.
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
    /// Verifies and opens the share, then binds the ports. Takes as long as reading the share.
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
            let (memory, port) = (RequestMemory::new(config.limits.body_memory), config.limits);
            Service { database, limits, keys, queue, memory, port, bytes, metrics, spans, leaving }
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

    /// Returns the address for the coordinator.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the address of the metrics.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().map(|(_, address)| *address)
    }

    /// Returns the name of the backend.
    pub fn backend(&self) -> &str {
        &self.backend
    }

    /// Returns the status report.
    pub fn status(&self) -> ShareStatus {
        self.service.status()
    }

    /// Returns a handle that stops the worker.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Serves until stopped. For the drain delay the worker then reports `draining` and refuses new
    /// batches. Afterwards it ends, as soon as the batches that it has are computed.
    pub async fn run(self) {
        let Self { service, tls, listener, metrics, metrics_names, drain_delay, stopper, .. } = self;
        let watching = tokio::spawn(Arc::clone(&tls).watch());
        let (stop_batches, stop_metrics) = (Stopper::new(), Stopper::new());
        let leave = async {
            stopper.stopped().await;
            service.leaving.store(true, Ordering::Relaxed);
            tokio::time::sleep(drain_delay).await;
            stop_batches.stop();
        };
        let serve = async {
            let tls = Some(tls.acceptor());
            serve_router(listener, tls, service.router(), service.port.clone(), &stop_batches).await;
            stop_metrics.stop();
        };
        let serve_metrics = async {
            if let Some((listener, _)) = metrics {
                let router = metrics_names.guard(service.watched());
                serve_router(listener, None, router, service.port.clone(), &stop_metrics).await;
            }
        };
        tokio::join!(leave, serve, serve_metrics);
        if let Some(spans) = &service.spans {
            spans.flush().await;
        }
        watching.abort();
    }
}

/// Opens a snapshot, and refuses any version but the required one, if there is one.
fn pinned(folder: &Path, version: Option<Version>) -> Result<Snapshot, WorkerError> {
    let snapshot = Snapshot::open(folder)?;
    match version {
        Some(wanted) if wanted != snapshot.version() => Err(WorkerError::OtherVersion {
            folder: folder.into(),
            found: snapshot.version().to_string(),
            wanted: wanted.to_string(),
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
