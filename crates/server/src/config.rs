use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use spirea_backend::Residence;
use spirea_engine::KeyOptions;
use spirea_protocols::Party;

use crate::access::Tokens;
use crate::apple::{GatewayKeys, check_token_file};
use crate::demo::Demo;
use crate::follow::Follow;
use crate::library::{OpenError, Source};
use crate::pace::Rate;
use crate::tls::{Certificates, TlsError, TlsFiles};
use crate::{AppleConfig, BackendChoice, Collector, LogConfig, RedisUrl};

/// Configuration of a server.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Address to listen on; port 0 takes a free port.
    pub listen: SocketAddr,
    /// Address for publishing and administration; without an address, neither is served.
    pub admin_listen: Option<SocketAddr>,
    /// Host names under which operators reach the server, besides addresses and `localhost`; with
    /// TLS any name is accepted.
    pub admin_names: Vec<String>,
    /// Certificate for both addresses; without a certificate, connections are not encrypted.
    pub tls: Option<TlsFiles>,
    /// File of tokens; without a file, everything is open to everyone.
    pub tokens: Option<PathBuf>,
    /// True to listen without tokens even on addresses that other machines can reach.
    pub development: bool,
    /// Folders of snapshots, one for each database.
    pub snapshots: Vec<PathBuf>,
    /// True to adopt a snapshot that takes the place of a served one as soon as its files are
    /// complete; false to adopt it only when the server is told to reload.
    pub watch: bool,
    /// File of the private key that signs versions published through the server; without a key,
    /// versions that the server makes from changes are unsigned.
    pub signing_key: Option<PathBuf>,
    /// Server whose versions are copied into the repositories of this one, which then take no
    /// publications; without it, versions are published here.
    pub follow: Option<Follow>,
    /// Longest time that a version waits, after it was published, until all servers that follow
    /// this one have it; `None` if it does not wait.
    pub activate_after: Option<Duration>,
    /// Backend that answers.
    pub backend: BackendChoice,
    /// Threads that answer; 0 for all cores.
    pub threads: usize,
    /// Residence of the matrices in memory.
    pub residence: Residence,
    /// Party of this server, for databases with two servers. An operator of both servers can learn
    /// the queries.
    pub party: Option<Party>,
    /// Maximum number of requests that wait while one is being answered.
    pub queue: usize,
    /// Storage and limits of clients' evaluation keys.
    pub keys: KeyOptions,
    /// Redis server through which replicas share clients' evaluation keys.
    pub redis: Option<RedisUrl>,
    /// Maximum time of an exchange with the Redis server, from connecting to the last byte of the
    /// reply. Also the maximum time that a request waits for the exchanges of other requests.
    pub redis_timeout: Duration,
    /// Limits of Apple's clients.
    pub apple: AppleConfig,
    /// Limits for connections and requests.
    pub limits: Limits,
    /// Format of the log.
    pub log: LogConfig,
    /// Collector of request traces; without a collector, none are sent.
    pub traces: Option<Collector>,
    /// Folder of the demo page, served beside the endpoints for clients; without a folder there is
    /// no page.
    pub demo: Option<PathBuf>,
}

impl Default for ServerConfig {
    /// No snapshots, port 8080 of this machine only, neither tokens nor TLS, all cores, keys in
    /// memory only.
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
            follow: None,
            activate_after: None,
            backend: BackendChoice::default(),
            threads: 0,
            residence: Residence::default(),
            party: None,
            // Equals the batch size of most protocols. The budget for bodies bounds the memory.
            queue: 256,
            keys: KeyOptions::default(),
            redis: None,
            redis_timeout: Duration::from_millis(500),
            apple: AppleConfig::default(),
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
    /// Key in a settings file.
    pub key: String,
    /// Problem and remedy.
    pub cause: String,
}

impl ServerConfig {
    /// Checks everything that does not need a running server: settings are consistent, and the
    /// files that they name can be read.
    ///
    /// # Errors
    /// [`WrongSetting`] for the first wrong setting.
    pub fn check(&self) -> Result<(), WrongSetting> {
        self.check_settings()?;
        let wrong = |key: &str, cause: String| WrongSetting { key: key.into(), cause };
        if self.snapshots.is_empty() {
            return Err(wrong("databases", "nothing to serve; name at least one snapshot's folder".into()));
        }
        for (i, folder) in self.snapshots.iter().enumerate() {
            Source::check(folder, self.signing_key.as_deref(), self.follow.as_ref()).map_err(|error| {
                match error {
                    OpenError::Signer(error) => wrong("signing_key", error.to_string()),
                    OpenError::Store(error) => wrong(&format!("databases.{i}.path"), error.to_string()),
                }
            })?;
        }
        Ok(())
    }

