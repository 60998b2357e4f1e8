use std::path::PathBuf;
use std::time::Duration;

use spirea_protocols::signature::PublicKey;

use crate::WeakPrf;

/// Is told how many bytes of a hint are there, and of how many.
pub type Progress = Box<dyn Fn(u64, u64) + Send + Sync>;

/// How a client connects, waits and remembers.
pub struct ClientOptions {
    /// The folder for hints; without one, `$XDG_CACHE_HOME/spirea` or `~/.cache/spirea`.
    pub cache: Option<PathBuf>,
    /// The token that servers ask for. It is sent over https:// only, or to this machine.
    pub token: Option<String>,
    /// A file of certificates, as PEM, that lead to those of the servers; without one, the public ones of the web.
    pub ca: Option<PathBuf>,
    /// Further addresses of each server, in the order of the servers' first ones. They are asked in turn when one
    /// cannot be reached, does not answer in time or is not ready. Each must be the same party.
    pub replicas: Vec<Vec<String>>,
    /// The longest wait for a connection.
    pub connect_timeout: Duration,
    /// The longest wait for the server to take or send anything more; a query's answer has to begin within
    /// it.
    pub timeout: Duration,
    /// How often a request is made at most to each address.
    pub attempts: u32,
    /// The longest pause before trying again; a server that asks for a longer one is not waited for.
    pub max_pause: Duration,
    /// The longest hint that is downloaded.
    pub max_hint_bytes: u64,
    /// The operator's key: versions that it did not sign, and those that are older than what has been seen, are
    /// refused. What has been seen is kept in the cache.
    pub pinned_key: Option<PublicKey>,
    /// Is told how far the download of a hint is.
    pub progress: Option<Progress>,
    /// Whether a database is asked under a function that few have analysed.
    pub weak_prf: WeakPrf,
}

impl Default for ClientOptions {
    /// 10 seconds to connect, 60 to wait, 5 attempts with pauses up to 30 seconds, hints up to 8 GiB, no weak
    /// function, no token, no replicas.
    fn default() -> Self {
        Self {
            cache: None,
            token: None,
            ca: None,
            replicas: Vec::new(),
            connect_timeout: Duration::from_secs(10),
            timeout: Duration::from_secs(60),
            attempts: 5,
            max_pause: Duration::from_secs(30),
            max_hint_bytes: 8 << 30,
            pinned_key: None,
            progress: None,
            weak_prf: WeakPrf::default(),
        }
    }
}
