//! Well-formed requests, and mutations of them as an attacker or an accident would cause.

use std::path::Path;

use spirea_client::Session;

use crate::torture::edition::Edition;
use crate::torture::scale::Dice;
use crate::torture::service::{Http, Service};
use crate::torture::table::{changes, key};

/// Maximum length of a body after bytes are appended.
const MOST_BEHIND: usize = 64 << 10;
/// Maximum length of a path.
const MOST_PATH: usize = 8 << 10;

/// Content type of an endpoint's bodies.
pub fn content_type(target: &str) -> &'static str {
    match target.rsplit('/').next() {
        Some("changes") => "application/x-ndjson",
        Some("snapshot") => "application/x-tar",
        _ => spirea_wire::CONTENT_TYPE,
    }
}

/// Port for the request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Port {
    Data,
    Admin,
}

/// A well-formed request.
#[derive(Clone)]
pub struct WellFormed {
    pub port: Port,
    method: String,
    target: Vec<u8>,
    content_type: String,
    headers: Vec<u8>,
    body: Vec<u8>,
}

/// Bytes to send.
pub struct Sent {
    pub bytes: Vec<u8>,
    /// True if the server must answer. It may ignore bytes that are not HTTP.
    pub answered: bool,
}

impl WellFormed {
    fn new(port: Port, method: &str, target: &str, body: Vec<u8>) -> Self {
        Self {
            port,
            method: method.into(),
            target: target.into(),
            content_type: content_type(target).into(),
            headers: Vec::new(),
            body,
        }
    }

    /// True if the request is a query.
    pub fn is_query(&self) -> bool {
        self.target.ends_with(b"/query")
    }

    /// Length of the body in bytes.
    pub fn length(&self) -> usize {
        self.body.len()
    }

    /// Encodes the request with `length` as the stated length of the body, which may be wrong.
    pub fn bytes(&self, length: usize) -> Vec<u8> {
        let mut bytes = format!("{} ", self.method).into_bytes();
        bytes.extend_from_slice(&self.target);
        let head = format!(
            " HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: {}\r\ncontent-length: {length}\r\n",
            self.content_type
        );
        bytes.extend_from_slice(head.as_bytes());
        bytes.extend_from_slice(&self.headers);
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(&self.body);
        bytes
    }
}

/// Makes a well-formed request to each endpoint: queries to both databases, keys to the second,
/// publications to the first.
pub fn right(service: &Service, http: &Http, [first, second]: [&str; 2], upload: &[u8]) -> Vec<WellFormed> {
    let mut requests = Vec::new();
    for path in ["/healthz", "/livez", "/readyz", "/metrics", "/openapi.json"] {
        requests.extend([Port::Data, Port::Admin].map(|port| WellFormed::new(port, "GET", path, Vec::new())));
    }
    requests.push(WellFormed::new(Port::Data, "GET", "/v1/databases", Vec::new()));
    for name in [first, second] {
        let edition = Edition::download(http, service, name);
        let mut session: Session = edition.session();
        let round = session.query_keys(&[key(0).as_bytes(), key(1).as_bytes()]).unwrap();
        let below = |endpoint: &str| format!("/v1/databases/{name}/{endpoint}");
        let version = edition.description.version();
        let hint = edition.description.base().hint_blake3().to_string();
        for endpoint in [
            "config",
            "hint",
            "hint/rows",
            &format!("config?version={version}"),
            &format!("hint?blake3={hint}"),
            &format!("hint/rows?blake3={hint}"),
        ] {
            requests.push(WellFormed::new(Port::Data, "GET", &below(endpoint), Vec::new()));
        }
        requests.push(WellFormed::new(Port::Data, "POST", &below("query"), round.requests[0].clone()));
        let uploads = session.keys().into_iter().map(|keys| keys.request());
        requests.extend(uploads.map(|keys| WellFormed::new(Port::Data, "POST", &below("keys"), keys)));
    }
    for path in ["/", "/page.js", "/page.css", "/v1/admin/databases", "/v1/admin/status"] {
        requests.push(WellFormed::new(Port::Admin, "GET", path, Vec::new()));
    }
    let admin = |endpoint: &str| format!("/v1/admin/databases/{first}/{endpoint}");
    requests.push(WellFormed::new(Port::Admin, "GET", &admin("versions"), Vec::new()));
    requests.push(WellFormed::new(Port::Admin, "POST", &admin("changes"), changes([0], 2)));
    requests.push(WellFormed::new(Port::Admin, "POST", &admin("snapshot"), upload.to_vec()));
    let rollback = admin(&format!("rollback?to={}", "ab".repeat(32)));
    requests.push(WellFormed::new(Port::Admin, "POST", &rollback, Vec::new()));
    requests
}

