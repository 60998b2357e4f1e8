use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use spirea_backend::Residence;
use spirea_engine::KeyOptions;
use spirea_protocols::Party;

use crate::BackendChoice;

/// What a server serves, and how.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The address to listen on; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Folders of snapshots, one for each database.
    pub snapshots: Vec<PathBuf>,
    /// Which backend answers.
    pub backend: BackendChoice,
    /// Threads that answer, at least 1.
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
    /// Bounds for connections and requests.
    pub limits: Limits,
}

impl Default for ServerConfig {
    /// No snapshots, port 8080 of this machine only, all cores, keys in memory only.
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)),
            snapshots: Vec::new(),
            backend: BackendChoice::default(),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            residence: Residence::default(),
            party: None,
            queue: 64,
            keys: KeyOptions::default(),
            limits: Limits::default(),
        }
    }
}

/// Bounds for connections and requests.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The longest pause while headers or a body arrive, and the longest time for headers as a whole. A body
    /// has this and a second for every 16 KiB.
    pub read_timeout: Duration,
    /// How long accepted requests may take when the server stops.
    pub drain_timeout: Duration,
    /// The most bytes of bodies that are received or wait, over all requests.
    pub body_memory: u64,
    /// The most open connections; more wait to be accepted.
    pub connections: usize,
}

impl Default for Limits {
    /// 30 seconds each, 1 GiB, 4096 connections.
    fn default() -> Self {
        Self {
            read_timeout: Duration::from_secs(30),
            drain_timeout: Duration::from_secs(30),
            body_memory: 1 << 30,
            connections: 4096,
        }
    }
}
