use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant, SystemTime};

use spirea_backend::{BackendError, BackendId};
use spirea_cpu::priority::use_idle_time;
use spirea_engine::keys::KeyFolderError;
use spirea_engine::{Engine, KeyRegistry, LoadError};
use spirea_protocols::{Opening, ProtocolError};
use spirea_store::{Manifest, StoreError};
use tokio::net::TcpListener;

use crate::access::{Access, Gate, OperatorNames, Tokens, TokensError};
use crate::app::App;
use crate::apple::{Apple, GatewayKeys, GatewayKeysError, PrivateTokens, PrivateTokensError};
use crate::backend::Backends;
use crate::config::WrongSetting;
use crate::connections::{ADMIN_CONNECTIONS, ADMIN_MEMORY, Port, Stopper};
use crate::demo::{Demo, DemoError};
use crate::descriptors::make_room;
use crate::extension::Extension;
use crate::gpu_memory::KeyBudget;
use crate::library::{Library, Loader, Loss, OpenError, SignerError, Source, WAITING_LOOKS};
use crate::memory::{ConnectionMemory, Memory};
use crate::metrics::Metrics;
use crate::pieces::Pieces;
use crate::reload::{Reloader, Stamps, Watched, watched_folders};
use crate::routes;
use crate::shared_keys::RedisKeys;
use crate::tls::{Certificates, TlsError};
use crate::traces::Spans;
use crate::{Limits, ServerConfig};

