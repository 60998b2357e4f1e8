//! HTTP/2 clients that stall their responses while keeping the connection busy.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use spirea_server::{Limits, ServerConfig};
use spirea_specimens::no_hook;
use tempfile::tempdir;

use crate::fixture::{PATIENCE, Running, dial, serve_config, urls};
use crate::tls::{Authority, files};

const SHORT: Duration = Duration::from_secs(1);

/// Pause between two frames of a stalling client: a tenth of the allowed lag.
const DRIP: Duration = Duration::from_millis(100);

/// Connection preface of HTTP/2 clients.
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Frame types.
pub const HEADERS: u8 = 1;
pub const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;

pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Returns a GET request as one frame that ends its stream.
pub fn get(stream: u32, path: &str) -> Vec<u8> {
    let literal =
        |name: u8, value: &str| [&[name, u8::try_from(value.len()).unwrap()], value.as_bytes()].concat();
    let block = [vec![0x82, 0x87], literal(0x04, path), literal(0x01, "localhost")].concat();
    frame(HEADERS, 0x5, stream, &block)
}

/// Returns a frame that grants credit for bytes of a response.
fn credit(stream: u32, bytes: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes())
}

/// A client that grants no credit for responses; it has requested the databases on stream 1.
pub struct Stalled(StreamOwned<ClientConnection, TcpStream>);

impl Stalled {
    pub fn new(authority: &Authority, server: &Running) -> Self {
        let name = ServerName::try_from("localhost").unwrap();
        let tls = ClientConnection::new(authority.client(&[b"h2"]), name).unwrap();
        let mut stream = StreamOwned::new(tls, dial(server.address));
        let no_window = [0, 4, 0, 0, 0, 0];
        let begin = [PREFACE.to_vec(), frame(SETTINGS, 0, 0, &no_window)];
        stream.write_all(&[begin.concat(), get(1, "/v1/databases")].concat()).unwrap();
        // The timeout is set after the handshake, whose duration is not limited.
        stream.sock.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        Self(stream)
    }

    pub fn send(&mut self, frames: &[u8]) {
        self.0.write_all(frames).unwrap();
    }

    /// Returns true if the server has closed the connection; waits briefly for that.
    fn is_closed(&mut self) -> bool {
        match self.0.read(&mut [0; 4096]) {
            Ok(0) => true,
            Ok(_) => false,
            Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        }
    }
}

/// Makes a client send frames until the server closes its connection.
fn assert_cut_off(frames: impl Fn(u32) -> Vec<u8>) {
    let folder = tempdir().unwrap();
    let (authority, tls) = (Authority::new(), files(folder.path()));
    authority.issue(&tls, 2100);
    let limits = Limits { write_timeout: SHORT, ..Limits::default() };
    let config = ServerConfig { limits, tls: Some(tls), ..ServerConfig::default() };
    let server = serve_config(&urls(folder.path(), no_hook()), config);
    let mut client = Stalled::new(&authority, &server);
    let (started, mut round) = (Instant::now(), 1);
    while client.0.write_all(&frames(round)).is_ok() && !client.is_closed() {
        assert!(started.elapsed() < PATIENCE, "the stalled response still holds its place");
        std::thread::sleep(DRIP);
        round += 1;
    }
}

#[test]
fn pings_do_not_hold_a_response_that_nobody_takes() {
    assert_cut_off(|_| frame(PING, 0, 0, &[0; 8]));
}

#[test]
fn a_drip_of_credit_does_not_hold_a_response() {
    assert_cut_off(|_| credit(1, 1));
}

#[test]
fn responses_that_are_taken_do_not_hold_one_that_is_not() {
    assert_cut_off(|round| {
        let stream = 2 * round + 1;
        [get(stream, "/healthz"), credit(stream, 1 << 16)].concat()
    });
}
