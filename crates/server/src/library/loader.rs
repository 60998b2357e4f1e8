//! Opens snapshots on the backends.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, mpsc};

use spirea_backend::Residence;
use spirea_cpu::CpuBackend;
use spirea_engine::{Database, LossHandler};
use spirea_protocols::Opening;
use spirea_store::Snapshot;

use crate::backend::{Backends, Opened};

/// A device that failed.
pub(crate) struct Loss {
    /// Its kind.
    pub device: &'static str,
    /// What it said.
    pub reason: String,
}

/// Opens snapshots on the backends, and hears when a device fails.
pub(crate) struct Loader {
    backends: RwLock<Backends>,
    opening: Opening,
    /// Told of devices that failed.
    losses: Mutex<mpsc::Sender<Loss>>,
}

impl Loader {
    /// A loader, and what will tell of devices that failed.
    pub fn new(backends: Backends, opening: Opening) -> (Self, mpsc::Receiver<Loss>) {
        let (sender, losses) = mpsc::channel();
        (Self { backends: RwLock::new(backends), opening, losses: Mutex::new(sender) }, losses)
    }

    /// How snapshots are opened that are to be held.
    pub fn opening(&self) -> Opening {
        self.opening
    }

    /// Opens a verified snapshot as it is to be held.
    ///
    /// # Errors
    /// What happened, for the operator; it is in the log, too.
    pub fn open(&self, snapshot: &Snapshot) -> Result<Arc<Database>, String> {
        self.open_with(snapshot, self.opening)
    }

    /// Opens a snapshot that answers in its interim form as it is to be held.
    ///
    /// # Errors
    /// Those of [`Self::open`].
    pub fn hold(&self, snapshot: &Snapshot) -> Result<Arc<Database>, String> {
        let (database, backend) = self.opened(snapshot, self.opening)?;
        tracing::debug!(database = %snapshot.manifest().name, %backend, "the snapshot is in memory");
        Ok(database)
    }

    /// Opens a verified snapshot in an interim form where it has one: touching memory for the first time takes longer
    /// than mapping a file, so tables that are to be copied are answered from their files at first. What must be
    /// transformed, or copied to a device, is opened once, as it is to be held.
    ///
    /// # Errors
    /// Those of [`Self::open`].
    pub fn open_interim(&self, snapshot: &Snapshot) -> Result<Arc<Database>, String> {
        self.open_with(snapshot, self.interim(snapshot))
    }

    /// Whether the interim form of a snapshot is not the one in which it is to be held.
    pub fn has_interim(&self, snapshot: &Snapshot) -> bool {
        self.interim(snapshot) != self.opening
    }

    fn interim(&self, snapshot: &Snapshot) -> Opening {
        match snapshot.manifest().protocol.sizes().keys_bytes {
            0 if !self.read().prefers_device() => Opening { residence: Residence::Mapped, ..self.opening },
            _ => self.opening,
        }
    }

    fn open_with(&self, snapshot: &Snapshot, opening: Opening) -> Result<Arc<Database>, String> {
        let (database, backend) = self.opened(snapshot, opening)?;
        let (name, version) = (&snapshot.manifest().name, snapshot.version_hex());
        tracing::info!(database = %name, snapshot = %version, %backend, "the snapshot is ready");
        Ok(database)
    }

    /// Opens a verified snapshot; the log has the error if there is one.
    fn opened(&self, snapshot: &Snapshot, opening: Opening) -> Result<(Arc<Database>, String), String> {
        let (name, version) = (&snapshot.manifest().name, snapshot.version_hex());
        // A defect in loading one database is not the end of the others.
        match catch_unwind(AssertUnwindSafe(|| self.read().database(snapshot, opening))) {
            Ok(Ok(Opened { database, backend, device })) => {
                let database = match device {
                    Some(device) => database.with_loss_handler(self.loss_handler(device)),
                    None => database,
                };
                Ok((Arc::new(database), backend))
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

    fn loss_handler(&self, device: &'static str) -> LossHandler {
        let losses = self.losses.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Box::new(move |reason: &str| {
            // Nobody listens once the server ends.
            let _ = losses.send(Loss { device, reason: reason.into() });
        })
    }

    /// Gives a device up; false if that was done before.
    pub fn lose(&self, device: &str) -> bool {
        self.write().lose(device)
    }

    /// Whether there is a backend for what was on a device that failed.
    pub fn has_backend(&self) -> bool {
        !self.read().is_empty()
    }

    /// The processor, for what is computed beside the answers.
    pub fn cpu(&self) -> Arc<CpuBackend> {
        Arc::clone(self.read().cpu())
    }

    // A panic while a device is given up leaves none.
    fn read(&self) -> RwLockReadGuard<'_, Backends> {
        self.backends.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Backends> {
        self.backends.write().unwrap_or_else(PoisonError::into_inner)
    }
}
