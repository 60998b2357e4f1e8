use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use spirea_backend::Residence;
use spirea_engine::KeyOptions;
use spirea_protocols::Party;

use crate::access::Tokens;
use crate::demo::Demo;
use crate::library::{OpenError, Source};
use crate::pace::Rate;
use crate::tls::{Certificates, TlsError, TlsFiles};
use crate::{BackendChoice, Collector, LogConfig, RedisUrl};

/// What a server serves, and how.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The address to listen on; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The address for publishing and administration; without one there is neither.
    pub admin_listen: Option<SocketAddr>,
    /// Names of hosts under which operators reach it, beside addresses and `localhost`; with TLS any name is accepted.
    pub admin_names: Vec<String>,
    /// The certificate of both addresses; without one, connections are not encrypted.
    pub tls: Option<TlsFiles>,
    /// The file of tokens; without one, everyone may ask for everything.
    pub tokens: Option<PathBuf>,
    /// Whether to listen on addresses that other machines reach though there are no tokens.
    pub development: bool,
    /// Folders of snapshots, one for each database.
    pub snapshots: Vec<PathBuf>,
    /// Whether a snapshot that takes the place of a served one is adopted as soon as its files are complete; without,
    /// when the server is told to reload.
    pub watch: bool,
    /// The file of the private key that signs what is published through the server; without one, the versions that it
    /// makes of changes are unsigned.
    pub signing_key: Option<PathBuf>,
    /// Which backend answers.
    pub backend: BackendChoice,
    /// Threads that answer; 0 for as many as there are cores.
    pub threads: usize,
    /// How matrices are held.
    pub residence: Residence,
    /// Which of two servers this is, for databases that two answer for. Whoever runs both can tell what is asked
    /// for.
    pub party: Option<Party>,
    /// The most requests that wait while one is being answered.
    pub queue: usize,
    /// Where clients' evaluation keys are held, and how many.
    pub keys: KeyOptions,
    /// The Redis server by which replicas share clients' evaluation keys.
    pub redis: Option<RedisUrl>,
    /// Bounds for connections and requests.
    pub limits: Limits,
    /// The form of the log.
    pub log: LogConfig,
    /// Where traces of requests are sent to; none are without it.
    pub traces: Option<Collector>,
    /// The folder of the demo page, which is served beside the endpoints for clients; none is without it.
    pub demo: Option<PathBuf>,
}

impl Default for ServerConfig {
    /// No snapshots, port 8080 of this machine only, neither tokens nor TLS, all cores, keys in memory only.
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)),
            admin_listen: None,
            admin_names: Vec::new(),
            tls: None,
            tokens: None,
            development: false,
            snapshots: Vec::new(),
            watch: false,
            signing_key: None,
            backend: BackendChoice::default(),
            threads: 0,
            residence: Residence::default(),
            party: None,
            // As many as a batch of most protocols takes. The budget of bodies bounds their memory.
            queue: 256,
            keys: KeyOptions::default(),
            redis: None,
            limits: Limits::default(),
            log: LogConfig::default(),
            traces: None,
            demo: None,
        }
    }
}

/// A setting that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {cause}")]
pub struct WrongSetting {
    /// Its key in a file of settings.
    pub key: String,
    /// What is wrong with it, and what to do.
    pub cause: String,
}

impl ServerConfig {
    /// Checks what can be checked without serving: that the settings go together, and that the files they name can
    /// be read.
    ///
    /// # Errors
    /// [`WrongSetting`], the first that is found.
    pub fn check(&self) -> Result<(), WrongSetting> {
        self.check_settings()?;
        let wrong = |key: &str, cause: String| WrongSetting { key: key.into(), cause };
        if self.snapshots.is_empty() {
            return Err(wrong("databases", "nothing to serve; name at least one snapshot's folder".into()));
        }
        for (i, folder) in self.snapshots.iter().enumerate() {
            Source::check(folder, self.signing_key.as_deref()).map_err(|error| match error {
                OpenError::Signer(error) => wrong("signing_key", error.to_string()),
                OpenError::Store(error) => wrong(&format!("databases.{i}.path"), error.to_string()),
            })?;
        }
        Ok(())
    }

    /// The same, but for databases: for a server that has them elsewhere.
    ///
    /// # Errors
    /// [`WrongSetting`], the first that is found.
    pub(crate) fn check_settings(&self) -> Result<(), WrongSetting> {
        let wrong = |key: &str, cause: String| WrongSetting { key: key.into(), cause };
        self.check_exposure()?;
        if self.admin_listen == Some(self.listen) && self.listen.port() != 0 {
            let cause = "the same address as listen; give publishing and administration a port of their own";
            return Err(wrong("admin_listen", cause.into()));
        }
        for (key, time) in [
            ("limits.read_timeout", self.limits.read_timeout),
            ("limits.idle_timeout", self.limits.idle_timeout),
            ("limits.write_timeout", self.limits.write_timeout),
        ] {
            if time.is_zero() {
                return Err(wrong(
                    key,
                    "no request would get through in no time; allow some, such as 30s".into(),
                ));
            }
        }
        for (key, rate) in
            [("limits.read_rate", self.limits.read_rate), ("limits.write_rate", self.limits.write_rate)]
        {
            if rate == 0 {
                return Err(wrong(
                    key,
                    "bodies without a least rate hold places for ever; set some, such as 4KiB".into(),
                ));
            }
        }
        if self.keys.expiry.is_zero() {
            let cause = "evaluation keys that expire at once are of no use; allow some time, such as 30d";
            return Err(wrong("keys.expiry", cause.into()));
        }
        if let Some(url) = &self.redis {
            url.check().map_err(|cause| wrong("keys.redis", cause))?;
        }
        if let Some(files) = &self.tls {
            Certificates::open(files).map_err(|error| {
                let key = if matches!(error, TlsError::Key { .. }) { "tls.key" } else { "tls.certificate" };
                wrong(key, error.to_string())
            })?;
        }
        if let Some(folder) = &self.demo {
            Demo::check(folder).map_err(|error| wrong("demo", error.to_string()))?;
        }
        if let Some(file) = &self.tokens {
            Tokens::open(file).map_err(|error| wrong("tokens.file", error.to_string()))?;
        }
        Ok(())
    }