/// Reads the files of a folder of test vectors, for use as bodies from other sources.
pub fn corpus(folder: &Path, found: &mut Vec<Vec<u8>>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => corpus(&path, found),
            false => found.push(std::fs::read(path).unwrap()),
        }
    }
}

/// Makes a malformed request from one of the well-formed ones.
pub fn malformed(right: &[WellFormed], corpus: &[Vec<u8>], dice: &mut Dice) -> (Port, Sent) {
    let mut request = dice.of(right).clone();
    let port = request.port;
    let mut lie = None;
    match dice.below(12) {
        0 | 1 => flip(&mut request.body, dice),
        2 => request.body.truncate(dice.below(request.body.len())),
        3 => {
            let behind = dice.below(MOST_BEHIND);
            request.body.extend(dice.bytes(behind));
        }
        4 => {
            let length = dice.below(request.body.len() + 16);
            request.body = dice.bytes(length);
        }
        5 => {
            let other = dice.of(right).body.clone();
            let (kept, from) = (dice.below(request.body.len() + 1), dice.below(other.len() + 1));
            request.body.truncate(kept);
            request.body.extend_from_slice(&other[from..]);
        }
        6 => {
            request.body.clone_from(dice.of(corpus));
            request.method = "POST".into();
        }
        7 => target(&mut request.target, dice),
        8 => request.method = (*dice.of(&["GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD", "X"])).into(),
        9 => request.headers = header(dice),
        10 => {
            request.content_type = (*dice.of(&["", "text/plain", "application/json", "a/b; c=\"d"])).into();
            lie = Some(request.body.len() + 1 + dice.below(1 << 16));
        }
        _ => {
            let length = dice.below(512);
            let mut bytes = request.bytes(request.body.len());
            flip(&mut bytes, dice);
            let bytes = if dice.below(2) == 0 { bytes } else { dice.bytes(length) };
            return (port, Sent { bytes, answered: false });
        }
    }
    let answered = lie.is_none() && request.target.iter().all(|byte| byte.is_ascii_graphic());
    let bytes = request.bytes(lie.unwrap_or(request.body.len()));
    (port, Sent { bytes, answered })
}

/// Flips a few bits.
fn flip(bytes: &mut [u8], dice: &mut Dice) {
    if bytes.is_empty() {
        return;
    }
    for _ in 0..=dice.below(8) {
        let at = dice.below(bytes.len());
        bytes[at] ^= 1 << dice.below(8);
    }
}

/// Changes the path or the query string.
fn target(target: &mut Vec<u8>, dice: &mut Dice) {
    match dice.below(5) {
        0 => flip(target, dice),
        1 => target.extend_from_slice(b"?blake3=zz&version=&to=%00"),
        2 => target.extend(std::iter::repeat_n(b'a', dice.below(MOST_PATH))),
        3 => target.extend_from_slice(b"/../../%2e%2e/%ff/etc"),
        _ => {
            let end = dice.below(target.len());
            target.truncate(1 + end);
        }
    }
}

/// Makes a header without meaning for the server.
fn header(dice: &mut Dice) -> Vec<u8> {
    let names =
        ["range", "if-none-match", "if-range", "accept", "spirea-request-id", "authorization", "expect"];
    let values: [&[u8]; 6] = [
        b"bytes=99999999999999999999-",
        b"bytes=5-1,0-0",
        b"\"\xff\xfe\"",
        b"Bearer \x80",
        b"application/x-protobuf",
        b"0123456789abcdef",
    ];
    let name = dice.of(&names).as_bytes();
    let value: &[u8] = dice.of::<&[u8]>(&values);
    [name, b": ", value, b"\r\n"].concat()
}
