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
    /// Backends in the order in which a database is offered to them.
    ordered: Vec<Box<dyn DatabaseBackend>>,
    /// Processor for computations other than answers.
    cpu: Arc<CpuBackend>,
}

/// An opened database and its backend.
pub(crate) struct Opened {
    pub database: Database,
    /// Name of the backend or device that answers.
    pub backend: String,
    /// Kind of the device, if a device answers.
    pub device: Option<&'static str>,
}

impl Backends {
    /// Opens the backends of `choice`. If `Auto` finds no GPU, the log says why. `keys` is the
    /// memory budget of clients' keys.
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

    /// Opens a verified snapshot on the first backend that accepts it; the log says why earlier
    /// backends did not.
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

    /// Removes a failed device; false if it was removed before. Its databases must be opened again.
    pub fn lose(&mut self, device: &str) -> bool {
        let before = self.ordered.len();
        self.ordered.retain(|backend| backend.kind() != device);
        self.ordered.len() < before
    }

    /// Returns the number of backends that are left.
    pub fn count(&self) -> usize {
        self.ordered.len()
    }

    /// Returns true if databases are offered to a device before the processor.
    pub fn prefers_device(&self) -> bool {
        self.ordered.first().is_some_and(|backend| backend.is_device())
    }

    /// Returns the processor, for computations other than answers.
    pub fn cpu(&self) -> &Arc<CpuBackend> {
        &self.cpu
    }
}

fn none_left() -> LoadError {
    let cause = "the devices that were to answer have failed: start the server again";
    LoadError::Protocol(BackendError::Unavailable(cause.into()).into())
}
