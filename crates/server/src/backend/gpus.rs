use std::sync::Arc;

use spirea_backend::{Backend as _, BackendError, Demand, Share, Strategy};
use spirea_cuda::driver::{Device, device_count};
use spirea_cuda::{CudaBackend, DeviceGroup};
use spirea_engine::{Database, LoadError};
use spirea_protocols::Opening;
use spirea_protocols::parameters::FirstFold;
use spirea_protocols::registry::ProtocolParams;
use spirea_store::Snapshot;

use super::entry::DatabaseBackend;
use crate::gpu_memory::{GpuMemory, KeyBudget};

/// The GPUs in use, with the accounting of their memory.
pub(super) struct Gpus {
    backend: GpuBackend,
    memory: Arc<GpuMemory>,
}

enum GpuBackend {
    One(Arc<CudaBackend>),
    /// A group with its strategy; with `None` a strategy is chosen for each database.
    Several(DeviceGroup, Option<Strategy>),
}

impl GpuBackend {
    fn open(devices: &[usize], strategy: Option<Strategy>) -> Result<Self, BackendError> {
        let devices = if devices.is_empty() { (0..device_count()?).collect() } else { devices.to_vec() };
        Ok(match devices[..] {
            [device] => Self::One(Arc::new(CudaBackend::new(device)?)),
            _ => {
                Self::Several(DeviceGroup::new(&devices, strategy.unwrap_or(Strategy::Replicate))?, strategy)
            }
        })
    }

    fn devices(&self) -> Vec<Arc<Device>> {
        let members = match self {
            Self::One(backend) => std::slice::from_ref(&**backend),
            Self::Several(group, _) => group.members(),
        };
        members.iter().map(|member| Arc::clone(member.device())).collect()
    }
}

impl Gpus {
    /// Opens the GPUs `devices`, or all GPUs if `devices` is empty. They divide databases by
    /// `strategy`; without one, a strategy is chosen for each database.
    ///
    /// # Errors
    /// [`BackendError::Unavailable`] if there is no GPU, or if a number in `devices` belongs to no
    /// GPU.
    pub fn open(
        devices: &[usize],
        strategy: Option<Strategy>,
        keys: KeyBudget,
    ) -> Result<Self, BackendError> {
        let backend = GpuBackend::open(devices, strategy)?;
        let memory = GpuMemory::new(backend.devices(), keys);
        Ok(Self { backend, memory })
    }
}

impl DatabaseBackend for Gpus {
    fn kind(&self) -> &'static str {
        "GPU"
    }

    fn fits(&self, params: &ProtocolParams, share: Share) -> Result<(), BackendError> {
        let demand = share_demand(params, share);
        self.memory.fits(match &self.backend {
            GpuBackend::One(_) => demand.whole_bytes,
            GpuBackend::Several(group, strategy) => {
                let chosen = strategy.map_or_else(|| choose(group, demand), Ok)?;
                demand.device_bytes(group.members().len(), chosen)
            }
        })
    }

    fn open(&self, snapshot: &Snapshot, opening: Opening) -> Result<(Database, String), LoadError> {
        let (database, name) = match &self.backend {
            GpuBackend::One(backend) => (Database::open(snapshot, backend, opening)?, backend.name()),
            GpuBackend::Several(group, strategy) => {
                let demand = share_demand(&snapshot.manifest().protocol, opening.role.share());
                let chosen = strategy.map_or_else(|| choose(group, demand), Ok);
                let chosen = chosen.map_err(|error| LoadError::Protocol(error.into()))?;
                let group = Arc::new(group.with_strategy(chosen));
                (Database::open(snapshot, &group, opening)?, group.name())
            }
        };
        let reservation = self.memory.reserve(&database)?;
        let database = database.with_reservation(reservation);
        // The measurement follows the reservation, which provides memory and makes databases
        // compute by turns.
        database.measure()?;
        Ok((database, name))
    }

    fn is_device(&self) -> bool {
        true
    }
}

/// Chooses the strategy for a database.
fn choose(group: &DeviceGroup, demand: Demand) -> Result<Strategy, BackendError> {
    let count = group.members().len();
    let memory = group.members().iter().map(|member| member.device().properties().memory_bytes as u64);
    let memory = memory.min().unwrap_or(0);
    let division = Strategy::choose(count, memory, group.links(), demand);
    division.map(|division| division.strategy).ok_or_else(|| {
        let wanted = demand.whole_bytes;
        BackendError::Unavailable(format!(
            "the database needs {wanted} bytes: too many for {count} GPUs of {memory} bytes, even in shares"
        ))
    })
}

