//! HTTP/2 frames in any order and with any content, on connections to a running server.
//! `SPIREA_CONFORMANCE=long` makes 100,000 connections.

use std::io::{Read as _, Write as _};

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use spirea_server::ServerConfig;
use spirea_specimens::{Inputs, inputs, no_hook};
use tempfile::tempdir;

use crate::fixture::{dial, serve_config, urls};
use crate::stalls::{HEADERS, PREFACE, SETTINGS, frame, get};
use crate::tls::{Authority, files};

const DATA: u8 = 0;
const CONTINUATION: u8 = 9;

/// Returns the bytes of a connection: a preface, then frames of any type and content.
fn connection(made: &mut Inputs) -> Vec<u8> {
    let mut bytes = [PREFACE.to_vec(), frame(SETTINGS, 0, 0, &[])].concat();
    for _ in 0..=made.below(8) {
        let stream = *made.of(&[0, 1, 1, 3, 5, 2, u32::MAX >> 1]);
        let path = *made.of(&["/healthz", "/v1/databases/urls/hint", "/v1/databases/urls/config"]);
        match made.below(6) {
            0..3 => bytes.extend(get(stream, path)),
            3 => {
                let payload = length_of(made, 300);
                let kind = *made.of(&[DATA, HEADERS, CONTINUATION]);
                bytes.extend(frame(kind, made.below(256) as u8, stream, &payload));
            }
            4 => {
                // The lengths that the types require: PRIORITY, RST_STREAM, PING, SETTINGS,
                // WINDOW_UPDATE.
                let count = *made.of(&[4, 5, 6, 8]);
                let payload = made.bytes(count);
                bytes.extend(frame(made.below(12) as u8, made.below(2) as u8, stream, &payload));
            }
            _ => {
                let payload = length_of(made, 40);
                bytes.extend(frame(made.below(256) as u8, made.below(256) as u8, stream, &payload));
            }
        }
    }
    if made.below(2) == 0 { made.changed(&[bytes]) } else { bytes }
}

fn length_of(made: &mut Inputs, bound: usize) -> Vec<u8> {
    let count = made.below(bound);
    made.bytes(count)
}

#[test]
fn any_frames_end_with_their_connection_and_the_server_answers_on() {
    let folder = tempdir().unwrap();
    let (authority, tls) = (Authority::new(), files(folder.path()));
    authority.issue(&tls, 2100);
    let config = ServerConfig { tls: Some(tls), ..ServerConfig::default() };
    let server = serve_config(&urls(folder.path(), no_hook()), config);
    let connect = |protocol: &[u8]| {
        let name = ServerName::try_from("localhost").unwrap();
        let tls = ClientConnection::new(authority.client(&[protocol]), name).unwrap();
        StreamOwned::new(tls, dial(server.address))
    };
    let mut made = Inputs::new(4);
    for i in 0..inputs(300) {
        let mut stream = connect(b"h2");
        // A server that gives up on the connection does not read to the end.
        let _ = stream.write_all(&connection(&mut made));
        stream.conn.send_close_notify();
        let _ = stream.flush();
        let mut said = Vec::new();
        // Either end may close the connection; a server that is silent for a minute has kept it
        // open.
        if let Err(error) = stream.read_to_end(&mut said) {
            let silent =
                matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut);
            assert!(!silent, "connection {i} is still open");
        }
    }
    let mut stream = connect(b"http/1.1");
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    let _ = stream.read_to_string(&mut text);
    assert!(text.starts_with("HTTP/1.1 200") && text.contains("\nspirea_in_flight_requests 1\n"), "{text}");
}