    /// Checks everything that [`ServerConfig::check`] checks except databases, for a server whose
    /// databases come from elsewhere.
    ///
    /// # Errors
    /// [`WrongSetting`] for the first wrong setting.
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
        for (key, life) in [("keys.expiry", self.keys.expiry), ("apple.key_life", self.apple.key_life)] {
            if life.is_zero() {
                let cause = "evaluation keys that expire at once are of no use; allow some time, such as 30d";
                return Err(wrong(key, cause.into()));
            }
        }
        if self.apple.client_keys == 0 {
            let cause = "clients without evaluation keys cannot ask; allow some, such as 64";
            return Err(wrong("apple.client_keys", cause.into()));
        }
        if let Some(follow) = &self.follow {
            follow.check().map_err(|(key, cause)| wrong(&format!("follow.{key}"), cause))?;
            if self.signing_key.is_some() {
                let cause = "a server that follows another one copies its signatures and signs nothing; leave the key out";
                return Err(wrong("signing_key", cause.into()));
            }
        }
        if let Some(url) = &self.redis {
            url.check().map_err(|cause| wrong("keys.redis", cause))?;
        }
        if self.redis_timeout.is_zero() {
            return Err(wrong(
                "keys.redis_timeout",
                "an exchange takes some time; set 500ms, for example".into(),
            ));
        }
        if let Some(files) = &self.tls {
            for (key, file, other) in [
                ("tls.certificate", &files.certificate, "tls.key"),
                ("tls.key", &files.key, "tls.certificate"),
            ] {
                if file.as_os_str().is_empty() {
                    let cause = format!(
                        "{other} is set without it; name both files, or neither to serve without encryption"
                    );
                    return Err(wrong(key, cause));
                }
            }
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
        if let Some(file) = &self.apple.tokens {
            check_token_file(file).map_err(|error| wrong("apple.tokens", error.to_string()))?;
        }
        if let Some(file) = &self.apple.gateway {
            GatewayKeys::open(file).map_err(|error| wrong("apple.gateway", error.to_string()))?;
        }
        Ok(())
    }

    /// Checks that a server without tokens is not reachable from other machines by mistake.
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

    /// Returns the number of answering threads, at least 1.
    pub(crate) fn answering_threads(&self) -> usize {
        match self.threads {
            0 => all_cores(),
            threads => threads,
        }
    }
}

/// Returns the number of threads that the machine runs in parallel.
pub(crate) fn all_cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Limits for connections and requests.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Maximum time for a request's headers and for the TLS handshake. Also the maximum lag of a
    /// body behind `read_rate`, and so its longest pause.
    pub read_timeout: Duration,
    /// Minimum rate of a request's body, in bytes per second.
    pub read_rate: u64,
    /// Idle timeout of a connection after a response. The first request has `read_timeout` instead.
    pub idle_timeout: Duration,
    /// Maximum lag of a client behind `write_rate` while it reads a response, and so its longest
    /// pause.
    pub write_timeout: Duration,
    /// Minimum rate of a response's body, in bytes per second.
    pub write_rate: u64,
    /// Time for which `/readyz` says that the server is leaving before it stops accepting
    /// connections, so that load balancers notice.
    pub drain_delay: Duration,
    /// Time for accepted requests to finish when the server stops.
    pub drain_timeout: Duration,
    /// Maximum bytes of a request that clients are asked to keep to, so that proxies in between let
    /// it pass: lists of look-ups and the registration of keys are divided. Longer requests are
    /// answered too.
    pub request_bytes: u64,
    /// Maximum bytes of all bodies that are being received or wait.
    pub body_memory: u64,
    /// Maximum bytes that connections hold besides these bodies: buffers, request heads, HTTP/2
    /// windows and responses. A connection that does not fit waits to be accepted or is closed; a
    /// request that does not fit is refused.
    pub connection_memory: u64,
    /// Maximum number of open connections. Further connections wait to be accepted; connections
    /// without a request are then closed to make room.
    pub connections: usize,
    /// Maximum number of concurrent requests, from the headers to the end of the response; further
    /// requests are refused.
    pub requests: usize,
    /// Maximum share of `body_memory` for one client: a token or, without tokens, an address (the
    /// first 64 bits of an IPv6 address).
    pub client_body_memory: u64,
    /// Maximum share of `connection_memory` for the connections from one address.
    pub client_connection_memory: u64,
    /// Maximum number of connections from one address; further ones are closed at once.
    pub client_connections: usize,
    /// Maximum share of `requests` for one client.
    pub client_requests: usize,
}

impl Limits {
    /// Returns the minimum rate of request bodies.
    pub(crate) fn read_rate(&self) -> Rate {
        Rate { patience: self.read_timeout, bytes_per_second: self.read_rate }
    }

    /// Returns the minimum rate of response bodies.
    pub(crate) fn write_rate(&self) -> Rate {
        Rate { patience: self.write_timeout, bytes_per_second: self.write_rate }
    }
}

impl Default for Limits {
    /// Timeouts of 30 seconds to read, to write and to drain, and of 2 minutes for idle
    /// connections; no drain delay. Rates of at least 16 KiB per second to read and 4 KiB per
    /// second to write. At most 1020 KiB for a request, 1 GiB for bodies, 2 GiB for connections,
    /// 4096 connections and 1024 requests. One client gets at most half of the requests and of the
    /// memory, and a quarter of the connections.
    fn default() -> Self {
        Self {
            read_timeout: Duration::from_secs(30),
            read_rate: 16 << 10,
            idle_timeout: Duration::from_secs(120),
            write_timeout: Duration::from_secs(30),
            write_rate: 4 << 10,
            drain_delay: Duration::ZERO,
            drain_timeout: Duration::from_secs(30),
            // Just under 1 MiB, which is the default limit of nginx.
            request_bytes: 1020 << 10,
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
