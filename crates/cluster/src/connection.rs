//! HTTP/2 connection to a worker over mutual TLS. When the connection ends, its requests are
//! cancelled. The length of responses is limited.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Collected, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper::rt::Executor;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::pki_types::ServerName;
use spirea_server::peer_expiry;
use tokio::io::AsyncBufReadExt as _;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::placement::Address;
use crate::status::ShareStatus;
use crate::tls::{HTTP_2, MutualTls};

/// Maximum time for a status response, and for connecting. A worker that takes longer counts as
/// lost.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);
/// Maximum length of a status or error response, in bytes.
pub(crate) const MAX_STATUS_BYTES: usize = 64 << 10;
/// Maximum length of a line of foreign text, in bytes.
const MAX_LINE_BYTES: usize = 256;
/// Flow-control windows, large enough not to delay a partial.
const STREAM_WINDOW: u32 = 16 << 20;
const CONNECTION_WINDOW: u32 = 64 << 20;

/// Handle that sends requests on a connection.
pub(crate) type Sender = SendRequest<Full<Bytes>>;

/// Task that drives a connection, with the connection's outcome.
pub(crate) type Driver = JoinHandle<Option<hyper::Result<()>>>;

/// A connection. Dropping this value closes it.
pub(crate) struct Connection {
    pub sender: Sender,
    pub driver: Driver,
    /// Expiry of the worker's certificate.
    pub expires: Option<SystemTime>,
    pub tasks: DropGuard,
}

/// Executor for a connection and the request tasks that HTTP/2 spawns beside it. Cancelling the
/// token ends all of these tasks; without that, tasks on a dead connection would wait for ever.
#[derive(Clone)]
struct Tasks(CancellationToken);

impl Tasks {
    fn spawn<F: Future<Output: Send> + Send + 'static>(&self, task: F) -> JoinHandle<Option<F::Output>> {
        tokio::spawn(self.0.clone().run_until_cancelled_owned(task))
    }
}

impl<F: Future<Output: Send> + Send + 'static> Executor<F> for Tasks {
    fn execute(&self, task: F) {
        self.spawn(task);
    }
}

impl Connection {
    /// Connects to the worker at `url`; both sides have accepted the other's certificate.
    pub async fn open(url: &str, tls: &MutualTls) -> Result<Self, String> {
        let Address { host, port } = Address::parse(url).ok_or("its address is none")?;
        let name = ServerName::try_from(host.clone()).map_err(|error| error.to_string())?;
        let connect = async {
            let stream = TcpStream::connect((host.as_str(), port)).await?;
            // Requests are sent at once, without waiting for more data.
            stream.set_nodelay(true)?;
            let mut stream = TlsConnector::from(tls.client()).connect(name, stream).await?;
            if stream.get_ref().1.alpn_protocol() != Some(HTTP_2) {
                return Err(std::io::Error::other("it does not speak HTTP/2"));
            }
            // A worker speaks first. If it refuses the certificate, it says so after the handshake
            // (TLS 1.3) and closes. A client that has already sent something might see only the
            // closed connection, not the reason.
            stream.fill_buf().await?;
            Ok(stream)
        };
        let stream = timeout(PATIENCE, connect).await.map_err(|_| "it takes no connection")?;
        let stream = stream.map_err(|error| error.to_string())?;
        let expires = peer_expiry(stream.get_ref().1);
        let tasks = Tasks(CancellationToken::new());
        let handshake = http2::Builder::new(tasks.clone())
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .handshake(TokioIo::new(stream));
        let (sender, connection) = handshake.await.map_err(|error| told(&error))?;
        let driver = tasks.spawn(connection);
        Ok(Self { sender, driver, expires, tasks: tasks.0.drop_guard() })
    }
}

/// Sends a request. Dropping the future cancels the request.
pub(crate) async fn send(
    mut sender: Sender,
    request: Request<Full<Bytes>>,
) -> Result<Response<Incoming>, String> {
    sender.ready().await.map_err(|error| told(&error))?;
    sender.send_request(request).await.map_err(|error| told(&error))
}

/// Reads a body of at most `most` bytes.
pub(crate) async fn read(response: Response<Incoming>, most: usize) -> Result<Bytes, String> {
    let body = Limited::new(response.into_body(), most).collect().await;
    body.map(Collected::to_bytes).map_err(|error| format!("its response broke off: {error}"))
}

/// Asks the worker at `url` for its status.
pub(crate) async fn status(sender: Sender, url: &str) -> Result<ShareStatus, String> {
    let request = Request::get(format!("{url}/v1/share")).body(Full::default());
    let request = request.map_err(|error| error.to_string())?;
    let response = send(sender, request).await?;
    if response.status() != StatusCode::OK {
        return Err(format!("it does not say what it serves: status {}", response.status()));
    }
    let body = read(response, MAX_STATUS_BYTES).await?;
    serde_json::from_slice(&body).map_err(|error| format!("what it says of itself cannot be read: {error}"))
}

/// Returns the first line of a foreign text, shortened and without control characters, since it
/// goes into logs and to clients.
pub(crate) fn line(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(MAX_LINE_BYTES)]);
    text.lines().next().unwrap_or_default().chars().filter(|character| !character.is_control()).collect()
}

/// Formats an error with its source.
pub(crate) fn told(error: &hyper::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_refusal_one_line_goes_on() {
        assert_eq!(line(b"a query has 3 bytes\n"), "a query has 3 bytes");
        assert_eq!(line(b"one\x1b[31m\r\ntwo\nthree"), "one[31m");
        assert_eq!(line(&[b'x'; MAX_STATUS_BYTES]).len(), MAX_LINE_BYTES);
        assert_eq!(line(b""), "");
    }
}