/// Reason why a server could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address cannot be bound.
    #[error("cannot listen on {address}: {source}; {}", listening(*.address, .source))]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// There is nothing to serve.
    #[error("no snapshot to serve: name at least one folder that `spirea build` made")]
    NoSnapshots,
    /// A snapshot's manifest cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Versions published through the server could not be signed.
    #[error(transparent)]
    Signer(#[from] SignerError),
    /// A database needs the setting that states which of the two servers this is.
    #[error("{}: database {name}: {cause}", .folder.display())]
    Party {
        /// The snapshot's folder.
        folder: PathBuf,
        /// The database's name.
        name: String,
        /// The missing setting.
        cause: ProtocolError,
    },
    /// Two snapshots have the same name.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The folder for evaluation keys cannot be used.
    #[error(transparent)]
    Keys(#[from] KeyFolderError),
    /// The settings are inconsistent.
    #[error(transparent)]
    Setting(#[from] WrongSetting),
    /// The demo page cannot be served.
    #[error(transparent)]
    Demo(#[from] DemoError),
    /// The certificate cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The tokens cannot be used.
    #[error(transparent)]
    Tokens(#[from] TokensError),
    /// The private tokens of Apple's clients cannot be accepted.
    #[error(transparent)]
    PrivateTokens(#[from] PrivateTokensError),
    /// The gateway of Apple's clients has no keys.
    #[error(transparent)]
    Gateway(#[from] GatewayKeysError),
    /// The backend cannot run here.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// The system refused threads or signals.
    #[error("the system refused {what}: {source}")]
    System {
        /// The refused resource.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The metrics contradict each other: a defect.
    #[error("the metrics could not be set up: {0}")]
    Metrics(#[from] prometheus::Error),
}

/// Returns the remedy if an address cannot be bound.
pub fn listening(address: SocketAddr, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied if address.port() < 1024 => {
            "ports below 1024 need a privilege (on Linux CAP_NET_BIND_SERVICE): choose a port from 1024 on, or give the program the privilege".into()
        }
        io::ErrorKind::AddrNotAvailable => {
            format!("this machine has no such address: write 127.0.0.1:{0}, or 0.0.0.0:{0} for all that it has", address.port())
        }
        _ => "choose another address or stop the program that has it".into(),
    }
}

impl From<OpenError> for ServeError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Store(error) => Self::Store(error),
            OpenError::Signer(error) => Self::Signer(error),
        }
    }
}

impl ServeError {
    pub(crate) fn system(what: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}

/// A server with bound ports.
pub struct Server {
    listener: TcpListener,
    admin: Option<TcpListener>,
    addresses: Addresses,
    app: Arc<App>,
    limits: Limits,
    watched: Watched,
    /// Library that loads the databases, and channel of device failures.
    loading: Option<(Arc<Library>, mpsc::Receiver<Loss>)>,
    stopper: Stopper,
    reloader: Reloader,
}

/// Addresses of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// Address for clients.
    pub data: SocketAddr,
    /// Address for publishing and administration.
    pub admin: Option<SocketAddr>,
    /// True if connections are encrypted.
    pub tls: bool,
}

impl Server {
    /// Binds the ports and reads the snapshots' manifests; [`Server::run`] loads them.
    ///
    /// # Errors
    /// - [`ServeError::NoSnapshots`] if the configuration names none.
    /// - [`ServeError::Store`] if a manifest cannot be read.
    /// - [`ServeError::Signer`] if the configured key is not the key that signed the current
    ///   version.
    /// - [`ServeError::Party`] if a database needs the setting that states which of the two servers
    ///   this is.
    /// - [`ServeError::Load`] if two databases have the same name.
    /// - [`ServeError::Keys`] if the folder for keys cannot be used.
    /// - [`ServeError::Backend`] if the backend cannot run here.
    /// - [`ServeError::System`] if the system gives no thread.
    /// - Those of [`Server::bind_with`].
    pub async fn bind(config: ServerConfig) -> Result<Self, ServeError> {
        if config.snapshots.is_empty() {
            return Err(ServeError::NoSnapshots);
        }
        // The stamps are taken before the folders are read, so that no later change is missed.
        let opened = Stamps::of(&config);
        let keys = key_registry(&config)?;
        let engine = Arc::new(Engine::new(config.queue, keys).map_err(ServeError::system("a thread"))?);
        let opening = Opening { residence: config.residence, party: config.party, ..Opening::default() };
        let open = |folder: &PathBuf| {
            let source = Source::open(folder, config.signing_key.as_deref(), config.follow.as_ref())?;
            if let Some(version) = source.versions().first() {
                let Manifest { name, protocol, .. } = version.base.manifest();
                let missing = |cause| ServeError::Party { folder: folder.clone(), name: name.clone(), cause };
                protocol.party(opening).map_err(missing)?;
            }
            Ok::<_, ServeError>(source)
        };
        let sources = config.snapshots.iter().map(open).collect::<Result<_, _>>()?;
        // This reference is weak: the engine's databases own the closure, so the closure must not
        // own the engine.
        let keys = Arc::downgrade(&engine);
        let prepared =
            move |gpus: &[BackendId]| keys.upgrade().map_or(0, |engine| engine.keys_prepared_for(gpus));
        let budget = KeyBudget { most: config.keys.memory_bytes, prepared: Box::new(prepared) };
        let backends = Backends::open(&config.backend, config.answering_threads(), budget)?;
        let (loader, losses) = Loader::new(backends, opening);
        let library = Arc::new(Library::new(
            Arc::clone(&engine),
            loader,
            sources,
            config.follow.clone(),
            config.activate_after,
        )?);
        let server = Self::bind_app(&config, opened, engine, Some(Arc::clone(&library)), None).await?;
        Ok(Self { loading: Some((library, losses)), ..server })
    }

    /// Binds a port without TLS and tokens for an engine whose databases the caller loads.
    ///
    /// # Errors
    /// Those of [`Server::bind_with`].
    pub async fn bind_engine(
        listen: SocketAddr,
        limits: Limits,
        engine: Arc<Engine>,
    ) -> Result<Self, ServeError> {
        Self::bind_with(&ServerConfig { listen, limits, ..ServerConfig::default() }, engine).await
    }

    /// Binds a configuration's ports for an engine whose databases the caller loads.
    ///
    /// # Errors
    /// [`ServeError::Listen`]; [`ServeError::Setting`] if a server without tokens would be
    /// reachable from other machines; [`ServeError::Tls`] and [`ServeError::Tokens`] if their files
    /// cannot be used.
    pub async fn bind_with(config: &ServerConfig, engine: Arc<Engine>) -> Result<Self, ServeError> {
        Self::bind_app(config, Stamps::of(config), engine, None, None).await
    }

    /// Binds ports as [`Server::bind_with`] does, with additional endpoints and metrics of the
    /// program.
    ///
    /// # Errors
    /// Those of [`Server::bind_with`].
    pub async fn bind_extended(
        config: &ServerConfig,
        engine: Arc<Engine>,
        extension: Arc<dyn Extension>,
    ) -> Result<Self, ServeError> {
        Self::bind_app(config, Stamps::of(config), engine, None, Some(extension)).await
    }

    async fn bind_app(
        config: &ServerConfig,
        opened: Stamps,
        engine: Arc<Engine>,
        library: Option<Arc<Library>>,
        extension: Option<Arc<dyn Extension>>,
    ) -> Result<Self, ServeError> {
        config.check_exposure()?;
        let certificates = config.tls.as_ref().map(Certificates::open).transpose()?.map(Arc::new);
        let tokens = config.tokens.as_deref().map(Tokens::open).transpose()?.map(Arc::new);
        let demo = config.demo.as_deref().map(Demo::read).transpose()?.map(Arc::new);
        let (listener, data) = listen(config.listen).await?;
        let admin = match config.admin_listen {
            Some(address) => Some(listen(address).await?),
            None => None,
        };
        let (admin, admin_address) = admin.unzip();
        let access = tokens.clone().map_or(Access::Open, Access::Tokens);
        let limits = config.limits.clone();
        let metrics = Metrics::new()?;
        let traces = config.traces.clone();
        let gateway = config.apple.gateway.as_deref().map(GatewayKeys::open).transpose()?.map(Arc::new);
        let open = |file| PrivateTokens::open(file, metrics.private_tokens.clone());
        let private_tokens = config.apple.tokens.as_deref().map(open).transpose()?.map(Arc::new);
        let threads = config.answering_threads();
        let apple = Apple::new(&config.apple, threads, private_tokens.clone(), gateway.clone());
        let app = App {
            engine,
            traces: traces.map(|collector| Spans::start(collector, metrics.dropped_traces.clone())),
            metrics,
            memory: Memory::new(limits.body_memory),
            read_rate: limits.read_rate(),
            preparing: Arc::default(),
            pieces: Pieces::default(),
            request_bytes: limits.request_bytes,
            gate: Arc::new(Gate::new(access, &limits)),
            operator_names: match &certificates {
                Some(_) => OperatorNames::Certified,
                None => OperatorNames::Listed(config.admin_names.clone()),
            },
            certificates: certificates.clone(),
            started: Instant::now(),
            leaving: AtomicBool::new(false),
            apple,
            library,
            extension,
            demo,
        };
        Ok(Self {
            listener,
            admin,
            addresses: Addresses { data, admin: admin_address, tls: certificates.is_some() },
            app: Arc::new(app),
            limits,
            watched: Watched {
                certificates,
                tokens,
                private_tokens,
                gateway,
                snapshots: watched_folders(config),
                opened,
            },
            loading: None,
            stopper: Stopper::new(),
            reloader: Reloader::default(),
        })
    }

    /// Returns the address for clients.
    pub fn local_addr(&self) -> SocketAddr {
        self.addresses.data
    }

    /// Returns all addresses.
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// Returns a handle that stops the server.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Returns the engine that answers.
    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.app.engine
    }

    /// Returns a handle that makes the server read its certificate, its tokens, its private tokens,
    /// its gateway's keys and its folders of snapshots again.
    pub fn reloader(&self) -> Reloader {
        self.reloader.clone()
    }

    /// Loads the databases in the background and serves until [`Stopper::stop`]. Then `/readyz`
    /// reports for the drain delay that the server is leaving. Finally accepted requests are
    /// finished, until the drain timeout has passed.
    ///
    /// # Errors
    /// [`ServeError::System`] if the system gives no thread.
    pub async fn run(self) -> Result<(), ServeError> {
        let Self { listener, admin, app, limits, watched, loading, stopper, reloader, .. } = self;
        if let Some((library, losses)) = loading {
            // This is not a thread of the runtime, because the runtime would wait for the thread on
            // shutdown.
            std::thread::Builder::new()
                .name("spirea-load".into())
                .spawn(move || library.run(&losses))
                .map_err(ServeError::system("a thread"))?;
        }
        let tls = app.certificates.as_ref().map(Certificates::acceptor);
        let (open, turned_away) = (app.metrics.connections.clone(), app.metrics.turned_away.clone());
        let reserved = &app.metrics.connection_memory;
        let memory = |bytes, client_bytes| ConnectionMemory::new(bytes, client_bytes, reserved.clone());
        let port = |listener, router, places, memory| Port {
            listener,
            tls: tls.clone(),
            router,
            places,
            memory,
            limits: limits.clone(),
            open: open.clone(),
            turned_away: turned_away.clone(),
        };
        let clients = memory(limits.connection_memory, limits.client_connection_memory);
        let data = port(listener, routes::data(&app), limits.connections, clients);
        let operators = memory(ADMIN_MEMORY, ADMIN_MEMORY);
        let admin = admin.map(|listener| port(listener, routes::admin(&app), ADMIN_CONNECTIONS, operators));
        let watching = tokio::spawn(watched.run(Arc::clone(&app), reloader));
        let expiring = tokio::spawn(release_unused(Arc::clone(&app)));
        let (stop_data, stop_admin) = (Stopper::new(), Stopper::new());
        let leave = async {
            stopper.stopped().await;
            app.leaving.store(true, Ordering::Relaxed);
            if let Some(library) = &app.library {
                library.wake_looks();
            }
            tokio::time::sleep(limits.drain_delay).await;
            stop_data.stop();
        };
        let serve_data = async {
            data.serve(&stop_data).await;
            // The port for operators stays open until the last client has its answer.
            stop_admin.stop();
        };
        let serve_admin = async {
            if let Some(admin) = admin {
                admin.serve(&stop_admin).await;
            }
        };
        tokio::join!(leave, serve_data, serve_admin);
        if let Some(traces) = &app.traces {
            traces.flush().await;
        }
        if let Some(library) = &app.library {
            library.end();
        }
        watching.abort();
        expiring.abort();
        Ok(())
    }
}

/// Creates the registry of clients' evaluation keys that a configuration describes, for
/// [`Engine::new`].
///
/// # Errors
/// [`ServeError::Keys`] if the folder of the keys cannot be used, [`ServeError::Setting`] if the
/// address of the Redis server is invalid.
pub fn key_registry(config: &ServerConfig) -> Result<KeyRegistry, ServeError> {
    let keys = KeyRegistry::open(&config.keys)?;
    let Some(url) = &config.redis else { return Ok(keys) };
    let shared = RedisKeys::new(url, config.redis_timeout);
    let shared = shared.map_err(|cause| WrongSetting { key: "keys.redis".into(), cause })?;
    Ok(keys.with_shared(Box::new(shared)))
}

// Half of the connections are left for operators when as many followers wait as may.
const _: () = assert!(WAITING_LOOKS <= ADMIN_CONNECTIONS / 2);

/// Interval between checks for expired evaluation keys and idle deltas of former versions.
const EXPIRY_LOOK: Duration = Duration::from_secs(60);

async fn release_unused(app: Arc<App>) {
    loop {
        tokio::time::sleep(EXPIRY_LOOK).await;
        app.apple.keys.expire(SystemTime::now());
        let app = Arc::clone(&app);
        let release = move || {
            app.engine.expire_keys();
            app.apple.tokens.iter().for_each(|tokens| tokens.sync());
            app.library.iter().for_each(|library| library.release_idle());
        };
        // The next check makes up for a failed one.
        let _ = tokio::task::spawn_blocking(release).await;
    }
}

async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), ServeError> {
    let refused = |source| ServeError::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    Ok((listener, address))
}

/// Serves on a runtime of its own until SIGINT or SIGTERM; calls `bound` with the addresses once
/// the ports are bound. SIGHUP makes the server read the certificate, the tokens, the private
/// tokens, the gateway's keys and the folders of snapshots again. Publications use the time of idle
/// processors ([`use_idle_time`]).
///
/// # Errors
/// Those of [`Server::bind`]; [`ServeError::System`] if the system refuses threads or signals.
pub fn serve(mut config: ServerConfig, bound: impl FnOnce(Addresses)) -> Result<(), ServeError> {
    make_room(&mut config.limits);
    use_idle_time();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(ServeError::system("threads"))?;
    runtime.block_on(async {
        let server = Server::bind(config).await?;
        heed_signals(server.stopper(), server.reloader()).map_err(ServeError::system("signals"))?;
        bound(server.addresses());
        server.run().await
    })
}

/// Stops a server when the process is asked to end, and reloads its files on SIGHUP.
///
/// # Errors
/// If the system refuses signals.
#[cfg(unix)]
pub fn heed_signals(stopper: Stopper, reloader: Reloader) -> io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};

    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let mut hangup = signal(SignalKind::hangup())?;
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            reloader.reload();
        }
    });
    tokio::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => (),
            _ = terminate.recv() => (),
        }
        stopper.stop();
        tracing::info!("stopping: accepted requests are finished first");
    });
    Ok(())
}

/// Stops a server when the process is asked to end.
///
/// # Errors
/// None.
#[cfg(not(unix))]
pub fn heed_signals(stopper: Stopper, _: Reloader) -> io::Result<()> {
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            stopper.stop();
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_is_refused_comes_with_a_remedy() {
        let refused = |address: &str, kind: io::ErrorKind| {
            ServeError::Listen { address: address.parse().unwrap(), source: kind.into() }.to_string()
        };
        let said = refused("127.0.0.1:80", io::ErrorKind::PermissionDenied);
        assert!(said.contains("ports below 1024 need a privilege"), "{said}");
        let said = refused("127.0.0.1:8080", io::ErrorKind::PermissionDenied);
        assert!(!said.contains("1024"), "{said}");
        let said = refused("192.0.2.1:80", io::ErrorKind::AddrNotAvailable);
        assert!(said.contains("write 127.0.0.1:80, or 0.0.0.0:80"), "{said}");
        let said = refused("127.0.0.1:80", io::ErrorKind::AddrInUse);
        assert!(said.contains("stop the program that has it"), "{said}");
    }
}
