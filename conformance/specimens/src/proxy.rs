//! Proxy in front of a server that alters, replaces or withholds responses.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use parking_lot::Mutex;

/// Fate of a request.
pub enum Fate {
    /// Forwarded to the server at this address.
    Pass(String),
    /// Forwarded, with the answers in the response garbled.
    Garble(String),
    /// Answered with this status and body.
    Reply(u16, Vec<u8>),
    /// Not answered.
    Stall,
    /// The connection is closed.
    Hang,
}

/// Upper bound of the bytes before and after a single answer in a response's body.
const ENVELOPE: usize = 80;

/// Function that decides the fate of a request. Its arguments are the last part of the path and the
/// number of earlier requests with this part.
pub type Decide = dyn Fn(&str, usize) -> Fate + Send + Sync;

/// Starts a proxy, and returns its address.
pub fn start(decide: impl Fn(&str, usize) -> Fate + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (decide, seen): (Arc<Decide>, _) = (Arc::new(decide), Arc::<Mutex<Vec<String>>>::default());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (decide, seen) = (Arc::clone(&decide), Arc::clone(&seen));
            std::thread::spawn(move || {
                let mut client = BufReader::new(stream.unwrap());
                while serve(&mut client, &*decide, &seen).is_some() {}
            });
        }
    });
    url
}

/// Serves one request. Returns `None` if there is no further request.
fn serve(client: &mut BufReader<TcpStream>, decide: &Decide, seen: &Mutex<Vec<String>>) -> Option<()> {
    let (head, body) = message(client)?;
    let path = head.split(' ').nth(1)?.split('?').next()?;
    let part = path.rsplit('/').next()?.to_owned();
    let before = {
        let mut seen = seen.lock();
        seen.push(part.clone());
        seen.iter().filter(|other| **other == part).count() - 1
    };
    let response = match decide(&part, before) {
        Fate::Pass(address) => ask(&address, &head, &body)?,
        Fate::Garble(address) => {
            let mut response = ask(&address, &head, &body)?;
            // The answer fills the body except for at most `ENVELOPE` bytes on each side.
            let (start, end) = (response.len() - length(&response)? + ENVELOPE, response.len() - ENVELOPE);
            response[start..end].iter_mut().for_each(|byte| *byte ^= 0xff);
            response
        }
        Fate::Reply(status, body) => {
            let head = format!("HTTP/1.1 {status} x\r\ncontent-length: {}\r\n\r\n", body.len());
            [head.as_bytes(), &body].concat()
        }
        Fate::Stall => {
            // Waits until the client gives up.
            let _ = client.read(&mut [0]);
            return None;
        }
        Fate::Hang => return None,
    };
    client.get_mut().write_all(&response).ok()
}

/// Sends a request, and returns the response's bytes.
fn ask(address: &str, head: &str, body: &[u8]) -> Option<Vec<u8>> {
    let mut server = BufReader::new(TcpStream::connect(address).unwrap());
    server.get_mut().write_all(&[head.as_bytes(), body].concat()).unwrap();
    let (head, body) = message(&mut server)?;
    Some([head.as_bytes(), &body].concat())
}

/// Returns the length of a response's body.
fn length(response: &[u8]) -> Option<usize> {
    let head = response.windows(4).position(|four| four == b"\r\n\r\n")?;
    Some(response.len() - head - 4)
}

/// Reads a message: the head with the empty line, and the body.
fn message(stream: &mut BufReader<TcpStream>) -> Option<(String, Vec<u8>)> {
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let start = head.len();
        if stream.read_line(&mut head).ok()? == 0 {
            return None;
        }
        let line = head[start..].to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    Some((head, body))
}
