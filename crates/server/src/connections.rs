//! Connections: accepting them up to a limit, serving them, and closing them.

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::http::Request;
use axum::response::{IntoResponse as _, Response};
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::{http1, http2};
use hyper::service::{HttpService, Service as _, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use hyper_util::service::TowerToHyperService;
use prometheus::{IntCounter, IntGauge};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::Limits;
use crate::access::{Peer, Shares};
use crate::activity::{Activity, Noted, Overdue, Room};
use crate::drain::Drained;
use crate::memory::{Accounted, ConnectionMemory, ResponseMemory};
use crate::refused::Refused;
use crate::tls::{HTTP_2, expired, peer_expiry};

/// Pause after the system refused a connection, for example because it is short of file
/// descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Maximum number of connections for publishing and administration: people and their tools are few.
pub(crate) const ADMIN_CONNECTIONS: usize = 256;
/// Memory for connections of publishers and administrators and for their requests, in bytes.
pub(crate) const ADMIN_MEMORY: u64 = 256 << 20;
/// Maximum number of concurrent requests in an HTTP/2 connection.
const STREAMS: u32 = 64;
/// Maximum bytes of a request's headers.
const HEADER_BYTES: u32 = 64 << 10;
/// Size of the read buffer and of the write buffer: for each connection in HTTP/1, for each stream
/// in HTTP/2.
const BUFFER_BYTES: usize = 64 << 10;
/// HTTP/2 flow-control window: body bytes that a connection receives before they are read, over all
/// its streams and for each stream.
const WINDOW_BYTES: u32 = 256 << 10;
/// Bytes that a connection without a request holds: a head that is being received (at most twice
/// `HEADER_BYTES`, as bytes and as fields), and 128 KiB of TLS in both directions.
const CONNECTION_BYTES: u64 = 256 << 10;
/// Additional bytes of an HTTP/2 connection: its window, frames, and the tables of header
/// compression.
const HTTP_2_BYTES: u64 = WINDOW_BYTES as u64 + (64 << 10);
/// Bytes that a request holds: its head, and the first bytes of its response.
const REQUEST_BYTES: u64 = HEADER_BYTES as u64 + ResponseMemory::OWN_BYTES;

/// Handle that stops a running server: it accepts no further connection and finishes accepted
/// requests.
#[derive(Clone, Debug)]
pub struct Stopper(Arc<watch::Sender<bool>>);

impl Stopper {
    /// Creates a stopper that has not been triggered.
    pub fn new() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }

    /// Asks the server to stop; [`Server::run`](crate::Server::run) returns when it has stopped.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }

    /// Waits until [`Stopper::stop`] is called.
    pub async fn stopped(&self) {
        // `self` keeps the sender alive.
        let _ = self.0.subscribe().wait_for(|stop| *stop).await;
    }
}

impl Default for Stopper {
    fn default() -> Self {
        Self::new()
    }
}

/// Serves a program's own router on a port, with the limits of a server's ports. Returns after
/// `stopper` has stopped it and accepted requests are finished.
pub async fn serve_router(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    router: Router,
    limits: Limits,
    stopper: &Stopper,
) {
    let counted = "connections of a program's own router";
    let open = IntGauge::new("open", counted).expect("the name is one");
    let turned_away = IntCounter::new("turned_away", counted).expect("the name is one");
    let reserved = IntGauge::new("reserved", counted).expect("the name is one");
    let memory = ConnectionMemory::new(limits.connection_memory, limits.client_connection_memory, reserved);
    let places = limits.connections;
    Port { listener, tls, router, places, memory, limits, open, turned_away }.serve(stopper).await;
}

/// A port and the router that it serves.
pub(crate) struct Port {
    pub listener: TcpListener,
    pub tls: Option<TlsAcceptor>,
    pub router: Router,
    /// Maximum number of open connections; further ones wait to be accepted.
    pub places: usize,
    /// Memory that the connections hold.
    pub memory: Arc<ConnectionMemory>,
    pub limits: Limits,
    pub open: IntGauge,
    /// Counter of connections that were closed because their address had reached its limit of
    /// connections or memory.
    pub turned_away: IntCounter,
}

impl Port {
    /// Serves connections until `stopper` stops it; then waits until accepted requests are finished
    /// or the drain timeout has passed.
    pub async fn serve(self, stopper: &Stopper) {
        let Self { listener, tls, router, places, memory, limits, open, turned_away } = self;
        let places = Arc::new(Semaphore::new(places.clamp(1, Semaphore::MAX_PERMITS)));
        let shares = Shares::new(limits.client_connections as u64);
        let room = watch::Sender::new(Room::Some);
        let mut connections = JoinSet::new();
        loop {
            let accepted = async {
                let fits = places.available_permits() > 0 && memory.has(CONNECTION_BYTES);
                let left = if fits { Room::Some } else { Room::None };
                room.send_if_modified(|room| std::mem::replace(room, left) != left);
                let place = Arc::clone(&places).acquire_owned().await.expect("the semaphore is never closed");
                let buffers = memory.wait(CONNECTION_BYTES).await;
                ((place, buffers), listener.accept().await)
            };
            let ((place, buffers), (stream, peer)) = tokio::select! {
                () = stopper.stopped() => break,
                Some(_) = connections.join_next() => continue,
                (room, accepted) = accepted => match accepted {
                    Ok((stream, peer)) => (room, (stream, Peer(peer.ip()))),
                    Err(error) => {
                        tracing::warn!(%error, "a connection could not be accepted");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                        continue;
                    }
                },
            };
            let client = peer.network();
            let (Some(share), Some(buffers)) = (shares.take(&client, 1), buffers.assign(&client)) else {
                turned_away.inc();
                continue;
            };
            let connection = Connection {
                peer,
                tls: tls.clone(),
                router: router.clone(),
                memory: Arc::clone(&memory),
                turned_away: turned_away.clone(),
                limits: limits.clone(),
                stopper: stopper.clone(),
                room: room.subscribe(),
            };
            let open = open.clone();
            open.inc();
            connections.spawn(async move {
                // An error means that the client has gone away; there is nothing to do.
                let _ = connection.serve(stream).await;
                open.dec();
                drop((place, share, buffers));
            });
        }
        drop(listener);
        let finished = async { while connections.join_next().await.is_some() {} };
        if tokio::time::timeout(limits.drain_timeout, finished).await.is_err() {
            tracing::warn!("requests were still open when the drain timeout passed; they are cut off");
            open.sub(connections.len() as i64);
        }
    }
}

