//! Workers by themselves: the files that they read, the requests that they refuse, and their
//! reports.

use std::convert::Infallible;
use std::error::Error;
use std::io::{ErrorKind, Read as _};
use std::net::TcpStream;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http2::{self, SendRequest};
use hyper::header::CONTENT_LENGTH;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use spirea_backend::Share;
use spirea_cluster::{MutualFiles, MutualTls, ShareFiles, ShareStatus, Worker, WorkerConfig};
use spirea_protocols::Version;
use spirea_server::Limits;
use spirea_store::Snapshot;
use spirea_store::manifest::{GROUPS_FILE, MANIFEST_FILE};
use spirea_wire::ShareRequest;

use crate::fixture::{Place, Working, build, build_keyed, each_once, eventually, free};
use spirea_specimens::snapshots::{columns, csv_options, try_build};

/// Builds a snapshot of several groups of bytes.
fn large(place: &Place) -> Snapshot {
    let rows: String = (0..40_000).map(|row| format!("{row} {}\n", "x".repeat(80))).collect();
    let out = place.path().join("large");
    let mut options = csv_options(&out, "simple", columns(None, &["value"]), &format!("value\n{rows}"));
    options.name = Some("words".into());
    try_build(&options).unwrap()
}

/// Copies only the parts that a share reads.
fn sparse(place: &Place, snapshot: &Snapshot, share: Share) -> Snapshot {
    let folder = place.path().join(format!("sparse-{}", share.index()));
    std::fs::create_dir_all(&folder).unwrap();
    let manifest_bytes = std::fs::metadata(snapshot.folder().join(MANIFEST_FILE)).unwrap().len();
    let files = ShareFiles::of(snapshot.manifest(), manifest_bytes, share);
    for part in files.files {
        let from = std::fs::File::open(snapshot.folder().join(&part.path)).unwrap();
        let to = std::fs::File::create(folder.join(&part.path)).unwrap();
        to.set_len(part.size).unwrap();
        for [start, end] in part.ranges {
            let mut bytes = vec![0; (end - start) as usize];
            from.read_exact_at(&mut bytes, start).unwrap();
            to.write_all_at(&bytes, start).unwrap();
        }
    }
    Snapshot::open(folder).unwrap()
}

fn open(config: WorkerConfig) -> Result<(), String> {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(Worker::open(config)).map(drop).map_err(|error| error.to_string())
}

#[test]
fn a_worker_reads_its_own_bytes_and_verifies_them() {
    let place = Place::new();
    let snapshot = large(&place);
    assert!(snapshot.folder().join(GROUPS_FILE).exists() && snapshot.manifest().matrix.bytes > 3 << 20);
    let shares = Share::new(0, 2).unwrap();
    let copies: Vec<Snapshot> = shares.all().map(|share| sparse(&place, &snapshot, share)).collect();
    let workers: Vec<Working> =
        copies.iter().enumerate().map(|(index, copy)| place.worker(copy, index, 2)).collect();
    let coordinator = place.coordinator(place.place(&[(&snapshot, each_once(&workers))]), None);
    coordinator.ready(&snapshot);
    let found = place.client(&coordinator).get_indices(&[39_999]).unwrap().remove(0).unwrap().into_fields();
    assert!(found[0].starts_with(b"39999 x"));
    // The copy lacks the other share.
    let refused = open(place.worker_config(&copies[0], 1, 2)).unwrap_err();
    assert!(refused.contains("matrix.bin") && refused.contains("does not match"), "{refused}");
    let damaged = std::fs::OpenOptions::new().write(true).open(copies[0].matrix_path()).unwrap();
    damaged.write_all_at(b"!", 70_000).unwrap();
    let refused = open(place.worker_config(&copies[0], 0, 2)).unwrap_err();
    assert!(refused.contains("byte 0"), "{refused}");
    // Without the list of groups, the whole file has to be there.
    std::fs::remove_file(copies[1].groups_path()).unwrap();
    let refused = open(place.worker_config(&copies[1], 1, 2)).unwrap_err();
    assert!(refused.contains("matrix.groups"), "{refused}");
    std::fs::remove_file(snapshot.groups_path()).unwrap();
    open(place.worker_config(&snapshot, 1, 2)).unwrap();
}

