//! Which backend answers for a database: the only place that knows more than one.

use std::str::FromStr;
use std::sync::Arc;

use spirea_backend::{Backend as _, BackendError};
use spirea_cpu::CpuBackend;
use spirea_cuda::driver::{Device, device_count};
use spirea_cuda::{CudaBackend, DeviceGroup, Load, Strategy};
use spirea_engine::{Database, LoadError};
use spirea_protocols::Opening;
use spirea_protocols::parameters::FirstFold;
use spirea_protocols::registry::ProtocolParams;
use spirea_store::Snapshot;

use crate::gpu_memory::{GpuMemory, KeyBudget};

/// Which backend answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum BackendChoice {
    /// The GPUs for databases that fit there, if there are any; the processor for the others, and where a GPU fails.
    #[default]
    Auto,
    /// The processor.
    Cpu,
    /// These GPUs, or an error.
    Cuda {
        /// Their numbers; none for all there are.
        devices: Vec<usize>,
        /// How they divide a database; chosen for each if there is none.
        strategy: Option<Strategy>,
    },
}

impl FromStr for BackendChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = || format!("{text:?} is none of auto, cpu, cuda, cuda:0,1 and cuda:0,1:gather");
        let mut fields = text.split(':');
        match fields.next() {
            Some("auto") if text == "auto" => Ok(Self::Auto),
            Some("cpu") if text == "cpu" => Ok(Self::Cpu),
            Some("cuda") => {
                let numbers = |list: &str| list.split(',').map(|number| number.parse().ok()).collect();
                let devices = match fields.next() {
                    None | Some("") => Some(Vec::new()),
                    Some(list) => numbers(list),
                };
                let strategy = fields.next().map(|name| name.parse::<Strategy>()).transpose()?;
                match (devices, fields.next()) {
                    (Some(devices), None) => Ok(Self::Cuda { devices, strategy }),
                    _ => Err(wanted()),
                }
            }
            _ => Err(wanted()),
        }
    }
}

/// The GPUs that are used, and how.
struct Gpus {
    backend: GpuBackend,
    memory: Arc<GpuMemory>,
}

enum GpuBackend {
    One(Arc<CudaBackend>),
    /// The strategy is the group's, or chosen for each database.
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
    fn open(devices: &[usize], strategy: Option<Strategy>, keys: KeyBudget) -> Result<Self, BackendError> {
        let backend = GpuBackend::open(devices, strategy)?;
        let memory = GpuMemory::new(backend.devices(), keys);
        Ok(Self { backend, memory })
    }

    /// Opens a snapshot, with the name of what it is on.
    fn database(&self, snapshot: &Snapshot, opening: Opening) -> Result<(Database, String), LoadError> {
        let refused = |error: BackendError| LoadError::Protocol(error.into());
        let params = &snapshot.manifest().protocol;
        let load = gpu_load(params, 1);
        let (database, name) = match &self.backend {
            GpuBackend::One(backend) => {
                self.memory.expect(load.whole_bytes).map_err(refused)?;
                (Database::open(snapshot, backend, opening)?, backend.name())
            }
            GpuBackend::Several(group, strategy) => {
                let chosen = strategy.map_or_else(|| choose(group, params), Ok).map_err(refused)?;
                let bytes = load.device_bytes(group.members().len(), chosen);
                self.memory.expect(bytes).map_err(refused)?;
                let group = Arc::new(group.with_strategy(chosen));
                (Database::open(snapshot, &group, opening)?, group.name())
            }
        };
        let turns = self.memory.admit(&database)?;
        let database = database.with_turns(turns);
        // Only now: what it computes with is reserved, and it takes turns with the others.
        database.measure()?;
        Ok((database, name))
    }
}

/// The strategy for a database.
fn choose(group: &DeviceGroup, params: &ProtocolParams) -> Result<Strategy, BackendError> {
    // While little is asked, a batch is one query: all GPUs must have a part in it.
    let (load, count) = (gpu_load(params, 1), group.members().len());
    let memory = group.members().iter().map(|member| member.device().properties().memory_bytes as u64);
    let memory = memory.min().unwrap_or(0);
    let division = Strategy::choose(count, memory, group.links(), load);
    division.map(|division| division.strategy).ok_or_else(|| {
        let wanted = load.whole_bytes;
        BackendError::Unavailable(format!(
            "the database needs {wanted} bytes: too many for {count} GPUs of {memory} bytes, even in shares"
        ))
    })
}

