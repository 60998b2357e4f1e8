//! Servers on free ports, and raw HTTP.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use spirea_client::{ClientOptions, Value};
use spirea_engine::{Engine, KeyRegistry};
use spirea_protocols::TableKind;
use spirea_server::{Limits, Reloader, ServeError, Server, ServerConfig, Stopper};
use spirea_specimens::Hook;
use spirea_specimens::hooked::database;
use spirea_specimens::snapshots::{key, value, write_snapshot};

/// Creates an engine that holds keys in memory.
pub fn engine(queue: usize) -> Arc<Engine> {
    Arc::new(Engine::new(queue, KeyRegistry::default()).unwrap())
}

/// Starts a server with an engine that the test fills.
pub fn serve_engine(engine: &Arc<Engine>, limits: Limits) -> Running {
    let engine = Arc::clone(engine);
    Running::start(async move { Server::bind_engine(([127, 0, 0, 1], 0).into(), limits, engine).await })
}

/// Starts a server with a configuration, on free ports, and an engine that the test fills.
pub fn serve_config(engine: &Arc<Engine>, config: ServerConfig) -> Running {
    let free = ([127, 0, 0, 1], 0).into();
    let config = ServerConfig { listen: free, admin_listen: Some(free), ..config };
    let engine = Arc::clone(engine);
    Running::start(async move { Server::bind_with(&config, engine).await })
}

/// Creates an engine with one keyword database called `urls`.
pub fn urls(folder: &Path, hook: Hook) -> Arc<Engine> {
    let engine = engine(8);
    engine.publish(database(&write_snapshot(folder, "urls", TableKind::Keyword, 1), hook));
    engine
}

/// Starts a server with one keyword database called `urls`.
pub fn serve_urls(folder: &Path, limits: Limits, queue: usize, hook: Hook) -> Running {
    let engine = engine(queue);
    engine.publish(database(&write_snapshot(folder, "urls", TableKind::Keyword, 1), hook));
    serve_engine(&engine, limits)
}

/// A server on its own thread, which runs until this is dropped.
pub struct Running {
    pub address: SocketAddr,
    pub admin: Option<SocketAddr>,
    pub stopper: Stopper,
    pub reloader: Reloader,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    pub fn start(bind: impl Future<Output = Result<Server, ServeError>> + Send + 'static) -> Self {
        let (bound, bounds) = channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
            runtime.unwrap().block_on(async {
                let server = bind.await.unwrap();
                bound.send((server.addresses(), server.stopper(), server.reloader())).unwrap();
                server.run().await.unwrap();
            });
        });
        let (addresses, stopper, reloader) = bounds.recv().unwrap();
        Self { address: addresses.data, admin: addresses.admin, stopper, reloader, thread: Some(thread) }
    }

    /// Sends a GET to the port for operators, with additional header lines.
    pub fn get_admin(&self, path: &str, headers: &str) -> Reply {
        let admin = self.admin.expect("the server has a port for operators");
        exchange(admin, format!("GET {path} HTTP/1.1\r\n{headers}{COMMON}\r\n").as_bytes())
    }

    /// Sends a POST to the port for operators.
    pub fn post_admin(&self, path: &str, body: &[u8]) -> Reply {
        let content_type =
            if path.ends_with("/changes") { "application/x-ndjson" } else { "application/x-tar" };
        self.post_admin_with(path, &format!("content-type: {content_type}\r\n{COMMON}"), body)
    }

    /// Sends a POST to the port for operators, with these header lines and the body's length.
    pub fn post_admin_with(&self, path: &str, headers: &str, body: &[u8]) -> Reply {
        let admin = self.admin.expect("the server has a port for operators");
        let head = format!("POST {path} HTTP/1.1\r\ncontent-length: {}\r\n{headers}\r\n", body.len());
        exchange(admin, &[head.as_bytes(), body].concat())
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn wait(&mut self) {
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }

    pub fn get(&self, path: &str) -> Reply {
        self.get_with(path, "")
    }

    /// Sends a GET with additional header lines, each ended by CR LF.
    pub fn get_with(&self, path: &str, headers: &str) -> Reply {
        exchange(self.address, format!("GET {path} HTTP/1.1\r\n{headers}{COMMON}\r\n").as_bytes())
    }

    pub fn post(&self, path: &str, body: &[u8]) -> Reply {
        self.post_with(path, "content-type: application/x-protobuf\r\n", body)
    }

    pub fn post_with(&self, path: &str, headers: &str, body: &[u8]) -> Reply {
        let length = body.len();
        let head = format!("POST {path} HTTP/1.1\r\n{headers}content-length: {length}\r\n{COMMON}\r\n");
        exchange(self.address, &[head.as_bytes(), body].concat())
    }

    /// Returns the value of a metric, by its name and labels as they appear in the text.
    pub fn metric(&self, name: &str) -> Option<f64> {
        let text = self.get("/metrics").text();
        let line =
            text.lines().find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ')))?;
        line.rsplit(' ').next()?.parse().ok()
    }

    /// Asserts that the server still works.
    pub fn assert_serving(&self) {
        assert_eq!(self.get("/healthz").status, 200);
        let cache = tempfile::tempdir().unwrap();
        let mut client = connect(&self.url(), "urls", cache.path()).unwrap();
        assert_eq!(texts(client.get_keys(&[&key(7)]).unwrap()), [Some(value(7, 1))]);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            let outcome = thread.join();
            assert!(outcome.is_ok() || std::thread::panicking());
        }
    }
}

