//! A proxy that modifies traffic: one request per connection, with responses rewritten by the test.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use parking_lot::Mutex;

/// A request as the proxy saw it.
#[derive(Clone)]
pub struct Seen {
    pub head: String,
    pub body: Vec<u8>,
}

impl Seen {
    /// Returns the path, without the query string.
    pub fn path(&self) -> &str {
        self.head.split([' ', '?']).nth(1).unwrap_or_default()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

/// Rewrites a response, given the request and the number of earlier requests for the same path.
type Rewrite = dyn Fn(&Seen, usize, Vec<u8>) -> Vec<u8> + Send + Sync;

pub struct Proxy {
    pub address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Proxy {
    pub fn start(
        upstream: SocketAddr,
        rewrite: impl Fn(&Seen, usize, Vec<u8>) -> Vec<u8> + Send + Sync + 'static,
    ) -> Self {
        Self::in_turn(vec![upstream], rewrite)
    }

    /// Starts a proxy that gives requests to several servers in turn.
    pub fn in_turn(
        upstreams: Vec<SocketAddr>,
        rewrite: impl Fn(&Seen, usize, Vec<u8>) -> Vec<u8> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (log, rewrite, upstreams) = (Arc::clone(&seen), Arc::new(rewrite), Arc::new(upstreams));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (log, rewrite) = (Arc::clone(&log), Arc::clone(&rewrite));
                let upstreams = Arc::clone(&upstreams);
                std::thread::spawn(move || pass(stream.unwrap(), &upstreams, &log, &*rewrite));
            }
        });
        Self { address, seen }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the requests whose paths end in `end`.
    pub fn seen(&self, end: &str) -> Vec<Seen> {
        self.seen.lock().iter().filter(|seen| seen.path().ends_with(end)).cloned().collect()
    }
}

fn pass(mut client: TcpStream, upstreams: &[SocketAddr], log: &Mutex<Vec<Seen>>, rewrite: &Rewrite) {
    let Some(request) = read_request(&mut client) else { return };
    let (before, upstream) = {
        let mut log = log.lock();
        log.push(request.clone());
        let before = log.iter().filter(|seen| seen.path() == request.path()).count() - 1;
        (before, upstreams[log.len() % upstreams.len()])
    };
    let mut server = TcpStream::connect(upstream).unwrap();
    let head = request.head.replacen("\r\n", "\r\nconnection: close\r\n", 1);
    server.write_all(&[head.as_bytes(), &request.body].concat()).unwrap();
    let mut response = Vec::new();
    server.read_to_end(&mut response).unwrap();
    // The client may have gone.
    let _ = client.write_all(&rewrite(&request, before, response));
}

fn read_request(client: &mut TcpStream) -> Option<Seen> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8(bytes[..end + 4].to_vec()).unwrap();
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(": ")?;
                name.eq_ignore_ascii_case("content-length").then(|| value.parse::<usize>().unwrap())
            });
            if bytes.len() == end + 4 + length.unwrap_or(0) {
                return Some(Seen { head, body: bytes[end + 4..].to_vec() });
            }
        }
        match client.read(&mut chunk) {
            Ok(count) if count > 0 => bytes.extend_from_slice(&chunk[..count]),
            _ => return None,
        }
    }
}

/// Returns a response with a refusal.
pub fn refusing(status: &str, headers: &str, refusal: &spirea_wire::Refusal) -> Vec<u8> {
    let body = refusal.encode();
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\n{headers}content-type: application/x-protobuf\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
    );
    [head.as_bytes(), &body].concat()
}
