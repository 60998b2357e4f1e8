use std::sync::Arc;

use parking_lot::Mutex;
use spirea_backend::{BackendError, Share, Split, StepTimes};
use spirea_cpu::CpuBackend;
use spirea_dpf::OutputKind;
use spirea_engine::{Database, LoadError};
use spirea_pim::model::parameters::Profile;
use spirea_pim::model::system::Arrangement;
use spirea_pim::sdk::{Sdk, vendor::Vendor};
use spirea_pim::{Emulation, EmulationConfig, MOST_QUERIES, PimBackend, PimConfig};
use spirea_protocols::Opening;
use spirea_protocols::parameters::FirstFold;
use spirea_protocols::registry::ProtocolParams;
use spirea_store::Snapshot;

use super::choice::{PimChoice, PimMachine};
use super::entry::DatabaseBackend;

/// Default number of emulated DPUs: one rank of the real machine.
const EMULATED_DPUS: usize = 64;
/// Batch size for which the number of clusters is chosen: the batch size of IM-PIR.
const BATCH: usize = 32;

/// Processing in memory, for databases whose shares are bits.
pub(super) struct Pim {
    cpu: Arc<CpuBackend>,
    sdk: Box<dyn Sdk>,
    dpus: usize,
    clusters: Option<usize>,
    /// Opened with the first database, which decides the number of clusters.
    backend: Mutex<Option<PimBackend>>,
}

impl Pim {
    /// Finds the machine and its DPUs. `cpu` expands keys; emulated DPUs use the same number of
    /// threads.
    ///
    /// # Errors
    /// [`BackendError::Unavailable`] with the missing part: the vendor's library, its program, or
    /// enough DPUs.
    pub fn open(choice: PimChoice, cpu: &Arc<CpuBackend>) -> Result<Self, BackendError> {
        let sdk: Box<dyn Sdk> = match choice.machine {
            PimMachine::Vendor => Box::new(Vendor::find()?),
            PimMachine::Emulated => {
                let dpus = choice.dpus.unwrap_or(EMULATED_DPUS);
                let threads = cpu.threads();
                Box::new(Emulation::new(EmulationConfig { dpus, threads, ..EmulationConfig::default() })?)
            }
        };
        // Allocates the DPUs once to count them, then frees them.
        let dpus = sdk.alloc(choice.dpus)?.dpus();
        if let Some(clusters) = choice.clusters.filter(|&clusters| clusters > dpus) {
            return Err(BackendError::Unavailable(format!(
                "{clusters} clusters of {dpus} DPUs: each has one"
            )));
        }
        let cpu = Arc::clone(cpu);
        Ok(Self { cpu, sdk, dpus, clusters: choice.clusters, backend: Mutex::default() })
    }

    fn backend(&self, params: &ProtocolParams) -> Result<PimBackend, BackendError> {
        let mut backend = self.backend.lock();
        if let Some(backend) = &*backend {
            return Ok(backend.clone());
        }
        let (records, record_bytes) = (params.records(), params.record_bytes().next_multiple_of(8));
        let clusters = match self.clusters {
            Some(clusters) => clusters,
            None => {
                let model = Profile::Kernel.parameters()?;
                Arrangement::choose(&model, records, record_bytes, self.dpus, BATCH, MOST_QUERIES).clusters
            }
        };
        let config = PimConfig { dpus: Some(self.dpus), clusters, ..PimConfig::default() };
        let opened = PimBackend::new(&*self.sdk, config, Arc::clone(&self.cpu))?;
        Ok(backend.insert(opened).clone())
    }
}

impl DatabaseBackend for Pim {
    fn kind(&self) -> &'static str {
        "PIM machine"
    }

    fn fits(&self, params: &ProtocolParams, _: Share) -> Result<(), BackendError> {
        match params.first_fold {
            FirstFold::Rows { domain, .. } if domain.output() == OutputKind::Bit => Ok(()),
            _ => Err(BackendError::Unavailable(
                "processing in memory is for databases whose shares are bits, protocol dpf-xor".into(),
            )),
        }
    }

    fn open(&self, snapshot: &Snapshot, opening: Opening) -> Result<(Database, String), LoadError> {
        let backend = self.backend(&snapshot.manifest().protocol);
        let backend = backend.map_err(|error| LoadError::Protocol(error.into()))?;
        let name = backend.name();
        // A query has a single step here, so its phases are timed instead.
        let times = Arc::new(StepTimes::default());
        let shares = Arc::new(backend.with_times(Arc::clone(&times)));
        let split = Arc::new(Split::new(Arc::clone(&self.cpu), shares));
        let database = Database::open(snapshot, &split, opening)?.with_step_times(times);
        database.measure()?;
        Ok((database, name))
    }

    fn is_device(&self) -> bool {
        true
    }
}
