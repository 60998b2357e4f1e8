//! Serving snapshots on threads of this process.
//!
//! The program `spirea serve` does the same with all of its options, as a process of its own.
//!
//! # Examples
//!
//! ```
//! # let folder = tempfile::tempdir()?;
//! # let out = folder.path().join("colours");
//! # spirea::build::Builder::from_rows(["colour"], [["red"], ["green"]]).build(&out)?;
//! let server = spirea::server::Server::start([&out])?;
//! println!("clients connect to {}", server.url());
//! server.stop()?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

use std::fmt;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

/// # Examples
///
/// ```
/// use spirea::server::Party;
///
/// assert_eq!(Party::BOTH, [Party::Zero, Party::One]);
/// ```
#[doc(inline)]
pub use spirea_server::Party;
/// # Examples
///
/// A server that other machines reach, with tokens and TLS:
///
/// ```
/// use spirea::server::{ServerConfig, TlsFiles};
///
/// let config = ServerConfig {
///     listen: "0.0.0.0:443".parse()?,
///     tls: Some(TlsFiles { certificate: "cert.pem".into(), key: "key.pem".into() }),
///     tokens: Some("tokens.toml".into()),
///     snapshots: vec!["domains".into()],
///     ..ServerConfig::default()
/// };
/// // The check reads the files that the configuration names.
/// assert!(config.check().is_err());
/// # Ok::<_, std::net::AddrParseError>(())
/// ```
#[doc(inline)]
pub use spirea_server::ServerConfig;
/// # Examples
///
/// ```
/// use spirea::server::{ServerConfig, TlsFiles};
///
/// let files = TlsFiles { certificate: "cert.pem".into(), key: "key.pem".into() };
/// let config = ServerConfig { tls: Some(files), ..ServerConfig::default() };
/// assert!(config.tls.is_some());
/// ```
#[doc(inline)]
pub use spirea_server::TlsFiles;
use spirea_server::{Addresses, Background, Readiness, ServeError};

/// Interval of checks whether the databases answer.
const PAUSE: Duration = Duration::from_millis(2);

/// Reason why a server does not serve.
///
/// # Examples
///
/// ```
/// use spirea::server::{Server, ServerError};
///
/// let error = Server::start(["no such folder"]).unwrap_err();
/// assert!(matches!(error, ServerError::Serve(_)));
/// println!("{error}");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The server could not be started, or has ended.
    #[error("{0}")]
    Serve(Box<dyn std::error::Error + Send + Sync>),
    /// A database could not be loaded.
    #[error("{}: {cause}", .name)]
    Load {
        /// The database's name.
        name: String,
        /// The cause and a remedy.
        cause: String,
    },
}

impl From<ServeError> for ServerError {
    fn from(error: ServeError) -> Self {
        Self::Serve(Box::new(error))
    }
}

/// A server on threads of this process. Dropping it stops it without waiting.
///
/// # Examples
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let out = folder.path().join("colours");
/// # spirea::build::Builder::from_rows(["colour"], [["red"], ["green"]]).build(&out)?;
/// let server = spirea::server::Server::start([&out])?;
/// let mut client = spirea::Client::connect(server.url(), "colours")?;
/// assert!(client.get_index(0)?.is_some());
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub struct Server {
    running: Background,
    url: String,
}

impl Server {
    /// Serves the snapshots in these folders on a free port of this machine, for programs on this
    /// machine. When this returns, the databases answer.
    ///
    /// # Errors
    /// Those of [`Server::start_with`].
    ///
    /// # Examples
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let out = folder.path().join("colours");
    /// # spirea::build::Builder::from_rows(["colour"], [["red"], ["green"]]).build(&out)?;
    /// let server = spirea::server::Server::start([&out])?;
    /// assert!(server.url().starts_with("http://127.0.0.1:"));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn start(snapshots: impl IntoIterator<Item = impl Into<PathBuf>>) -> Result<Self, ServerError> {
        let default = ServerConfig::default();
        Self::start_with(ServerConfig {
            listen: (default.listen.ip(), 0).into(),
            snapshots: snapshots.into_iter().map(Into::into).collect(),
            ..default
        })
    }

    /// Serves as the configuration says. When this returns, the databases answer.
    ///
    /// # Errors
    /// [`ServerError::Serve`] if the configuration, its files or its address cannot be used;
    /// [`ServerError::Load`] if a database cannot be loaded.
    ///
    /// # Examples
    ///
    /// ```
    /// use spirea::server::{Server, ServerConfig};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let out = folder.path().join("colours");
    /// # spirea::build::Builder::from_rows(["colour"], [["red"], ["green"]]).build(&out)?;
    /// let server = Server::start_with(ServerConfig {
    ///     listen: "127.0.0.1:0".parse()?,
    ///     snapshots: vec![out],
    ///     threads: 1,
    ///     ..ServerConfig::default()
    /// })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn start_with(config: ServerConfig) -> Result<Self, ServerError> {
        let running = Background::start(config)?;
        loop {
            match running.readiness() {
                Readiness::Ready => break,
                Readiness::Failed(causes) => {
                    if let Some((name, cause)) = causes.into_iter().next() {
                        return Err(ServerError::Load { name, cause });
                    }
                }
                Readiness::Loading => thread::sleep(PAUSE),
            }
        }
        let Addresses { data, tls, .. } = running.addresses();
        let scheme = if tls { "https" } else { "http" };
        Ok(Self { url: format!("{scheme}://{data}"), running })
    }

    /// Returns the address that the server listens on, as clients on this machine write it.
    ///
    /// # Examples
    ///
    /// ```
    /// # let (url, served) = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/served.rs"));
    /// # let (server, _folder) = served;
    /// let client = spirea::Client::connect(server.url(), "domains")?;
    /// # Ok::<_, spirea::LookUpError>(())
    /// ```
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Finishes accepted requests, within the drain timeout of the configuration, and stops.
    ///
    /// # Errors
    /// [`ServerError::Serve`] if the server has ended with an error.
    ///
    /// # Examples
    ///
    /// ```
    /// # let (url, served) = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/served.rs"));
    /// # let (server, _folder) = served;
    /// server.stop()?;
    /// # Ok::<_, spirea::server::ServerError>(())
    /// ```
    pub fn stop(self) -> Result<(), ServerError> {
        Ok(self.running.stop()?)
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("url", &self.url).finish_non_exhaustive()
    }
}
