//! Clients that send one byte per second, and connections that are opened and left.

use std::io::Write as _;
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

const PACE: Duration = Duration::from_secs(1);

/// Keeps `count` connections of each kind to a server until the other end of `stop` is dropped.
/// Reopens connections that the server closes.
pub fn crawl(address: &str, request: &[u8], count: usize, stop: &Receiver<()>) {
    let dial = || TcpStream::connect(address).unwrap();
    let half = &request[..request.len().min(20)];
    let open_half = || {
        let mut stream = dial();
        stream.write_all(half).unwrap();
        stream
    };
    let mut halves: Vec<TcpStream> = (0..count).map(|_| open_half()).collect();
    let mut slow: Vec<(TcpStream, usize)> = (0..count).map(|_| (dial(), 0)).collect();
    while stop.recv_timeout(PACE) == Err(RecvTimeoutError::Timeout) {
        for (stream, sent) in &mut slow {
            let byte = request[*sent % request.len()];
            match stream.write_all(&[byte]) {
                Ok(()) => *sent += 1,
                Err(_) => (*stream, *sent) = (dial(), 0),
            }
        }
        for stream in &mut halves {
            if stream.peer_addr().is_err() {
                *stream = open_half();
            }
        }
    }
}