struct Connection {
    peer: Peer,
    tls: Option<TlsAcceptor>,
    router: Router,
    memory: Arc<ConnectionMemory>,
    turned_away: IntCounter,
    limits: Limits,
    stopper: Stopper,
    room: watch::Receiver<Room>,
}

impl Connection {
    async fn serve(self, stream: TcpStream) -> io::Result<()> {
        // Sends an answer at once instead of waiting for more data (Nagle's algorithm).
        stream.set_nodelay(true)?;
        let Some(tls) = &self.tls else { return self.http_1(stream, None).await };
        let shaking = Activity::new();
        let stream = tokio::select! {
            () = self.stopper.stopped() => return Ok(()),
            _ = shaking.overdue(&self.limits, &self.room) => return Ok(()),
            shaken = tls.accept(stream) => shaken?,
        };
        let connection = stream.get_ref().1;
        let expires = peer_expiry(connection);
        match connection.alpn_protocol() {
            Some(HTTP_2) => self.http_2(stream, expires).await,
            _ => self.http_1(stream, expires).await,
        }
    }

    async fn http_1(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        expires: Option<SystemTime>,
    ) -> io::Result<()> {
        let activity = Activity::new();
        let stream = TokioIo::new(Noted::new(stream, &activity));
        let connection = http1::Builder::new()
            .max_buf_size(BUFFER_BYTES)
            .serve_connection(stream, self.service(&activity));
        self.attend(connection, &activity, expires).await;
        Ok(())
    }

    async fn http_2(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        expires: Option<SystemTime>,
    ) -> io::Result<()> {
        let Some(_windows) = self.memory.take(&self.peer.network(), HTTP_2_BYTES) else {
            self.turned_away.inc();
            return Ok(());
        };
        let activity = Activity::new();
        let stream = TokioIo::new(Noted::new(stream, &activity));
        let connection = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS)
            .max_header_list_size(HEADER_BYTES)
            .max_send_buf_size(BUFFER_BYTES)
            .initial_connection_window_size(WINDOW_BYTES)
            .initial_stream_window_size(WINDOW_BYTES)
            .serve_connection(stream, self.service(&activity));
        self.attend(connection, &activity, expires).await;
        Ok(())
    }

    /// Drives a connection until it ends, its client exceeds a timeout, the certificate that
    /// identifies the client expires, or the server stops. After an idle timeout, the expiry of the
    /// certificate or a stop of the server, accepted requests are finished first.
    async fn attend(
        &self,
        connection: impl GracefulConnection,
        activity: &Activity,
        expires: Option<SystemTime>,
    ) {
        let mut connection = pin!(connection);
        tokio::select! {
            _ = connection.as_mut() => return,
            () = self.stopper.stopped() => (),
            () = expired(expires) => (),
            overdue = activity.overdue(&self.limits, &self.room) => match overdue {
                Overdue::Response | Overdue::Head => return,
                // A request may be on its way.
                Overdue::Idle => activity.rest(),
            },
        }
        connection.as_mut().graceful_shutdown();
        tokio::select! {
            _ = connection => (),
            _ = activity.overdue(&self.limits, &self.room) => (),
        }
    }

    /// Returns the router as a service that notes each request and its peer, counts its memory, and
    /// leaves no byte of its body unread.
    fn service(
        &self,
        activity: &Arc<Activity>,
    ) -> impl HttpService<Incoming, ResBody = axum::body::Body, Error = Infallible, Future: Send + 'static> + use<>
    {
        let (router, activity) = (TowerToHyperService::new(self.router.clone()), Arc::clone(activity));
        let (peer, rate, memory) = (self.peer, self.limits.write_rate(), Arc::clone(&self.memory));
        let for_responses = ResponseMemory::new(Arc::clone(&memory), &peer.network());
        service_fn(move |mut request: Request<Incoming>| {
            let (busy, memory, router) = (activity.begin(), Arc::clone(&memory), router.clone());
            let for_responses = for_responses.clone();
            request.extensions_mut().insert(peer);
            request.extensions_mut().insert(for_responses.clone());
            let request = Drained::attach(request);
            async move {
                let Some(own) = memory.take(&peer.network(), REQUEST_BYTES) else {
                    let refused = Refused::short_of_connection_memory().into_response();
                    return Ok(busy.until_sent(refused, rate, ()));
                };
                let response = router.call(request).await?;
                Ok(match rest_of(&response, &for_responses) {
                    Some(rest) => busy.until_sent(response, rate, (own, rest)),
                    None => busy.until_sent(Refused::response_above_memory().into_response(), rate, own),
                })
            }
        })
    }
}

/// Returns the memory of a response: the reservation made before the response was computed or,
/// without one, a new reservation. `None` if too little memory is left. A response without a length
/// comes from a file, in pieces.
fn rest_of(response: &Response, memory: &ResponseMemory) -> Option<Accounted> {
    let reserved = response.extensions().get().cloned();
    reserved.or_else(|| memory.reserve(response.body().size_hint().exact().unwrap_or(0)))
}
