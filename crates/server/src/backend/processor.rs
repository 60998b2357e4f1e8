use std::sync::Arc;

use spirea_backend::{Backend as _, BackendError, Share};
use spirea_cpu::CpuBackend;
use spirea_engine::{Database, LoadError};
use spirea_protocols::registry::ProtocolParams;
use spirea_protocols::{Opening, Responder};
use spirea_store::Snapshot;

use super::entry::DatabaseBackend;
use crate::config::all_cores;

/// The processor. It takes every database.
#[derive(Clone)]
pub struct Processor(Arc<CpuBackend>);

impl Processor {
    /// The processor, with as many threads; 0 for as many as there are cores.
    ///
    /// # Errors
    /// [`BackendError`] if the system gives no threads.
    pub fn new(threads: usize) -> Result<Self, BackendError> {
        let threads = if threads == 0 { all_cores() } else { threads };
        Ok(Self(Arc::new(CpuBackend::new(threads)?)))
    }

    /// These threads of it.
    pub(super) fn of(cpu: &Arc<CpuBackend>) -> Self {
        Self(Arc::clone(cpu))
    }

    /// Opens a verified snapshot that machines answer for together, behind what answers in its place. Nothing is measured.
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
        database.measure()?;
        Ok((database, cpu.name()))
    }

    fn is_device(&self) -> bool {
        false
    }
}
