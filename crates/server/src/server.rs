use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, mpsc};

use spirea_backend::{BackendError, Residence};
use spirea_engine::keys::KeyFolderError;
use spirea_engine::{Engine, KeyRegistry, LoadError};
use spirea_protocols::ProtocolError;
use spirea_protocols::registry::Opening;
use spirea_store::{Manifest, Silent, Snapshot, StoreError};
use tokio::net::TcpListener;

use crate::backend::{Backends, Opened};
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
    backends: Backends,
    opening: Opening,
}

impl Loading {
    /// Loads all databases; then, where some are on GPUs, waits for one to fail, and answers on the processor.
    fn run(mut self, engine: Arc<Engine>) {
        let (lost, losses) = mpsc::channel();
        for snapshot in &self.snapshots {
            let load = || {
                snapshot.verify(&Silent)?;
                self.backends.database(snapshot, self.soon(snapshot))
            };
            if let Err(cause) = Self::load(&engine, snapshot, &lost, load) {
                engine.fail(&snapshot.manifest().name, cause);
            }
        }
        for snapshot in self.snapshots.iter().filter(|snapshot| self.soon(snapshot) != self.opening) {
            // A table that cannot be copied is still answered from its file; the log says why.
            if engine.version(&snapshot.manifest().name, None).is_ok() {
                let load = || self.backends.database(snapshot, self.opening);
                let _ = Self::load(&engine, snapshot, &lost, load);
            }
        }
        drop(lost);
        let engine = Arc::downgrade(&engine);
        while let Ok(reason) = losses.recv() {
            let Some(engine) = engine.upgrade() else { return };
            self.leave_gpus(&engine, &reason);
        }
    }

    /// How a database is opened first. Touching memory for the first time takes longer than mapping a file, so tables
    /// that are to be copied are answered from their files until they are. What must be transformed first, or copied
    /// to a GPU, is loaded once.
    fn soon(&self, snapshot: &Snapshot) -> Opening {
        match snapshot.manifest().protocol.sizes().keys_bytes {
            0 if !self.backends.on_gpus() => Opening { residence: Residence::Mapped, ..self.opening },
            _ => self.opening,
        }
    }

    /// Opens on the processor what was on GPUs, of which one failed.
    fn leave_gpus(&mut self, engine: &Engine, reason: &str) {
        if !self.backends.on_gpus() {
            return;
        }
        tracing::error!(%reason, "a GPU failed");
        let can_go_on = self.backends.lose_gpus();
        let (unheard, _) = mpsc::channel();
        for snapshot in &self.snapshots {
            let reopened = if can_go_on {
                let load = || self.backends.database(snapshot, self.opening);
                Self::load(engine, snapshot, &unheard, load)
            } else {
                Err(format!("its GPU failed ({reason}); start the server again"))
            };
            if let Err(cause) = reopened {
                engine.fail(&snapshot.manifest().name, cause);
            }
        }
    }

    /// Loads a database and publishes it, or says why it could not be.
    fn load(
        engine: &Engine,
        snapshot: &Snapshot,
        lost: &mpsc::Sender<String>,
        load: impl FnOnce() -> Result<Opened, LoadError>,
    ) -> Result<(), String> {
        let name = &snapshot.manifest().name;
        // A defect in loading one database is not the end of the others.
        match catch_unwind(AssertUnwindSafe(load)) {
            Ok(Ok(Opened { database, backend, on_gpu })) => {
                tracing::info!(database = %name, version = %snapshot.version_hex(), %backend, "the database is ready");
                let lost = lost.clone();
                let told = move |reason: &str| {
                    // Nobody listens once the GPUs have been left.
                    let _ = lost.send(reason.into());
                };
                engine.publish(if on_gpu { database.with_loss_handler(Box::new(told)) } else { database });
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
            backends: Backends::open(&config.backend, config.threads)?,
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
                .spawn(move || loading.run(engine))
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
