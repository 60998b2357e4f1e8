//! Opens snapshots on the backends.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, mpsc};

use spirea_backend::Residence;
use spirea_cpu::CpuBackend;
use spirea_engine::{Database, LossHandler};
use spirea_store::Snapshot;

use crate::backend::{Backends, Opened};
use spirea_protocols::Opening;

/// Opens snapshots on the backends, and hears when a GPU fails.
pub(crate) struct Loader {
    backends: RwLock<Backends>,
    opening: Opening,
    /// Told why a GPU failed.
    lost: Mutex<mpsc::Sender<String>>,
}

impl Loader {
    /// A loader, and what will say why a GPU failed.
    pub fn new(backends: Backends, opening: Opening) -> (Self, mpsc::Receiver<String>) {
        let (lost, losses) = mpsc::channel();
        (Self { backends: RwLock::new(backends), opening, lost: Mutex::new(lost) }, losses)
    }

    /// Opens a verified snapshot as it is to be held.
    ///
    /// # Errors
    /// What happened, for the operator; it is in the log, too.
    pub fn open(&self, snapshot: &Snapshot) -> Result<Arc<Database>, String> {
        self.open_with(snapshot, self.opening)
    }

    /// Opens a verified snapshot soon: touching memory for the first time takes longer than mapping a file, so tables
    /// that are to be copied are answered from their files at first. What must be transformed, or copied to a GPU, is
    /// opened once, as it is to be held.
    ///
    /// # Errors
    /// Those of [`Self::open`].
    pub fn open_soon(&self, snapshot: &Snapshot) -> Result<Arc<Database>, String> {
        self.open_with(snapshot, self.soon(snapshot))
    }

    /// Whether what was opened soon is to be opened again.
    pub fn opens_twice(&self, snapshot: &Snapshot) -> bool {
        self.soon(snapshot) != self.opening
    }

    fn soon(&self, snapshot: &Snapshot) -> Opening {
        match snapshot.manifest().protocol.sizes().keys_bytes {
            0 if !self.read().on_gpus() => Opening { residence: Residence::Mapped, ..self.opening },
            _ => self.opening,
        }
    }

    fn open_with(&self, snapshot: &Snapshot, opening: Opening) -> Result<Arc<Database>, String> {
        let (name, version) = (&snapshot.manifest().name, snapshot.version_hex());
        // A defect in loading one database is not the end of the others.
        match catch_unwind(AssertUnwindSafe(|| self.read().database(snapshot, opening))) {
            Ok(Ok(Opened { database, backend, on_gpu })) => {
                tracing::info!(database = %name, snapshot = %version, %backend, "the snapshot is ready");
                Ok(Arc::new(if on_gpu { database.with_loss_handler(self.loss_handler()) } else { database }))
            }
            Ok(Err(error)) => {
                tracing::error!(database = %name, snapshot = %version, %error, "the snapshot could not be loaded");
                Err(error.to_string())
            }
            Err(_) => {
                tracing::error!(database = %name, snapshot = %version, "loading was aborted by a defect");
                Err("loading was aborted by a defect; the log has more".into())
            }
        }
    }

    fn loss_handler(&self) -> LossHandler {
        let lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Box::new(move |reason: &str| {
            // Nobody listens once the GPUs have been left.
            let _ = lost.send(reason.into());
        })
    }

    /// Gives the GPUs up; gives whether what was on them can be opened again.
    pub fn lose_gpus(&self) -> bool {
        self.write().lose_gpus()
    }

    /// Whether GPUs are in use.
    pub fn on_gpus(&self) -> bool {
        self.read().on_gpus()
    }

    /// The processor, for what is computed beside the answers.
    pub fn cpu(&self) -> Arc<CpuBackend> {
        Arc::clone(self.read().cpu())
    }

    // A panic while GPUs are given up leaves none.
    fn read(&self) -> RwLockReadGuard<'_, Backends> {
        self.backends.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Backends> {
        self.backends.write().unwrap_or_else(PoisonError::into_inner)
    }
}
