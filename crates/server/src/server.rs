use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;

use spirea_backend::{BackendError, Residence};
use spirea_cpu::CpuBackend;
use spirea_engine::keys::KeyFolderError;
use spirea_engine::{Database, Engine, KeyRegistry, LoadError};
use spirea_protocols::ProtocolError;
use spirea_protocols::registry::Opening;
use spirea_store::{Manifest, Silent, Snapshot, StoreError};
use tokio::net::TcpListener;

use crate::body::BodyMemory;
use crate::connections::{self, Stopper};
use crate::metrics::Metrics;
use crate::routes::{App, router};
use crate::{Limits, ServerConfig};

/// Why a server could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}; choose another address or stop the program that has it")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// There is nothing to serve.
    #[error("no snapshot to serve: name at least one folder that `spirea build` made")]
    NoSnapshots,
    /// A snapshot's manifest cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A database needs to know which of two servers this is.
    #[error("{}: database {name}: {cause}", .folder.display())]
    Party {
        /// The snapshot's folder.
        folder: PathBuf,
        /// The database's name.
        name: String,
        /// What is missing.
        cause: ProtocolError,
    },
    /// Two snapshots have one name.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The folder for evaluation keys cannot be used.
    #[error(transparent)]
    Keys(#[from] KeyFolderError),
    /// The backend cannot run here.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// The system refused threads or signals.
    #[error("the system refused {what}: {source}")]
    System {
        /// What was asked for.
        what: &'static str,
        /// What it said.
        source: io::Error,
    },
    /// The metrics contradict each other: a defect.
    #[error("the metrics could not be set up: {0}")]
    Metrics(#[from] prometheus::Error),
}

impl ServeError {
    fn system(what: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}

/// What is loaded in the background.
struct Loading {
    snapshots: Vec<Snapshot>,
    backend: Arc<CpuBackend>,
    opening: Opening,
}

impl Loading {
    fn run(self, engine: &Engine) {
        // Touching memory for the first time takes longer than mapping a file, so tables that are to be copied
        // are answered from their files until they are. What must be transformed first is loaded once.
        let soon = |snapshot: &Snapshot| match snapshot.manifest().protocol.sizes().keys_bytes {
            0 => Opening { residence: Residence::Mapped, ..self.opening },
            _ => self.opening,
        };
        for snapshot in &self.snapshots {
            let loaded = Self::load(engine, snapshot, || {
                Database::load(snapshot, &self.backend, soon(snapshot), &Silent)
            });
            if let Err(cause) = loaded {
                engine.fail(&snapshot.manifest().name, cause);
            }
        }
        for snapshot in self.snapshots.iter().filter(|snapshot| soon(snapshot) != self.opening) {
            // A table that cannot be copied is still answered from its file; the log says why.
            if engine.database(&snapshot.manifest().name).is_ok() {
                let _ =
                    Self::load(engine, snapshot, || Database::open(snapshot, &self.backend, self.opening));
            }
        }
    }

    /// Loads a database and publishes it, or says why it could not be.
    fn load(
        engine: &Engine,
        snapshot: &Snapshot,
        load: impl FnOnce() -> Result<Database, LoadError>,
    ) -> Result<(), String> {
        let name = &snapshot.manifest().name;
        // A defect in loading one database is not the end of the others.
        match catch_unwind(AssertUnwindSafe(load)) {
            Ok(Ok(database)) => {
                tracing::info!(database = %name, version = %snapshot.version_hex(), "the database is ready");
                engine.publish(database);
                Ok(())
            }
            Ok(Err(error)) => {
                tracing::error!(database = %name, %error, "the database could not be loaded");
                Err(error.to_string())
            }
            Err(_) => {
                tracing::error!(database = %name, "loading the database was aborted by a defect");
                Err("loading was aborted by a defect; the log has more".into())
            }
        }
    }
}

/// A server that has its port.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    app: Arc<App>,
    limits: Limits,
    loading: Option<Loading>,
    stopper: Stopper,
}

impl Server {
    /// Binds the port and reads the snapshots' manifests; [`Server::run`] loads them.
    ///
    /// # Errors
    /// [`ServeError::NoSnapshots`]; [`ServeError::Listen`]; [`ServeError::Store`] if a manifest cannot be
    /// read; [`ServeError::Party`] if a database needs to know which of two servers this is;
    /// [`ServeError::Load`] if two databases have one name; [`ServeError::Keys`] if the folder for keys
    /// cannot be used; [`ServeError::Backend`] if the backend cannot run here; [`ServeError::System`] if the
    /// system gives no thread.
    pub async fn bind(config: ServerConfig) -> Result<Self, ServeError> {
        if config.snapshots.is_empty() {
            return Err(ServeError::NoSnapshots);
        }
        let keys = KeyRegistry::open(&config.keys)?;
        let engine = Arc::new(Engine::new(config.queue, keys).map_err(ServeError::system("a thread"))?);
        let server = Self::bind_engine(config.listen, config.limits, Arc::clone(&engine)).await?;
        let opening = Opening { residence: config.residence, party: config.party };
        let open = |folder: &PathBuf| {
            let snapshot = Snapshot::open(folder)?;
            let Manifest { name, protocol, .. } = snapshot.manifest();
            let missing = |cause| ServeError::Party { folder: folder.clone(), name: name.clone(), cause };
            protocol.party(opening).map_err(missing)?;
            engine.announce(name, snapshot.version())?;
            Ok::<_, ServeError>(snapshot)
        };
        let loading = Loading {
            snapshots: config.snapshots.iter().map(open).collect::<Result<_, _>>()?,
            backend: Arc::new(CpuBackend::new(config.threads)?),
            opening,
        };
        Ok(Self { loading: Some(loading), ..server })
    }

    /// Binds the port for an engine whose databases the caller loads.
    ///
    /// # Errors
    /// [`ServeError::Listen`].
    pub async fn bind_engine(
        listen: SocketAddr,
        limits: Limits,
        engine: Arc<Engine>,
    ) -> Result<Self, ServeError> {
        let refused = |source| ServeError::Listen { address: listen, source };
        let listener = TcpListener::bind(listen).await.map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let app = App {
            engine,
            metrics: Metrics::new()?,
            memory: BodyMemory::new(limits.body_memory),
            read_timeout: limits.read_timeout,
            preparing: Arc::default(),
        };
        Ok(Self { listener, address, app: Arc::new(app), limits, loading: None, stopper: Stopper::new() })
    }

    /// The address it listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Stops the server when asked to.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Loads the databases in the background and serves until [`Stopper::stop`], and then until accepted
    /// requests are finished or the drain timeout has passed.
    ///
    /// # Errors
    /// [`ServeError::System`] if the system gives no thread.
    pub async fn run(self) -> Result<(), ServeError> {
        if let Some(loading) = self.loading {
            let engine = Arc::clone(&self.app.engine);
            // Not a thread of the runtime's, whose end would wait for it.
            std::thread::Builder::new()
                .name("spirea-load".into())
                .spawn(move || loading.run(&engine))
                .map_err(ServeError::system("a thread"))?;
        }
        let open = self.app.metrics.connections.clone();
        connections::serve(self.listener, router(self.app), &self.limits, &open, &self.stopper).await;
        Ok(())
    }
}

/// Serves on a runtime of its own until SIGINT or SIGTERM; `bound` is told the address once the port is
/// bound.
///
/// # Errors
/// Those of [`Server::bind`]; [`ServeError::System`] if the system refuses threads or signals.
pub fn serve(config: ServerConfig, bound: impl FnOnce(SocketAddr)) -> Result<(), ServeError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(ServeError::system("threads"))?;
    runtime.block_on(async {
        let server = Server::bind(config).await?;
        stop_on_signals(server.stopper()).map_err(ServeError::system("signals"))?;
        bound(server.local_addr());
        server.run().await
    })
}

/// Stops a server when the process is asked to end.
#[cfg(unix)]
fn stop_on_signals(stopper: Stopper) -> io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};

    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    tokio::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => (),
            _ = terminate.recv() => (),
        }
        tracing::info!("stopping: accepted requests are finished first");
        stopper.stop();
    });
    Ok(())
}

/// Stops a server when the process is asked to end.
#[cfg(not(unix))]
fn stop_on_signals(stopper: Stopper) -> io::Result<()> {
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            stopper.stop();
        }
    });
    Ok(())
}