/// Returns an upper bound of a share's demand on GPUs. At low load a batch is a single query, so
/// all GPUs must take part in it.
fn share_demand(params: &ProtocolParams, share: Share) -> Demand {
    let whole = gpu_demand(params, 1);
    let bytes = |share| params.share_bytes(share).iter().map(|range| range.end - range.start).sum::<u64>();
    let (all, own) = (u128::from(bytes(Share::WHOLE).max(1)), u128::from(bytes(share)));
    let divided_bytes = (u128::from(whole.divided_bytes) * own).div_ceil(all) as u64;
    Demand { whole_bytes: whole.whole_bytes - whole.divided_bytes + divided_bytes, divided_bytes, ..whole }
}

/// Returns a database's demand on GPUs that answer `batch` queries at once.
pub fn gpu_demand(params: &ProtocolParams, batch: usize) -> Demand {
    Demand {
        whole_bytes: params.memory_bytes,
        divided_bytes: params.folded_bytes(),
        folds_a_matrix: !matches!(params.first_fold, FirstFold::Polynomials(_)),
        batch,
    }
}

#[cfg(test)]
mod tests {
    use spirea_backend::Residence;
    use spirea_cpu::CpuBackend;
    use spirea_cuda_emulation::{Config, Emulation};
    use spirea_engine::{Asked, Engine, KeyOptions, KeyRegistry};
    use spirea_math::random::SecretRng;
    use spirea_protocols::registry::Choice;
    use spirea_store::ingest::{Format, Selection};
    use spirea_store::{BuildOptions, Protocol, Silent};

    use super::*;

    /// Databases are opened as [`Gpus`] opens them, on groups with different strategies.
    #[test]
    fn a_new_base_on_several_gpus_goes_on_with_the_keys_prepared_for_the_former_one() {
        let config = Config { devices: 2, processors: 2, ..Config::default() };
        let emulation = Emulation::install(config);
        emulation.with(config, || {
            let folder = tempfile::tempdir().unwrap();
            let input = folder.path().join("input.csv");
            std::fs::write(&input, "value\none\ntwo\nthree\n").unwrap();
            let cpu = Arc::new(CpuBackend::new(1).unwrap());
            let group = DeviceGroup::new(&[0, 1], Strategy::Replicate).unwrap();
            let base = |name: &str, strategy| {
                let selection = Selection { values: vec!["value".into()], ..Selection::default() };
                let choice = Choice { protocol: "onion".into(), ..Choice::default() };
                let options = BuildOptions {
                    name: Some("test".into()),
                    protocol: Protocol::Named(choice),
                    ..BuildOptions::new(&input, Format::CSV, selection, folder.path().join(name))
                };
                let snapshot = spirea_store::build(&options, &cpu, &Silent).unwrap();
                let opening = snapshot.manifest().protocol.openings(Residence::Copied)[0];
                Database::open(&snapshot, &Arc::new(group.with_strategy(strategy)), opening).unwrap()
            };
            let engine = Engine::new(8, KeyRegistry::open(&KeyOptions::default()).unwrap()).unwrap();
            let first = base("first", Strategy::Replicate);
            let mut rng = SecretRng::from_os().unwrap();
            let client = first.identity().params.client(&[], &[], &mut rng).unwrap();
            engine.publish(first);
            let served = engine.version("test", None).unwrap();
            let keys = engine.register_keys(served.base(), client.keys().unwrap().bytes(), None).unwrap();
            engine.publish(base("second", Strategy::Gather));
            let served = engine.version("test", None).unwrap();
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            // The kernel that prepares keys also makes each query's selectors. Both queries launch
            // it equally often, because the keys are already prepared.
            let made = [(), ()].map(|()| {
                let queries = client.query(0, &mut rng).unwrap().queries.into_iter().map(Into::into);
                let asked = Asked { keys: Some(keys), queries: queries.collect() };
                emulation.reset();
                runtime.block_on(engine.submit(&served, vec![asked]).unwrap()).unwrap();
                emulation.launches("ring_keys")
            });
            assert_eq!(made[0], made[1]);
        });
    }
}
