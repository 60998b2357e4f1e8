use std::sync::Arc;

use spirea_backend::{Backend as _, BackendError, Share};
use spirea_cpu::CpuBackend;
use spirea_cpu::priority::at_normal_priority;
use spirea_engine::{Database, LoadError};
use spirea_protocols::registry::ProtocolParams;
use spirea_protocols::{Opening, Responder};
use spirea_store::Snapshot;

use super::entry::DatabaseBackend;
use crate::config::all_cores;

/// The processor, which accepts every database.
#[derive(Clone)]
pub struct Processor(Arc<CpuBackend>);

impl Processor {
    /// Creates the processor backend with `threads` threads; 0 uses all cores.
    ///
    /// # Errors
    /// [`BackendError`] if the system gives no threads.
    pub fn new(threads: usize) -> Result<Self, BackendError> {
        let threads = if threads == 0 { all_cores() } else { threads };
        Ok(Self(Arc::new(CpuBackend::new(threads)?)))
    }

    /// Creates the backend on the threads of `cpu`.
    pub(super) fn of(cpu: &Arc<CpuBackend>) -> Self {
        Self(Arc::clone(cpu))
    }

    /// Opens a verified snapshot that several machines answer together. `in_place` wraps or
    /// replaces the responder. Measures nothing.
    ///
    /// # Errors
    /// Those of [`Database::open`].
    pub fn open_behind(
        &self,
        snapshot: &Snapshot,
        opening: Opening,
        in_place: impl FnOnce(Box<dyn Responder>) -> Box<dyn Responder>,
    ) -> Result<Database, LoadError> {
        Database::open_behind(snapshot, &self.0, opening, in_place)
    }
}

impl DatabaseBackend for Processor {
    fn kind(&self) -> &'static str {
        "processor"
    }

    fn fits(&self, _: &ProtocolParams, _: Share) -> Result<(), BackendError> {
        Ok(())
    }

    fn open(&self, snapshot: &Snapshot, opening: Opening) -> Result<(Database, String), LoadError> {
        let Self(cpu) = self;
        let database = Database::open(snapshot, cpu, opening)?;
        // The measurement is of answers, also if the database is opened beside them.
        at_normal_priority(|| database.measure())?;
        Ok((database, cpu.name()))
    }

    fn is_device(&self) -> bool {
        false
    }
}