const COMMON: &str = "host: localhost\r\nconnection: close\r\n";

/// A raw response.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Reply {
    pub fn parse(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a response has a head");
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap().to_ascii_lowercase();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Self { status, head, body: bytes[end + 4..].to_vec() }
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(found, _)| *found == name).map(|(_, value)| value)
    }

    /// Returns the refusal that every error response carries.
    pub fn refusal(&self) -> spirea_wire::Refusal {
        assert_eq!(self.header("content-type"), Some("application/x-protobuf"), "{self:?}");
        let refusal = spirea_wire::Refusal::decode(Bytes::copy_from_slice(&self.body)).unwrap();
        assert!(!refusal.message.is_empty() && !refusal.remedy.is_empty());
        refusal
    }
}

pub fn dial(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PUBLICATION)).unwrap();
    stream
}

/// Connects like [`dial`], but from another of this machine's addresses.
pub fn dial_from(from: [u8; 4], address: SocketAddr) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    let stream = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind((from, 0).into()).unwrap();
        socket.connect(address).await.unwrap().into_std().unwrap()
    });
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(PUBLICATION)).unwrap();
    stream
}

/// Sends bytes and reads until the server closes the connection.
pub fn exchange(address: SocketAddr, request: &[u8]) -> Reply {
    let mut stream = dial(address);
    stream.write_all(request).unwrap();
    read(&mut stream)
}

/// Sends the head of a request and waits until the server asks for the body. By then the request
/// has its permit. Other requests cannot test for this, because they would compete for permits.
pub fn begin_slowly(address: SocketAddr, path: &str, headers: &str) -> TcpStream {
    let mut stream = dial(address);
    let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\n{headers}\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let consent = b"HTTP/1.1 100 Continue\r\n\r\n";
    let mut said = [0; 25];
    stream.read_exact(&mut said).unwrap();
    assert_eq!(&said, consent);
    stream
}

/// Reads the response until the server closes the connection.
pub fn read(stream: &mut TcpStream) -> Reply {
    let mut response = Vec::new();
    stream.read_to_end(&mut response).unwrap();
    Reply::parse(&response)
}

/// Longest time in which a test's own short limit takes effect. The limits of [`Limits::default`]
/// are longer, so a server that ignores the test's limit fails the test.
pub const PATIENCE: Duration = Duration::from_secs(25);
/// Longest wait for any other condition, on a heavily loaded machine.
const LOADED: Duration = Duration::from_secs(180);
/// Upper bound for publications, and for responses that may wait for them. A publication has a low
/// priority, and waits while other tests use all processors.
const PUBLICATION: Duration = Duration::from_secs(600);

/// Waits until `condition` holds.
pub fn eventually(what: &str, condition: impl Fn() -> bool) {
    within(LOADED, what, condition);
}

/// Waits until `condition` holds, which takes a publication.
pub fn once_published(what: &str, condition: impl Fn() -> bool) {
    within(PUBLICATION, what, condition);
}

fn within(longest: Duration, what: &str, condition: impl Fn() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < longest, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub fn options(cache: &Path) -> ClientOptions {
    ClientOptions {
        cache: Some(cache.into()),
        timeout: Duration::from_secs(60),
        max_pause: Duration::from_secs(2),
        ..ClientOptions::default()
    }
}

pub fn connect(
    url: &str,
    name: &str,
    cache: &Path,
) -> Result<spirea_client::HttpClient, spirea_client::ClientError> {
    spirea_client::HttpClient::connect_with(&[url], name, options(cache))
}

pub fn texts(values: Vec<Option<Value>>) -> Vec<Option<Vec<Vec<u8>>>> {
    values.into_iter().map(|value| value.map(Value::into_fields)).collect()
}

/// Returns the configuration of `urls`.
pub fn config(server: &Running) -> spirea_wire::Config {
    spirea_wire::Config::decode(server.get("/v1/databases/urls/config").body.into()).unwrap()
}

/// Returns a well-formed request to `urls` with `count` meaningless queries.
pub fn request(server: &Running, count: usize) -> spirea_wire::Request {
    let config = config(server);
    let queries = vec![Bytes::from(vec![0xab; config.base.lengths.query_bytes]); count];
    let base = spirea_wire::Queries { keys: None, queries };
    spirea_wire::Request { version: config.version, base, delta: None }
}
