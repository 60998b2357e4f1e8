use std::sync::Arc;

use spirea_backend::BackendError;
use spirea_cpu::CpuBackend;
use spirea_engine::{Database, LoadError};
use spirea_protocols::Opening;
use spirea_store::Snapshot;

use super::choice::BackendChoice;
use super::entry::DatabaseBackend;
use super::gpus::Gpus;
use super::pim::Pim;
use super::processor::Processor;
use crate::gpu_memory::KeyBudget;

/// The backends of a server.
pub(crate) struct Backends {
    /// In the order in which a database is offered to them.
    ordered: Vec<Box<dyn DatabaseBackend>>,
    /// For what is computed beside the answers.
    cpu: Arc<CpuBackend>,
}

/// Where a database was opened.
pub(crate) struct Opened {
    pub database: Database,
    /// The name of what it is on.
    pub backend: String,
    /// The kind of the device that it is on, if it is on one.
    pub device: Option<&'static str>,
}

impl Backends {
    /// The backends of a choice; logs why there is no GPU where one would have been taken. `keys` says how much
    /// memory those of clients may take.
    pub fn open(choice: &BackendChoice, threads: usize, keys: KeyBudget) -> Result<Self, BackendError> {
        let cpu = Arc::new(CpuBackend::new(threads)?);
        let processor = Box::new(Processor::of(&cpu));
        let ordered: Vec<Box<dyn DatabaseBackend>> = match choice {
            BackendChoice::Cpu => vec![processor],
            BackendChoice::Cuda { devices, strategy } => {
                vec![Box::new(Gpus::open(devices, *strategy, keys)?)]
            }
            BackendChoice::Pim(choice) => vec![Box::new(Pim::open(*choice, &cpu)?), processor],
            BackendChoice::Auto => match Gpus::open(&[], None, keys) {
                Ok(gpus) => vec![Box::new(gpus), processor],
                Err(reason) => {
                    tracing::info!(%reason, "answering on the processor");
                    vec![processor]
                }
            },
        };
        Ok(Self { ordered, cpu })
    }

    /// Opens a verified snapshot on the first backend that takes it; logs why those before did not.
    pub fn database(&self, snapshot: &Snapshot, opening: Opening) -> Result<Opened, LoadError> {
        let manifest = snapshot.manifest();
        let mut refused = None;
        for backend in &self.ordered {
            if let Some((kind, reason)) = refused.take() {
                let (database, next) = (&manifest.name, backend.kind());
                tracing::warn!(%database, %reason, "answering on the {next}, not on a {kind}");
            }
            let fits = backend
                .fits(&manifest.protocol, opening.role.share())
                .map_err(|error| LoadError::Protocol(error.into()));
            match fits.and_then(|()| backend.open(snapshot, opening)) {
                Ok((database, name)) => {
                    let device = backend.is_device().then(|| backend.kind());
                    return Ok(Opened { database, backend: name, device });
                }
                Err(reason) => refused = Some((backend.kind(), reason)),
            }
        }
        Err(refused.map_or_else(none_left, |(_, reason)| reason))
    }

    /// Gives a device up that failed; false if that was done before. What was on it must be opened again.
    pub fn lose(&mut self, device: &str) -> bool {
        let before = self.ordered.len();
        self.ordered.retain(|backend| backend.kind() != device);
        self.ordered.len() < before
    }

    /// Whether there is no backend left.
    pub fn is_empty(&self) -> bool {
        self.ordered.is_empty()
    }

    /// Whether databases are offered to a device before the processor.
    pub fn prefers_device(&self) -> bool {
        self.ordered.first().is_some_and(|backend| backend.is_device())
    }

    /// The processor, for what is computed beside the answers.
    pub fn cpu(&self) -> &Arc<CpuBackend> {
        &self.cpu
    }
}

fn none_left() -> LoadError {
    let cause = "the devices that were to answer have failed: start the server again";
    LoadError::Protocol(BackendError::Unavailable(cause.into()).into())
}
