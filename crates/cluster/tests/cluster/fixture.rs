//! Snapshots, workers and coordinators, each on its own runtime.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use spirea_backend::{Residence, Share};
use spirea_client::{ClientOptions, HttpClient};
use spirea_cluster::{Coordinator, CoordinatorConfig, MutualFiles, ShareStatus, Worker, WorkerConfig};
use spirea_engine::KeyOptions;
use spirea_protocols::Party;
use spirea_server::{BackendChoice, Limits, ServerConfig, Stopper};
use spirea_specimens::snapshots::{columns, csv_options, try_build};
use spirea_store::Snapshot;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

use crate::authority::Authority;

/// Maximum time for any wait, on a machine with other load.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until `condition` holds.
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Number of rows in the tables.
pub const ROWS: u64 = 300;

/// Value of a row.
pub fn value(row: u64, edition: u8) -> String {
    format!("value {row} of edition {edition}")
}

/// Builds a table called `words`.
pub fn build(folder: &Path, protocol: &str, edition: u8) -> Snapshot {
    build_of(folder, &format!("{protocol}-{edition}"), protocol, (0..ROWS).map(|row| value(row, edition)))
}

/// Builds a table of several polynomials. Its clients have keys that servers of its shares need.
pub fn build_keyed(folder: &Path) -> Snapshot {
    let padding = "x".repeat(200);
    build_of(folder, "keyed", "onion", (0..2000).map(|row| format!("{row} {padding}")))
}

fn build_of(folder: &Path, name: &str, protocol: &str, rows: impl Iterator<Item = String>) -> Snapshot {
    let rows: String = rows.map(|row| row + "\n").collect();
    let out = folder.join("words").join(name);
    std::fs::create_dir_all(out.parent().unwrap()).unwrap();
    let mut options = csv_options(&out, protocol, columns(None, &["value"]), &format!("value\n{rows}"));
    options.name = Some("words".into());
    try_build(&options).unwrap()
}

/// Files of a test, and the authorities that sign its certificates.
pub struct Place {
    pub folder: TempDir,
    pub workers: Authority,
    pub coordinators: Authority,
}

impl Place {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { folder, workers: Authority::new(), coordinators: Authority::new() }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Issues the certificate files of a worker under this name.
    pub fn as_worker(&self, name: &str) -> MutualFiles {
        self.workers.issue(self.path(), name, &[&self.coordinators])
    }

    /// Issues the certificate files of a coordinator under this name.
    pub fn as_coordinator(&self, name: &str) -> MutualFiles {
        self.coordinators.issue(self.path(), name, &[&self.workers])
    }

    pub fn worker(&self, snapshot: &Snapshot, index: usize, count: usize) -> Working {
        Working::start(self.worker_config(snapshot, index, count))
    }

    pub fn worker_config(&self, snapshot: &Snapshot, index: usize, count: usize) -> WorkerConfig {
        let two = snapshot.manifest().protocol.parties > 1;
        WorkerConfig {
            snapshot: snapshot.folder().into(),
            version: Some(snapshot.version()),
            share: Share::new(index, count).unwrap(),
            party: two.then_some(Party::Zero),
            listen: free(),
            tls: self.as_worker("worker"),
            metrics: None,
            metrics_names: Vec::new(),
            backend: BackendChoice::Cpu,
            threads: 1,
            residence: Residence::Mapped,
            queue: 8,
            limits: Limits::default(),
            keys: KeyOptions::default(),
            traces: None,
            drain_delay: Duration::from_millis(600),
        }
    }

    /// Starts workers of all shares.
    pub fn workers(&self, snapshot: &Snapshot, count: usize) -> Vec<Working> {
        (0..count).map(|index| self.worker(snapshot, index, count)).collect()
    }

    /// Writes a placement of snapshots with the addresses of their shares' replicas.
    pub fn place(&self, snapshots: &[(&Snapshot, Vec<Vec<String>>)]) -> PathBuf {
        let snapshots: Vec<Value> = snapshots
            .iter()
            .map(|(snapshot, shares)| {
                json!({ "path": snapshot.folder(), "version": snapshot.version().to_string(), "shares": shares })
            })
            .collect();
        let document = json!({ "databases": [{ "name": "words", "snapshots": snapshots }] });
        let (path, temporary) = (self.path().join("placement.json"), self.path().join("placement.new"));
        std::fs::write(&temporary, document.to_string()).unwrap();
        std::fs::rename(&temporary, &path).unwrap();
        path
    }

    pub fn coordinator(&self, placement: PathBuf, party: Option<Party>) -> Coordinating {
        let config = self.coordinator_config(placement);
        Coordinating::start(CoordinatorConfig { server: ServerConfig { party, ..config.server }, ..config })
    }

    pub fn coordinator_config(&self, placement: PathBuf) -> CoordinatorConfig {
        let server = ServerConfig {
            listen: free(),
            admin_listen: Some(free()),
            threads: 1,
            ..ServerConfig::default()
        };
        CoordinatorConfig {
            server,
            placement,
            tls: self.as_coordinator("coordinator"),
            patience: PATIENCE,
            batch_timeout: PATIENCE,
        }
    }

    /// Connects a client of `words`.
    pub fn client(&self, coordinator: &Coordinating) -> HttpClient {
        let options = ClientOptions { cache: Some(self.path().join("cache")), ..ClientOptions::default() };
        HttpClient::connect_with(&[&coordinator.url()], "words", options).unwrap()
    }
}

/// Lists one replica for each share.
pub fn each_once(workers: &[Working]) -> Vec<Vec<String>> {
    workers.iter().map(|worker| vec![worker.url()]).collect()
}