/// A connection like a coordinator's.
pub struct Asking {
    sender: SendRequest<BoxBody<Bytes, Infallible>>,
    base: String,
}

impl Asking {
    /// Opens a connection and uses it once: with TLS 1.3 a worker refuses a certificate only after
    /// the handshake.
    pub async fn open(files: &MutualFiles, worker: &Working) -> Result<Self, Box<dyn Error>> {
        Self::open_with(files, worker, &http2::Builder::new(TokioExecutor::new())).await
    }

    async fn open_with(
        files: &MutualFiles,
        worker: &Working,
        protocol: &http2::Builder<TokioExecutor>,
    ) -> Result<Self, Box<dyn Error>> {
        let stream = tokio::net::TcpStream::connect(worker.address).await?;
        stream.set_nodelay(true)?;
        let tls = MutualTls::open(files)?.client();
        let name = rustls::pki_types::ServerName::try_from("127.0.0.1")?;
        let stream = tokio_rustls::TlsConnector::from(tls).connect(name, stream).await?;
        let (sender, connection) = protocol.handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let asking = Self { sender, base: worker.url() };
        asking.status().await?;
        Ok(asking)
    }

    /// Returns the worker's status report.
    pub async fn status(&self) -> Result<ShareStatus, Box<dyn Error>> {
        let (status, _, body) = self.try_ask("GET", "/v1/share", "").await?;
        assert_eq!(status, StatusCode::OK);
        Ok(serde_json::from_slice(&body)?)
    }

    pub async fn ask(&self, method: &str, path: &str, body: impl Into<Bytes>) -> (StatusCode, bool, Bytes) {
        self.try_ask(method, path, body).await.unwrap()
    }

    async fn try_ask(
        &self,
        method: &str,
        path: &str,
        body: impl Into<Bytes>,
    ) -> Result<(StatusCode, bool, Bytes), hyper::Error> {
        let request = Request::builder().method(method).uri(format!("{}{path}", self.base));
        let response = self.send(request.body(Full::new(body.into()).boxed()).unwrap()).await?;
        let (status, later) = (response.status(), response.headers().contains_key("retry-after"));
        Ok((status, later, response.into_body().collect().await?.to_bytes()))
    }

    /// Sends a request, and returns the response with a body that is not read yet.
    async fn send(
        &self,
        request: Request<BoxBody<Bytes, Infallible>>,
    ) -> Result<Response<Incoming>, hyper::Error> {
        let mut sender = self.sender.clone();
        sender.ready().await?;
        sender.send_request(request).await
    }

    /// Sends the beginning of a request's body, declared to have `length` bytes, and nothing more.
    async fn begin(&self, method: &str, path: &str, length: usize) -> StatusCode {
        let begun = stream::once(std::future::ready(Ok(Frame::data(Bytes::from("SPIR")))));
        let body = BodyExt::boxed(StreamBody::new(begun.chain(stream::pending())));
        let request = Request::builder().method(method).uri(format!("{}{path}", self.base));
        let request = request.header(CONTENT_LENGTH, length).body(body).unwrap();
        self.send(request).await.unwrap().status()
    }
}

/// Memory reserved for requests, in units of 1 KiB.
fn taken(worker: &Working) -> u64 {
    worker.metric("spirea_request_memory_bytes") as u64 >> 10
}

