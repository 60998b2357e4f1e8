//! Evaluation keys over HTTP: when they are uploaded, and how often. The protocol is a fake that
//! needs keys; the test scripts the server's responses.

mod connect;
mod drip;
mod lies;
mod next_keys;
mod pair;
#[cfg(unix)]
mod private;
mod reach;
mod resumption;
mod stop;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use spirea_protocols::{KeysHash, PrfKind, ProtocolError, Table};
use spirea_wire::{Code, Config, KeysRequest, KeysResponse, Part, PartConfig, Request, Response};

use super::{ClientOptions, HttpClient};
use crate::fixture::*;
use crate::{ClientError, Description, Session, Timings, WeakPrf};

/// Returns a server's response to a request, given the last part of its path with its query string,
/// its body, and the number of earlier requests like it.
type Script = dyn Fn(&str, &[u8], usize) -> Reply + Send + Sync;

/// Received requests: the last part of the path, and the body.
type Log = Mutex<Vec<(String, Vec<u8>)>>;

/// A server that follows a script.
struct Server {
    url: String,
    seen: Arc<Log>,
}

impl Server {
    fn start(script: impl Fn(&str, usize) -> Reply + Send + Sync + 'static) -> Self {
        Self::reading(move |path, _, before| script(path, before))
    }

    /// Starts a server whose script reads bodies.
    fn reading(script: impl Fn(&str, &[u8], usize) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::<Log>::default();
        let log = Arc::clone(&seen);
        let script: Box<Script> = Box::new(script);
        thread::spawn(move || {
            for stream in listener.incoming() {
                serve(stream.unwrap(), &log, &*script);
            }
        });
        Self { url, seen }
    }

    /// Returns the paths of the requests, in order.
    fn paths(&self) -> Vec<String> {
        self.seen.lock().iter().map(|(path, _)| path.clone()).collect()
    }

    fn bodies(&self, wanted: &str) -> Vec<Vec<u8>> {
        let seen = self.seen.lock();
        seen.iter().filter(|(path, _)| path == wanted).map(|(_, body)| body.clone()).collect()
    }

    /// Creates a client that has version [`OLD`] and has not sent anything yet.
    fn client(&self, cache: &tempfile::TempDir) -> HttpClient {
        let description = Description::parse("test", config(OLD).encode().into()).unwrap();
        self.client_with(Session::over(description, Box::new(Keyed)).unwrap(), cache)
    }

    fn client_with(&self, session: Session, cache: &tempfile::TempDir) -> HttpClient {
        let options = ClientOptions { cache: Some(cache.path().into()), ..ClientOptions::default() };
        HttpClient::over(&[&self.url], "test", options, session).unwrap()
    }
}