/// Address with a free port.
pub fn free() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// A worker that runs until it is stopped, killed or dropped.
pub struct Working {
    pub address: SocketAddr,
    /// Status report at the start.
    pub status: ShareStatus,
    metrics: Option<SocketAddr>,
    pub stopper: Stopper,
    running: Option<tokio::task::JoinHandle<()>>,
    runtime: Option<Runtime>,
}

impl Working {
    pub fn start(config: WorkerConfig) -> Self {
        let runtime = runtime();
        let worker = runtime.block_on(Worker::open(config)).unwrap();
        let (address, metrics, stopper) = (worker.address(), worker.metrics_address(), worker.stopper());
        let status = worker.status();
        let running = Some(runtime.spawn(worker.run()));
        Self { address, status, metrics, stopper, running, runtime: Some(runtime) }
    }

    /// Requests a path of the monitoring endpoints.
    pub fn watched(&self, path: &str) -> (u16, String) {
        let (status, text) = exchange(self.metrics.expect("it is watched"), "GET", path, "", b"");
        (status, String::from_utf8(text).unwrap())
    }

    /// Requests a path of the monitoring endpoints with these `host` header lines, and returns the
    /// status.
    pub fn watched_as(&self, hosts: &str, path: &str) -> u16 {
        let head = format!("GET {path} HTTP/1.1\r\n{hosts}connection: close\r\n\r\n");
        exchange_bytes(self.metrics.expect("it is watched"), &head, b"").0
    }

    /// Value of a metric, by name and labels; 0 if there is no such metric.
    pub fn metric(&self, name: &str) -> f64 {
        let text = self.watched("/metrics").1;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.map_or(0.0, |value| value.parse().unwrap())
    }

    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Ends the worker at once; its connections break.
    pub fn kill(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }

    /// Drains the worker, and waits until it has ended.
    pub fn drain(&mut self) {
        self.stopper.stop();
        let (runtime, running) = (self.runtime.take().unwrap(), self.running.take().unwrap());
        runtime.block_on(async { tokio::time::timeout(PATIENCE, running).await }).unwrap().unwrap();
        runtime.shutdown_background();
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A coordinator that runs until it is dropped.
pub struct Coordinating {
    pub address: SocketAddr,
    pub admin: SocketAddr,
    stopper: Stopper,
    running: Option<tokio::task::JoinHandle<()>>,
    runtime: Option<Runtime>,
}

impl Coordinating {
    pub fn start(config: CoordinatorConfig) -> Self {
        let runtime = runtime();
        let coordinator = runtime.block_on(Coordinator::bind(config)).unwrap();
        let (addresses, stopper) = (coordinator.addresses(), coordinator.stopper());
        let running = Some(runtime.spawn(async { coordinator.run().await.unwrap() }));
        let (address, admin) = (addresses.data, addresses.admin.unwrap());
        Self { address, admin, stopper, running, runtime: Some(runtime) }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Waits until the coordinator answers for a version.
    pub fn ready(&self, snapshot: &Snapshot) {
        let started = Instant::now();
        while self.current() != Some(snapshot.version().to_string()) {
            assert!(started.elapsed() < PATIENCE, "the snapshot is not current: {}", self.report());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Current version.
    pub fn current(&self) -> Option<String> {
        let text = self.report()["databases"][0]["current"].as_str()?.to_owned();
        Some(text)
    }

    /// Report of the placement.
    pub fn report(&self) -> Value {
        let (status, body) = self.admin("GET", "/v1/placement", b"");
        assert_eq!(status, 200);
        serde_json::from_slice(&body).unwrap()
    }

    /// Reports of the first database's snapshots.
    pub fn snapshots(&self) -> Vec<Value> {
        self.report()["databases"][0]["snapshots"].as_array().unwrap().clone()
    }

    /// Report of a replica of the first snapshot.
    pub fn replica(&self, share: usize, replica: usize) -> Value {
        self.report()["databases"][0]["snapshots"][0]["shares"][share][replica].clone()
    }

    pub fn admin(&self, method: &str, path: &str, body: &[u8]) -> (u16, Vec<u8>) {
        exchange(self.admin, method, path, "", body)
    }

    pub fn post(&self, path: &str, body: &[u8]) -> (u16, Vec<u8>) {
        exchange(self.address, "POST", path, "content-type: application/x-protobuf\r\n", body)
    }

    /// Stops the coordinator, and waits until it has ended.
    pub fn stop(&mut self) {
        self.stopper.stop();
        let (runtime, running) = (self.runtime.take().unwrap(), self.running.take().unwrap());
        runtime.block_on(async { tokio::time::timeout(PATIENCE, running).await }).unwrap().unwrap();
        runtime.shutdown_background();
    }
}

impl Drop for Coordinating {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Sends a request without TLS, and returns the status and body of the response.
pub fn exchange(address: SocketAddr, method: &str, path: &str, headers: &str, body: &[u8]) -> (u16, Vec<u8>) {
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}content-length: {length}\r\n\r\n"
    );
    exchange_bytes(address, &head, body)
}

/// Sends a request's head, with the empty line that ends it, and its body. Returns the status and
/// body of the response.
pub fn exchange_bytes(address: SocketAddr, head: &str, body: &[u8]) -> (u16, Vec<u8>) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
    let mut response = Vec::new();
    stream.read_to_end(&mut response).unwrap();
    let end = response.windows(4).position(|four| four == b"\r\n\r\n").expect("a response has a head");
    let head = String::from_utf8(response[..end].to_vec()).unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), response[end + 4..].to_vec())
}
