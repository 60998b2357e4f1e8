use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Instant, SystemTime};

use spirea_engine::{Engine, EngineError, Served};
use tokio::sync::Mutex;

use crate::access::{Caller, Gate, OperatorNames};
use crate::apple::Apple;
use crate::body::{Received, Upload};
use crate::demo::Demo;
use crate::extension::Extension;
use crate::library::Library;
use crate::memory::Memory;
use crate::metrics::Metrics;
use crate::pace::Rate;
use crate::pieces::Pieces;
use crate::refused::Refused;
use crate::tls::Certificates;
use crate::traces::Spans;

/// State shared by the endpoints.
pub(crate) struct App {
    pub engine: Arc<Engine>,
    pub metrics: Metrics,
    /// Memory of the bodies that are being received, or that wait for the computation.
    pub memory: Memory,
    /// Minimum rate of request bodies.
    pub read_rate: Rate,
    /// Lock held while uploaded keys are prepared.
    pub preparing: Arc<Mutex<()>>,
    /// Keys that arrive in pieces.
    pub pieces: Pieces,
    /// Maximum bytes of a request. Clients are asked not to exceed it.
    pub request_bytes: u64,
    pub gate: Arc<Gate>,
    /// Host names of the port for operators.
    pub operator_names: OperatorNames,
    pub certificates: Option<Arc<Certificates>>,
    pub started: Instant,
    /// Exporter of traces, if there is a collector.
    pub traces: Option<Spans>,
    /// True once the server is about to stop.
    pub leaving: AtomicBool,
    /// State of the endpoints for Apple's clients.
    pub apple: Apple,
    /// Publisher of versions; `None` if the caller loaded the engine's databases.
    pub library: Option<Arc<Library>>,
    /// Endpoints and metrics that the program adds, if any.
    pub extension: Option<Arc<dyn Extension>>,
    /// The demo page, if there is one.
    pub demo: Option<Arc<Demo>>,
}

impl App {
    /// Returns the certificate's expiry, if there is a certificate.
    pub fn certificate_expiry(&self) -> Option<SystemTime> {
        self.certificates.as_ref().map(|certificates| certificates.expires())
    }

    /// Returns a version with all its parts open. A part that was released is opened first.
    ///
    /// # Errors
    /// Those of [`Library::awake`].
    pub async fn awake(&self, database: &str, served: Served) -> Result<Served, EngineError> {
        match &self.library {
            Some(library) => library.awake(database, served).await,
            None => Ok(served),
        }
    }

    /// Receives the message sent for a database, of at most `limit` bytes.
    pub async fn receive(
        &self,
        database: &str,
        upload: Upload,
        limit: u64,
        caller: &Caller,
    ) -> Result<Received, Refused> {
        let received = upload.receive(limit, self.read_rate, &self.memory, caller).await;
        let received = received.map_err(|refused| match self.engine.awaited(database) {
            // The message may be valid for the awaited version, whose limit may be higher.
            Some(_) if refused.is_too_large() => EngineError::NotYet.into(),
            _ => refused,
        })?;
        self.metrics.of(database).received.inc_by(received.bytes.len() as u64);
        Ok(received)
    }
}
