use std::sync::Arc;

use spirea_backend::{Backend as _, BackendError};
use spirea_cpu::CpuBackend;
use spirea_engine::{Database, LoadError};
use spirea_protocols::Opening;
use spirea_protocols::registry::ProtocolParams;
use spirea_store::Snapshot;

use super::entry::DatabaseBackend;

/// The processor. It takes every database.
pub(super) struct Processor(pub Arc<CpuBackend>);

impl DatabaseBackend for Processor {
    fn kind(&self) -> &'static str {
        "processor"
    }

    fn fits(&self, _: &ProtocolParams) -> Result<(), BackendError> {
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
