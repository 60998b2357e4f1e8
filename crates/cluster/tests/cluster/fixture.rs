//! Snapshots, workers and coordinators, each on a runtime of its own.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use spirea_backend::{Residence, Share};
use spirea_client::{ClientOptions, HttpClient};
use spirea_cluster::{Coordinator, CoordinatorConfig, MutualFiles, Worker, WorkerConfig};
use spirea_engine::KeyOptions;
use spirea_protocols::Party;
use spirea_server::{ServerConfig, Stopper};
use spirea_specimens::snapshots::{columns, csv_options, try_build};
use spirea_store::Snapshot;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

use crate::authority::Authority;

/// How long anything may take that is not waited for forever, on a machine with much else to do.
pub const PATIENCE: Duration = Duration::from_secs(40);

/// Waits until `condition` holds.
pub fn eventually(what: &str, condition: impl Fn() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Rows of the tables.
pub const ROWS: u64 = 300;

/// The value of a row.
pub fn value(row: u64, edition: u8) -> String {
    format!("value {row} of edition {edition}")
}

/// Builds a table called `words`.
pub fn build(folder: &Path, protocol: &str, edition: u8) -> Snapshot {
    let rows: String = (0..ROWS).map(|row| format!("{}\n", value(row, edition))).collect();
    let out = folder.join("words").join(format!("{protocol}-{edition}"));
    std::fs::create_dir_all(out.parent().unwrap()).unwrap();
    let mut options = csv_options(&out, protocol, columns(None, &["value"]), &format!("value\n{rows}"));
    options.name = Some("words".into());
    try_build(&options).unwrap()
}

/// The files that a test has, and its certificates.
pub struct Place {
    pub folder: TempDir,
    pub authority: Authority,
}

impl Place {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), authority: Authority::new() }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// What a worker or a coordinator of this place is known by.
    pub fn known(&self, name: &str) -> MutualFiles {
        self.authority.issue(self.path(), name, &self.authority)
    }

    pub fn worker(&self, snapshot: &Snapshot, index: usize, count: usize) -> Working {
        Working::start(self.worker_config(snapshot, index, count))
    }

    pub fn worker_config(&self, snapshot: &Snapshot, index: usize, count: usize) -> WorkerConfig {
        let two = snapshot.manifest().protocol.parties() > 1;
        WorkerConfig {
            snapshot: snapshot.folder().into(),
            share: Share::new(index, count).unwrap(),
            party: two.then_some(Party::Zero),
            listen: free(),
            tls: self.known("worker"),
            metrics: None,
            threads: 1,
            residence: Residence::Mapped,
            queue: 8,
            keys: KeyOptions::default(),
            traces: None,
            drain_delay: Duration::from_millis(600),
        }
    }

    /// Workers of all shares.
    pub fn workers(&self, snapshot: &Snapshot, count: usize) -> Vec<Working> {
        (0..count).map(|index| self.worker(snapshot, index, count)).collect()
    }

    /// Writes the placement of snapshots with the addresses of their shares' replicas.
    pub fn place(&self, snapshots: &[(&Snapshot, Vec<Vec<String>>)]) -> PathBuf {
        let snapshots: Vec<Value> = snapshots
            .iter()
            .map(|(snapshot, shares)| json!({ "path": snapshot.folder(), "shares": shares }))
            .collect();
        let document = json!({ "databases": [{ "name": "words", "snapshots": snapshots }] });
        let (path, temporary) = (self.path().join("placement.json"), self.path().join("placement.new"));
        std::fs::write(&temporary, document.to_string()).unwrap();
        std::fs::rename(&temporary, &path).unwrap();
        path
    }

    pub fn coordinator(&self, placement: PathBuf, party: Option<Party>) -> Coordinating {
        self.patient_coordinator(placement, party, PATIENCE)
    }

    pub fn patient_coordinator(
        &self,
        placement: PathBuf,
        party: Option<Party>,
        patience: Duration,
    ) -> Coordinating {
        let server = ServerConfig {
            listen: free(),
            admin_listen: Some(free()),
            threads: 1,
            party,
            ..ServerConfig::default()
        };
        Coordinating::start(CoordinatorConfig { server, placement, tls: self.known("coordinator"), patience })
    }

    /// A client of `words`.
    pub fn client(&self, coordinator: &Coordinating) -> HttpClient {
        let options = ClientOptions { cache: Some(self.path().join("cache")), ..ClientOptions::default() };
        HttpClient::connect_with(&[&coordinator.url()], "words", options).unwrap()
    }
}

/// One replica of each share.
pub fn each_once(workers: &[Working]) -> Vec<Vec<String>> {
    workers.iter().map(|worker| vec![worker.url()]).collect()
}

fn free() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// A worker that runs until it is stopped, killed or dropped.
pub struct Working {
    pub address: SocketAddr,
    pub metrics: Option<SocketAddr>,
    pub stopper: Stopper,
    running: Option<tokio::task::JoinHandle<()>>,
    runtime: Option<Runtime>,
}

impl Working {
    pub fn start(config: WorkerConfig) -> Self {
        let runtime = runtime();
        let worker = runtime.block_on(Worker::open(config)).unwrap();
        let (address, metrics, stopper) = (worker.address(), worker.metrics_address(), worker.stopper());
        let running = Some(runtime.spawn(worker.run()));
        Self { address, metrics, stopper, running, runtime: Some(runtime) }
    }

    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Ends it at once: its connections break.
    pub fn kill(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }

    /// Has it finish what it has, and waits until it has ended.
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

    /// Waits until it answers for a version.
    pub fn ready(&self, snapshot: &Snapshot) {
        eventually("the snapshot is current", || self.current() == Some(snapshot.version_hex()));
    }

    /// The version that is current.
    pub fn current(&self) -> Option<String> {
        let text = self.report()["databases"][0]["current"].as_str()?.to_owned();
        Some(text)
    }

    /// How its replicas do.
    pub fn report(&self) -> Value {
        let (status, body) = self.admin("GET", "/v1/placement", b"");
        assert_eq!(status, 200);
        serde_json::from_slice(&body).unwrap()
    }

    /// What it reports of a replica of the first snapshot.
    pub fn replica(&self, share: usize, replica: usize) -> Value {
        self.report()["databases"][0]["snapshots"][0]["shares"][share][replica].clone()
    }

    pub fn admin(&self, method: &str, path: &str, body: &[u8]) -> (u16, Vec<u8>) {
        exchange(self.admin, method, path, "", body)
    }

    pub fn post(&self, path: &str, body: &[u8]) -> (u16, Vec<u8>) {
        exchange(self.address, "POST", path, "content-type: application/x-protobuf\r\n", body)
    }

    /// Asks it to end, and waits until it has.
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

/// A request without TLS, and the status and body of its response.
pub fn exchange(address: SocketAddr, method: &str, path: &str, headers: &str, body: &[u8]) -> (u16, Vec<u8>) {
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}content-length: {length}\r\n\r\n"
    );
    stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
    let mut response = Vec::new();
    stream.read_to_end(&mut response).unwrap();
    let end = response.windows(4).position(|four| four == b"\r\n\r\n").expect("a response has a head");
    let head = String::from_utf8(response[..end].to_vec()).unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), response[end + 4..].to_vec())
}
