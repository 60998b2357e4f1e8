//! Connections: accepted up to a bound, served, and brought to an end.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use prometheus::IntGauge;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::Limits;

/// A pause after the system refused a connection, as it does while files are short.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Stops a server that runs: no connection is accepted any more, accepted requests are finished.
#[derive(Clone, Debug)]
pub struct Stopper(Arc<watch::Sender<bool>>);

impl Stopper {
    pub(crate) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }

    /// Asks the server to stop; [`Server::run`](crate::Server::run) returns when it has.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }

    async fn stopped(&self) {
        // The sender lives as long as this does.
        let _ = self.0.subscribe().wait_for(|stop| *stop).await;
    }
}

/// Serves connections until `stopper` stops it, and then until accepted requests are finished or the drain
/// timeout has passed.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    limits: &Limits,
    open: &IntGauge,
    stopper: &Stopper,
) {
    let mut http = http1::Builder::new();
    // Without a timer, a client that never ends its headers would keep its connection for good.
    http.timer(TokioTimer::new()).header_read_timeout(limits.read_timeout);
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(limits.connections.clamp(1, Semaphore::MAX_PERMITS)));
    let mut connections = JoinSet::new();
    loop {
        let accepted = async {
            let place = Arc::clone(&places).acquire_owned().await.expect("the semaphore is never closed");
            (place, listener.accept().await)
        };
        let (place, stream) = tokio::select! {
            () = stopper.stopped() => break,
            Some(_) = connections.join_next() => continue,
            (place, accepted) = accepted => match accepted {
                Ok((stream, _)) => (place, stream),
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            },
        };
        // An answer leaves at once, not when more follows.
        if stream.set_nodelay(true).is_err() {
            continue;
        }
        let service = TowerToHyperService::new(router.clone());
        let connection = graceful.watch(http.serve_connection(TokioIo::new(stream), service));
        let open = open.clone();
        open.inc();
        connections.spawn(async move {
            // A connection ends in an error when its client goes away: nothing to be done.
            let _ = connection.await;
            open.dec();
            drop(place);
        });
    }
    drop(listener);
    if tokio::time::timeout(limits.drain_timeout, graceful.shutdown()).await.is_err() {
        tracing::warn!("requests were still open when the drain timeout passed; they are cut off");
    }
}
