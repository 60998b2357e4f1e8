//! A proxy in front of a server that changes, refuses or keeps what the server says.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What becomes of a request.
pub enum Fate {
    /// It goes to the server at this address.
    Pass(String),
    /// And what the response answers is garbled.
    Garble(String),
    /// This status and body come back.
    Reply(u16, Vec<u8>),
    /// Nothing comes back.
    Stall,
    /// The connection is closed.
    Hang,
}

/// More than the bytes of a response's body on either side of a single answer.
const ENVELOPE: usize = 80;

/// Decides by the last part of the path, and how many like it came before.
pub type Decide = dyn Fn(&str, usize) -> Fate + Send + Sync;

/// Starts one; gives its address.
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

/// Serves one request; `None` if there is no further one.
fn serve(client: &mut BufReader<TcpStream>, decide: &Decide, seen: &Mutex<Vec<String>>) -> Option<()> {
    let (head, body) = message(client)?;
    let path = head.split(' ').nth(1)?.split('?').next()?;
    let part = path.rsplit('/').next()?.to_owned();
    let before = {
        let mut seen = seen.lock().unwrap();
        seen.push(part.clone());
        seen.iter().filter(|other| **other == part).count() - 1
    };
    let response = match decide(&part, before) {
        Fate::Pass(address) => ask(&address, &head, &body)?,
        Fate::Garble(address) => {
            let mut response = ask(&address, &head, &body)?;
            // The answer takes all of the body but a few bytes before and after it.
            let (start, end) = (response.len() - length(&response)? + ENVELOPE, response.len() - ENVELOPE);
            response[start..end].iter_mut().for_each(|byte| *byte ^= 0xff);
            response
        }
        Fate::Reply(status, body) => {
            let head = format!("HTTP/1.1 {status} x\r\ncontent-length: {}\r\n\r\n", body.len());
            [head.as_bytes(), &body].concat()
        }
        Fate::Stall => {
            // Until the client gives up.
            let _ = client.read(&mut [0]);
            return None;
        }
        Fate::Hang => return None,
    };
    client.get_mut().write_all(&response).ok()
}

/// A response's bytes.
fn ask(address: &str, head: &str, body: &[u8]) -> Option<Vec<u8>> {
    let mut server = BufReader::new(TcpStream::connect(address).unwrap());
    server.get_mut().write_all(&[head.as_bytes(), body].concat()).unwrap();
    let (head, body) = message(&mut server)?;
    Some([head.as_bytes(), &body].concat())
}

/// The length of a response's body.
fn length(response: &[u8]) -> Option<usize> {
    let head = response.windows(4).position(|four| four == b"\r\n\r\n")?;
    Some(response.len() - head - 4)
}

/// A message's head with the empty line, and its body.
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