/// Answers a single request.
fn serve(mut stream: TcpStream, log: &Log, script: &Script) {
    let (mut bytes, mut chunk) = (Vec::new(), [0; 4096]);
    let (path, body) = loop {
        let count = stream.read(&mut chunk).unwrap();
        if count == 0 {
            return;
        }
        bytes.extend_from_slice(&chunk[..count]);
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap().to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        if bytes.len() == end + 4 + length.unwrap_or(0) {
            let path = head.split(' ').nth(1).unwrap().rsplit('/').next().unwrap().to_owned();
            break (path, bytes[end + 4..].to_vec());
        }
    };
    let before = {
        let mut log = log.lock();
        log.push((path.clone(), body.clone()));
        log.iter().filter(|(seen, _)| *seen == path).count() - 1
    };
    let (status, body) = script(&path, &body, before);
    let length = body.len();
    let head = format!("HTTP/1.1 {status} x\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
    stream.write_all(&[head.as_bytes(), &body].concat()).unwrap();
}

fn look_up(client: &mut HttpClient) -> Result<Timings, ClientError> {
    let lookups = client.look_up_indices(&[3])?;
    assert_eq!(lookups.values[0].as_ref().unwrap().fields(), [b"v"]);
    Ok(lookups.timings)
}

#[test]
fn keys_are_uploaded_before_the_first_query_and_not_again() {
    let cache = tempfile::tempdir().unwrap();
    let server = Server::start(|path, _| willing(path));
    let mut client = server.client(&cache);
    let first = look_up(&mut client).unwrap();
    let second = look_up(&mut client).unwrap();
    assert_eq!(server.paths(), ["keys", "query", "query"]);
    let upload = server.bodies("keys").remove(0);
    let limits = keyed_limits();
    assert_eq!(KeysRequest::decode(upload.clone().into(), &limits).unwrap().keys, KEYS.bytes());
    for body in server.bodies("query") {
        let request = Request::decode(body.into(), &limits).unwrap();
        assert_eq!(request.base.keys, Some(blake3::hash(KEYS.bytes()).into()));
    }
    // Keys are counted separately.
    assert_eq!((first.keys_bytes, second.keys_bytes), (upload.len() as u64, 0));
    assert_eq!(first.sent_bytes, second.sent_bytes);
    assert!(!first.keys.is_zero() && second.keys.is_zero());
}

#[test]
fn keys_that_the_server_has_forgotten_are_sent_with_the_same_request() {
    let cache = tempfile::tempdir().unwrap();
    let server = Server::start(|path, before| match (path, before) {
        ("query", 1 | 4) => unknown(),
        _ => willing(path),
    });
    let mut client = server.client(&cache);
    let sent = [(); 4].map(|()| look_up(&mut client).unwrap().keys_bytes as usize);
    assert_eq!(server.paths(), [&["keys"][..], &["query"; 6]].concat());
    let queries = server.bodies("query");
    for [refused, again] in [[1, 2], [4, 5]].map(|pair| pair.map(|i| &queries[i])) {
        assert!(again.starts_with(refused), "the same bytes come first");
        let (request, keys) = request_with_keys(again);
        assert_eq!((request, Vec::new()), request_with_keys(refused));
        assert_eq!(keys, [(Part::Base, Bytes::from_static(KEYS.bytes()))]);
    }
    assert!(queries[0] != queries[1] && queries[1] != queries[4]);
    // The request after a refused one carries the keys from the start.
    assert_eq!(request_with_keys(&queries[3]).1.len(), 1);
    // Keys are counted separately, whether they are uploaded or sent with a query.
    let behind = queries[2].len() - queries[1].len();
    assert_eq!(sent, [server.bodies("keys")[0].len(), behind, behind, behind]);
}

#[test]
fn a_server_that_keeps_no_keys_is_not_asked_forever() {
    let cache = tempfile::tempdir().unwrap();
    let server = Server::start(|path, _| if path == "query" { unknown() } else { willing(path) });
    let mut client = server.client(&cache);
    assert!(matches!(look_up(&mut client), Err(ClientError::KeysForgotten)));
    assert_eq!(server.paths(), ["keys", "query", "query"]);
    // The client tries again in its next look-up.
    assert!(matches!(look_up(&mut client), Err(ClientError::KeysForgotten)));
}

#[test]
fn refused_uploads_are_errors_and_those_that_pass_are_tried_again() {
    let cache = tempfile::tempdir().unwrap();
    let server = Server::start(|path, before| match (path, before) {
        ("keys", 0) => refusal(429, Code::Overloaded),
        ("keys", 1) => refusal(503, Code::Loading),
        _ => willing(path),
    });
    look_up(&mut server.client(&cache)).unwrap();
    assert_eq!(server.paths(), ["keys", "keys", "keys", "query"]);

    let server = Server::start(|path, _| match path {
        "keys" => (200, KeysResponse { blake3: KeysHash::new([9; 32]) }.encode()),
        _ => willing(path),
    });
    assert!(matches!(look_up(&mut server.client(&cache)), Err(ClientError::KeysChanged)));
    assert_eq!(server.paths(), ["keys"]);

    let server = Server::start(|_, _| refusal(500, Code::Internal));
    let error = look_up(&mut server.client(&cache)).unwrap_err();
    assert!(matches!(error, ClientError::Refused { status: 500, .. }));
    assert_eq!(server.paths(), ["keys"]);
}

#[test]
fn what_another_version_calls_malformed_is_outdated() {
    let cache = tempfile::tempdir().unwrap();
    for (at, status, code) in [
        ("keys", 404, Code::NoKeysNeeded),
        ("keys", 413, Code::TooLarge),
        ("keys", 400, Code::Malformed),
        ("query", 400, Code::Malformed),
    ] {
        // The server's current version decides whether the refusal only means an outdated version.
        for (version, outdated) in [(NEW, true), (OLD, false)] {
            let server = Server::start(move |path, _| match path {
                "config" => (200, config(version).encode()),
                _ if path == at => refusal(status, code),
                _ => willing(path),
            });
            let error = look_up(&mut server.client(&cache)).unwrap_err();
            let ClientError::Refused { refusal, .. } = error else { panic!("{error}") };
            // This server has no hint for a new session.
            assert_eq!(refusal.code, if outdated { Code::NoSuchEndpoint } else { code });
            let last: &[_] = if outdated { &["config", "config", "hint"] } else { &["config"] };
            let paths = server.paths();
            let endpoints: Vec<_> = paths.iter().map(|path| path.split('?').next().unwrap()).collect();
            assert!(endpoints.ends_with(last), "{endpoints:?}");
        }
    }
}