#[test]
fn a_batch_takes_all_its_memory_before_it_is_computed() {
    let place = Place::new();
    let snapshot = large(&place);
    let config = WorkerConfig { metrics: Some(free()), ..place.worker_config(&snapshot, 0, 1) };
    let query = (None, Bytes::from(vec![1; snapshot.manifest().protocol.sizes.query_bytes]));
    let (version, keys) = (snapshot.version(), Vec::new());
    let batch = ShareRequest { version, keys, queries: vec![query; 64] }.encode();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let files = place.as_coordinator("asking");
    let free_of_limits = Working::start(config.clone());
    let partial = runtime.block_on(async {
        let asking = Asking::open(&files, &free_of_limits).await.unwrap();
        asking.ask("POST", "/v1/partial", batch.clone()).await.2
    });
    let needed = 2 * (batch.len() + partial.len()) as u64;
    // The worker has memory for one and a half batches.
    let limits = Limits { body_memory: needed * 3 / 2, ..Limits::default() };
    let worker = Working::start(WorkerConfig { limits, ..config });
    runtime.block_on(async {
        let mut protocol = http2::Builder::new(TokioExecutor::new());
        // The partial is longer than the data that is sent before the client reads.
        assert!(partial.len() > 256 << 10, "{}", partial.len());
        protocol.initial_stream_window_size(1 << 14);
        let asking = Asking::open_with(&files, &worker, &protocol).await.unwrap();
        let request = Request::post(format!("{}/v1/partial", asking.base));
        let unread = asking.send(request.body(Full::new(batch.clone()).boxed()).unwrap()).await.unwrap();
        assert_eq!((unread.status(), taken(&worker)), (StatusCode::OK, needed.div_ceil(1 << 10)));
        // By this status a coordinator understands that the worker is busy.
        let (status, later, _) = asking.ask("POST", "/v1/partial", batch.clone()).await;
        assert_eq!((status, later), (StatusCode::SERVICE_UNAVAILABLE, true));
        assert_eq!(worker.metric("spirea_partial_queries_count"), 1.0, "the second one was computed");
        // A coordinator's requests for the status are answered.
        asking.status().await.unwrap();
        assert_eq!(unread.into_body().collect().await.unwrap().to_bytes(), partial);
        eventually("the memory is given back", || taken(&worker) == 0);
        assert_eq!(asking.ask("POST", "/v1/partial", batch).await.0, StatusCode::OK);
    });
}

#[test]
fn a_body_that_does_not_come_takes_memory_for_a_time_alone() {
    let place = Place::new();
    let snapshot = build_keyed(place.path());
    let limits = Limits { read_timeout: Duration::from_secs(3), ..Limits::default() };
    let config = place.worker_config(&snapshot, 0, 1);
    let worker = Working::start(WorkerConfig { limits, metrics: Some(free()), ..config });
    let keys = format!("/v1/keys/{}", "0".repeat(64));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let asking = Asking::open(&place.as_coordinator("asking"), &worker).await.unwrap();
        for (method, path) in [("POST", "/v1/partial"), ("PUT", &*keys)] {
            let stalled = asking.begin(method, path, 64 << 10);
            let (status, ()) = tokio::join!(stalled, async {
                while taken(&worker) < 2 * 64 {
                    tokio::task::yield_now().await;
                }
            });
            assert_eq!(status, StatusCode::REQUEST_TIMEOUT, "{path}");
            eventually("the memory is given back", || taken(&worker) == 0);
        }
    });
}