    /// Checks that nobody else reaches a server without tokens by mistake.
    pub(crate) fn check_exposure(&self) -> Result<(), WrongSetting> {
        if self.tokens.is_some() || self.development {
            return Ok(());
        }
        let addresses = [("listen", Some(self.listen)), ("admin_listen", self.admin_listen)];
        let exposed = addresses.into_iter().find_map(|(key, address)| {
            let address = address.filter(|address| !address.ip().is_loopback())?;
            Some((key, address))
        });
        exposed.map_or(Ok(()), |(key, address)| {
            let cause = format!(
                "other machines reach {address}, and without tokens everyone may ask for everything: name a file of tokens \
                 (tokens.file, --tokens), or say that this is meant (development = true, --insecure-no-auth)"
            );
            Err(WrongSetting { key: key.into(), cause })
        })
    }

    /// As many threads as are wanted, at least 1.
    pub(crate) fn answering_threads(&self) -> usize {
        match self.threads {
            0 => all_cores(),
            threads => threads,
        }
    }
}

/// As many threads as the machine runs at once.
pub(crate) fn all_cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Bounds for connections and requests.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The longest time for a request's headers and for the beginning of TLS, and the longest time that a body may be
    /// behind `read_rate`: so the longest pause in it.
    pub read_timeout: Duration,
    /// The least bytes a second of a request's body.
    pub read_rate: u64,
    /// How long a connection is kept after a response while no request comes. The first request has `read_timeout`.
    pub idle_timeout: Duration,
    /// The longest time that a client may be behind `write_rate` with its response: so the longest pause in it.
    pub write_timeout: Duration,
    /// The least bytes a second of a response's body.
    pub write_rate: u64,
    /// How long `/readyz` says that the server leaves before it stops to accept connections: the time that load
    /// balancers need to notice.
    pub drain_delay: Duration,
    /// How long accepted requests may take when the server stops.
    pub drain_timeout: Duration,
    /// The most bytes of bodies that are received or wait, over all requests.
    pub body_memory: u64,
    /// The most bytes that connections hold beside these bodies: buffers, heads of requests, windows of HTTP/2 and responses.
    /// A connection that does not fit waits to be accepted, or is closed; a request that does not fit is refused.
    pub connection_memory: u64,
    /// The most open connections; more wait to be accepted, and those without a request are closed for them.
    pub connections: usize,
    /// The most requests that are served at once, from headers to the end of the response; more are refused.
    pub requests: usize,
    /// The most of `body_memory` that one client has: a token, or without tokens an address (of version 6 its first
    /// 64 bits).
    pub client_body_memory: u64,
    /// The most of `connection_memory` that the connections from one address have.
    pub client_connection_memory: u64,
    /// The most connections from one address; more are closed at once.
    pub client_connections: usize,
    /// The most of `requests` that one client has.
    pub client_requests: usize,
}

impl Limits {
    /// The least rate of requests' bodies.
    pub(crate) fn read_rate(&self) -> Rate {
        Rate { patience: self.read_timeout, bytes_per_second: self.read_rate }
    }

    /// The least rate of responses' bodies.
    pub(crate) fn write_rate(&self) -> Rate {
        Rate { patience: self.write_timeout, bytes_per_second: self.write_rate }
    }
}

impl Default for Limits {
    /// 30 seconds to read, to write and to drain, 16 KiB a second to read and 4 KiB to write, 2 minutes of idleness, no
    /// delay, 1 GiB for bodies, 2 GiB for connections, 4096 connections, 1024 requests; of these half for one client, and a quarter of the connections.
    fn default() -> Self {
        Self {
            read_timeout: Duration::from_secs(30),
            read_rate: 16 << 10,
            idle_timeout: Duration::from_secs(120),
            write_timeout: Duration::from_secs(30),
            write_rate: 4 << 10,
            drain_delay: Duration::ZERO,
            drain_timeout: Duration::from_secs(30),
            body_memory: 1 << 30,
            connection_memory: 2 << 30,
            connections: 4096,
            requests: 1024,
            client_body_memory: 512 << 20,
            client_connection_memory: 1 << 30,
            client_connections: 1024,
            client_requests: 512,
        }
    }
}