/// What a database asks of GPUs that answer `batch` queries at once.
pub fn gpu_load(params: &ProtocolParams, batch: usize) -> Load {
    Load {
        whole_bytes: params.memory_bytes(),
        divided_bytes: params.folded_bytes(),
        folds_a_matrix: !matches!(params.first_fold(), FirstFold::Polynomials(_)),
        batch,
    }
}

/// The backends of a server.
pub(crate) struct Backends {
    cpu: Arc<CpuBackend>,
    gpus: Option<Gpus>,
    /// Whether the processor answers where no GPU can.
    falls_back: bool,
}

/// Where a database was opened.
pub(crate) struct Opened {
    pub database: Database,
    pub backend: String,
    pub on_gpu: bool,
}

impl Backends {
    /// The backends of a choice; logs why there is no GPU where one would have been taken. `keys` says how much
    /// memory those of clients may take.
    pub fn open(choice: &BackendChoice, threads: usize, keys: KeyBudget) -> Result<Self, BackendError> {
        let cpu = Arc::new(CpuBackend::new(threads)?);
        let (gpus, falls_back) = match choice {
            BackendChoice::Cpu => (None, true),
            BackendChoice::Cuda { devices, strategy } => (Some(Gpus::open(devices, *strategy, keys)?), false),
            BackendChoice::Auto => match Gpus::open(&[], None, keys) {
                Ok(gpus) => (Some(gpus), true),
                Err(reason) => {
                    tracing::info!(%reason, "answering on the processor");
                    (None, true)
                }
            },
        };
        Ok(Self { cpu, gpus, falls_back })
    }

    /// Opens a verified snapshot where it fits.
    pub fn database(&self, snapshot: &Snapshot, opening: Opening) -> Result<Opened, LoadError> {
        if let Some(gpus) = &self.gpus {
            match gpus.database(snapshot, opening) {
                Ok((database, backend)) => return Ok(Opened { database, backend, on_gpu: true }),
                Err(error) if !self.falls_back => return Err(error),
                Err(reason) => {
                    let database = &snapshot.manifest().name;
                    tracing::warn!(%database, %reason, "answering on the processor, not on a GPU");
                }
            }
        }
        let database = Database::open(snapshot, &self.cpu, opening)?;
        database.measure()?;
        Ok(Opened { database, backend: self.cpu.name(), on_gpu: false })
    }

    /// Gives the GPUs up: one of them failed. What was on them must be opened again; gives whether it can be.
    pub fn lose_gpus(&mut self) -> bool {
        self.gpus = None;
        self.falls_back
    }

    /// The processor.
    pub fn cpu(&self) -> &Arc<CpuBackend> {
        &self.cpu
    }

    /// Whether GPUs are in use.
    pub fn on_gpus(&self) -> bool {
        self.gpus.is_some()
    }
}

#[cfg(test)]
mod tests {
    use spirea_backend::Residence;
    use spirea_cuda_emulation::{Config, Emulation};
    use spirea_engine::{Asked, Engine, KeyOptions, KeyRegistry};
    use spirea_math::random::SecretRng;
    use spirea_protocols::registry::Choice;
    use spirea_store::ingest::{Format, Selection};
    use spirea_store::{BuildOptions, Protocol, Silent};

    use super::*;

    #[test]
    fn choices_are_read() {
        let cuda = |devices: &[usize], strategy| BackendChoice::Cuda { devices: devices.to_vec(), strategy };
        for (text, choice) in [
            ("auto", BackendChoice::Auto),
            ("cpu", BackendChoice::Cpu),
            ("cuda", cuda(&[], None)),
            ("cuda:2", cuda(&[2], None)),
            ("cuda:0,3", cuda(&[0, 3], None)),
            ("cuda:0,3:gather", cuda(&[0, 3], Some(Strategy::Gather))),
            ("cuda::exchange", cuda(&[], Some(Strategy::Exchange))),
        ] {
            assert_eq!(text.parse(), Ok(choice), "{text}");
        }
        for text in ["", "gpu", "cpu:0", "auto:", "cuda:x", "cuda:0,", "cuda:0:ring", "cuda:0:gather:1"] {
            assert!(text.parse::<BackendChoice>().is_err(), "{text}");
        }
    }

    /// Databases are opened on groups that differ in their strategy, as [`Gpus::database`] opens them.
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
                let selection = Selection { key: None, values: vec!["value".into()] };
                let choice = Choice { protocol: "onion".into(), ..Choice::default() };
                let options = BuildOptions {
                    name: Some("test".into()),
                    protocol: Protocol::Named(choice),
                    ..BuildOptions::new(&input, Format::Csv, selection, folder.path().join(name))
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
            // A query's own selectors are made as keys are: the first one has no more of them than the second.
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
