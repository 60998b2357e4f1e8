use std::sync::Arc;

use spirea_backend::{BackendError, BackendId};
use spirea_engine::{Database, KeyRegistry, LoadError, LossHandler};
use spirea_protocols::Opening;
use spirea_store::Snapshot;

use super::choice::BackendChoice;
use super::ordered::{Backends, Opened};
use crate::config::all_cores;
use crate::gpu_memory::KeyBudget;

/// Backends of a server that holds one share and nothing else.
pub struct ShareBackends {
    /// Choice of the backend.
    pub choice: BackendChoice,
    /// Threads of the processor; 0 for all cores.
    pub threads: usize,
    /// Clients' keys, and the maximum of their bytes.
    pub keys: (Arc<KeyRegistry>, u64),
    /// Callback for device failures.
    pub lost: LossHandler,
}

impl ShareBackends {
    /// Opens a verified share on the first backend that accepts it, and measures it. Also returns
    /// the name of the backend or device.
    ///
    /// # Errors
    /// [`LoadError::Protocol`] if the backend is unavailable or has no room; those of
    /// [`Database::open`].
    pub fn open(self, snapshot: &Snapshot, opening: Opening) -> Result<(Database, String), LoadError> {
        let Self { choice, threads, keys: (keys, most), lost } = self;
        let prepared = move |gpus: &[BackendId]| keys.prepared_for(gpus);
        let budget = KeyBudget { most, prepared: Box::new(prepared) };
        let threads = if threads == 0 { all_cores() } else { threads };
        let unavailable = |error: BackendError| LoadError::Protocol(error.into());
        let backends = Backends::open(&choice, threads, budget).map_err(unavailable)?;
        let Opened { database, backend, device } = backends.database(snapshot, opening)?;
        let database = if device.is_some() { database.with_loss_handler(lost) } else { database };
        Ok((database, backend))
    }
}
