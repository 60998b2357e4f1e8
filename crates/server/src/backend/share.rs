use std::sync::Arc;

use spirea_backend::{BackendError, BackendId};
use spirea_engine::{Database, KeyRegistry, LoadError, LossHandler};
use spirea_protocols::Opening;
use spirea_store::Snapshot;

use super::choice::BackendChoice;
use super::ordered::{Backends, Opened};
use crate::config::all_cores;
use crate::gpu_memory::KeyBudget;

/// What the server of one share, and of nothing else, answers on.
pub struct ShareBackends {
    /// Which.
    pub choice: BackendChoice,
    /// Threads of the processor; 0 for as many as there are cores.
    pub threads: usize,
    /// The keys of clients, of which there may be so many bytes.
    pub keys: (Arc<KeyRegistry>, u64),
    /// Is told of a device that fails.
    pub lost: LossHandler,
}

impl ShareBackends {
    /// Opens a verified share on the first of them that takes it, and measures it. Gives the name of what it is on, too.
    ///
    /// # Errors
    /// [`LoadError::Protocol`] if there is no such backend, or no room; those of [`Database::open`].
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
