use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Instant, SystemTime};

use spirea_engine::Engine;
use tokio::sync::Mutex;

use crate::access::{Caller, Gate, OperatorNames};
use crate::body::{Received, Upload};
use crate::demo::Demo;
use crate::extension::Extension;
use crate::library::Library;
use crate::memory::Memory;
use crate::metrics::Metrics;
use crate::pace::Rate;
use crate::refused::Refused;
use crate::tls::Certificates;
use crate::traces::Spans;

/// What the endpoints share.
pub(crate) struct App {
    pub engine: Arc<Engine>,
    pub metrics: Metrics,
    /// Memory of bodies that are received or wait.
    pub memory: Memory,
    /// The least rate of requests' bodies.
    pub read_rate: Rate,
    /// Held while uploaded keys are prepared.
    pub preparing: Arc<Mutex<()>>,
    pub gate: Arc<Gate>,
    /// What the port for operators is known as.
    pub operator_names: OperatorNames,
    pub certificates: Option<Arc<Certificates>>,
    pub started: Instant,
    /// Where traces go to, if anywhere.
    pub traces: Option<Spans>,
    /// Whether the server is about to stop.
    pub leaving: AtomicBool,
    /// What publishes versions; none if the caller loaded the engine's databases.
    pub library: Option<Arc<Library>>,
    /// What the program adds, if anything.
    pub extension: Option<Arc<dyn Extension>>,
    /// The demo page, if there is one.
    pub demo: Option<Arc<Demo>>,
}

impl App {
    /// When the certificate expires, if there is one.
    pub fn certificate_expiry(&self) -> Option<SystemTime> {
        self.certificates.as_ref().map(|certificates| certificates.expires())
    }

    /// The message that was sent for a database, at most `limit` bytes.
    pub async fn receive(
        &self,
        database: &str,
        upload: Upload,
        limit: u64,
        caller: &Caller,
    ) -> Result<Received, Refused> {
        let received = upload.receive(limit, self.read_rate, &self.memory, caller).await?;
        self.metrics.of(database).received.inc_by(received.bytes.len() as u64);
        Ok(received)
    }
}