#[test]
fn a_worker_refuses_what_is_no_batch_and_says_when_it_has_too_many() {
    let place = Place::new();
    let snapshot = build(place.path(), "simple", 1);
    let metrics = Some(free());
    let worker = Working::start(WorkerConfig {
        queue: 1,
        metrics,
        metrics_names: vec!["worker.internal".into()],
        ..place.worker_config(&snapshot, 0, 1)
    });
    let query_bytes = snapshot.manifest().protocol.sizes.query_bytes;
    let request = |version: Version, queries: usize| {
        let query = (None, Bytes::from(vec![1; query_bytes]));
        ShareRequest { version, keys: Vec::new(), queries: vec![query; queries] }.encode()
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let asking = Asking::open(&place.as_coordinator("asking"), &worker).await.unwrap();
        let version = snapshot.version();
        assert_eq!(asking.status().await.unwrap().version, snapshot.version().to_string());
        let wrong = [
            (Bytes::from("nonsense"), StatusCode::BAD_REQUEST),
            (request(Version::new([1; 32]), 1), StatusCode::GONE),
            (request(version, 0), StatusCode::BAD_REQUEST),
            (request(version, 1).slice(1..), StatusCode::BAD_REQUEST),
            (request(version, 4096), StatusCode::PAYLOAD_TOO_LARGE),
        ];
        for (body, expected) in wrong {
            assert_eq!(asking.ask("POST", "/v1/partial", body).await.0, expected);
        }
        let keys = format!("/v1/keys/{}", "0".repeat(64));
        assert_eq!(asking.ask("PUT", &keys, "x").await.0, StatusCode::NOT_FOUND);
        let mut answered = 0;
        let batches = futures_util::future::join_all(
            (0..60).map(|_| asking.ask("POST", "/v1/partial", request(version, 8))),
        );
        let mut refused = 0;
        for (status, later, _) in batches.await {
            match status {
                StatusCode::OK => answered += 1,
                StatusCode::SERVICE_UNAVAILABLE if later => refused += 1,
                status => panic!("{status}"),
            }
        }
        assert!(answered > 0 && refused > 0, "{answered} answered, {refused} refused");
        assert_eq!(asking.ask("POST", "/v1/partial", request(version, 1)).await.0, StatusCode::OK);
    });
    assert!(worker.watched("/metrics").1.contains("spirea_share_info{"));
    assert_eq!(worker.watched("/readyz").0, 200);
    // DNS rebinding: a web page whose host name resolves to this address must read nothing.
    for (hosts, expected) in [
        ("host: evil.example\r\n", 403),
        ("host: localhost\r\norigin: http://evil.example\r\n", 403),
        ("", 400),
        ("host: localhost\r\nhost: localhost\r\n", 400),
        ("host: 127.0.0.1:9100\r\n", 200),
        ("host: worker.internal\r\n", 200),
    ] {
        for path in ["/metrics", "/readyz", "/healthz"] {
            assert_eq!(worker.watched_as(hosts, path), expected, "{hosts:?} {path}");
        }
    }
    // Every response is counted, even an early one.
    let counted =
        |status: u16| worker.metric(&format!("spirea_partial_responses_total{{status=\"{status}\"}}"));
    assert_eq!([400, 410, 413].map(counted), [3.0, 1.0, 1.0]);
    assert!(counted(503) > 0.0);
    assert_eq!(worker.metric("spirea_key_uploads_total{status=\"404\"}"), 1.0);
}

#[test]
fn an_address_has_a_part_of_a_workers_connections() {
    let place = Place::new();
    let snapshot = build(place.path(), "simple", 1);
    let limits = Limits { client_connections: 2, ..Limits::default() };
    let config = WorkerConfig { limits, metrics: Some(free()), ..place.worker_config(&snapshot, 0, 1) };
    let worker = Working::start(config);
    // Strangers without a certificate.
    let open = || TcpStream::connect(worker.address).unwrap();
    let held = [open(), open()];
    let mut third = open();
    third.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let closed = match third.read(&mut [0]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    };
    assert!(closed, "one address may hold all connections");
    drop(held);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let files = place.as_coordinator("asking");
    eventually("the places are free", || runtime.block_on(Asking::open(&files, &worker)).is_ok());
}

#[test]
fn a_worker_refuses_another_version_than_the_one_it_is_told() {
    let place = Place::new();
    let [wanted, swapped] = [1, 2].map(|edition| build(place.path(), "simple", edition));
    let config = place.worker_config(&swapped, 0, 1);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let opened = runtime.block_on(Worker::open(WorkerConfig { version: Some(wanted.version()), ..config }));
    let refused = opened.err().expect("another version is refused").to_string();
    for part in
        [wanted.version().to_string(), swapped.version().to_string(), "copy the snapshot again".into()]
    {
        assert!(refused.contains(&part), "{refused}");
    }
}

#[test]
fn a_coordinator_answers_everybody_though_its_workers_take_few_batches() {
    let place = Place::new();
    let snapshot = build(place.path(), "simple", 1);
    let worker = Working::start(WorkerConfig { queue: 1, ..place.worker_config(&snapshot, 0, 1) });
    let placement = place.place(&[(&snapshot, vec![vec![worker.url()]])]);
    // Several coordinators together send more batches than the worker takes.
    let coordinators: Vec<_> = (0..4).map(|_| place.coordinator(placement.clone(), None)).collect();
    coordinators.iter().for_each(|coordinator| coordinator.ready(&snapshot));
    std::thread::scope(|scope| {
        for coordinator in &coordinators {
            let mut client = place.client(coordinator);
            scope.spawn(move || (0..20).for_each(|row| drop(client.get_indices(&[row]).unwrap())));
        }
    });
}
