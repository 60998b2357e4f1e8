//! Which backend answers for a database: the only place that knows more than one.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use spirea_backend::{Backend as _, BackendError};
use spirea_cpu::CpuBackend;
use spirea_cuda::driver::device_count;
use spirea_cuda::{CudaBackend, DeviceGroup, Links, Load, Strategy};
use spirea_engine::{Database, LoadError};
use spirea_protocols::registry::{Opening, ProtocolParams};
use spirea_store::Snapshot;

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
    devices: Vec<usize>,
    strategy: Option<Strategy>,
    /// Bytes of memory of the smallest.
    memory: u64,
    alone: Option<Arc<CudaBackend>>,
    groups: HashMap<Strategy, Arc<DeviceGroup>>,
}

impl Gpus {
    fn open(devices: &[usize], strategy: Option<Strategy>) -> Result<Self, BackendError> {
        let count = device_count()?;
        let devices = if devices.is_empty() { (0..count).collect() } else { devices.to_vec() };
        let mut gpus = Self { devices, strategy, memory: u64::MAX, alone: None, groups: HashMap::new() };
        if let [device] = gpus.devices[..] {
            let backend = CudaBackend::new(device)?;
            gpus.memory = backend.device().properties().memory_bytes as u64;
            gpus.alone = Some(Arc::new(backend));
        } else {
            let group = DeviceGroup::new(&gpus.devices, strategy.unwrap_or(Strategy::Replicate))?;
            let memory = |member: &CudaBackend| member.device().properties().memory_bytes as u64;
            gpus.memory = group.members().iter().map(memory).min().unwrap_or(0);
            gpus.groups.insert(group.strategy(), Arc::new(group));
        }
        Ok(gpus)
    }

    /// The group for a database.
    fn group(&mut self, params: &ProtocolParams) -> Result<Arc<DeviceGroup>, BackendError> {
        let strategy = match self.strategy {
            Some(strategy) => strategy,
            None => self.choose(params)?,
        };
        if let Some(group) = self.groups.get(&strategy) {
            return Ok(Arc::clone(group));
        }
        let group = Arc::new(DeviceGroup::new(&self.devices, strategy)?);
        self.groups.insert(strategy, Arc::clone(&group));
        Ok(group)
    }

    fn choose(&self, params: &ProtocolParams) -> Result<Strategy, BackendError> {
        let load = load(params);
        let links = self.groups.values().next().map_or(Links::Host, |group| group.links());
        Strategy::choose(self.devices.len(), self.memory, links, load).ok_or_else(|| {
            let (wanted, count, memory) = (load.whole_bytes, self.devices.len(), self.memory);
            BackendError::Unavailable(format!(
                "the database needs {wanted} bytes: too many for {count} GPUs of {memory} bytes, even in shares"
            ))
        })
    }

    fn database(&mut self, snapshot: &Snapshot, opening: Opening) -> Result<Database, LoadError> {
        let database = match &self.alone {
            Some(backend) => Database::open(snapshot, backend, opening),
            None => {
                let group = self.group(&snapshot.manifest().protocol);
                let group = group.map_err(|error| LoadError::Protocol(error.into()))?;
                Database::open(snapshot, &group, opening)
            }
        }?;
        database.rehearse()?;
        Ok(database)
    }

    fn name(&self) -> String {
        let group = || self.groups.values().next().map(|group| group.name());
        self.alone.as_ref().map(|backend| backend.name()).or_else(group).unwrap_or_default()
    }
}

/// What a database asks of GPUs.
fn load(params: &ProtocolParams) -> Load {
    let folds_a_matrix = params.name() != "onion";
    // Plaintext polynomials are made of the matrix and take its place.
    let whole_bytes = params.memory_bytes();
    let divided_bytes =
        if folds_a_matrix { params.matrix_bytes() } else { whole_bytes - params.matrix_bytes() };
    Load { whole_bytes, divided_bytes, folds_a_matrix, batch: usize::MAX }
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
    /// The backends of a choice; logs why there is no GPU where one would have been taken.
    pub fn open(choice: &BackendChoice, threads: usize) -> Result<Self, BackendError> {
        let cpu = Arc::new(CpuBackend::new(threads)?);
        let (gpus, falls_back) = match choice {
            BackendChoice::Cpu => (None, true),
            BackendChoice::Cuda { devices, strategy } => (Some(Gpus::open(devices, *strategy)?), false),
            BackendChoice::Auto => match Gpus::open(&[], None) {
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
    pub fn database(&mut self, snapshot: &Snapshot, opening: Opening) -> Result<Opened, LoadError> {
        if let Some(gpus) = &mut self.gpus {
            match gpus.database(snapshot, opening) {
                Ok(database) => return Ok(Opened { database, backend: gpus.name(), on_gpu: true }),
                Err(error) if !self.falls_back => return Err(error),
                Err(reason) => {
                    let database = &snapshot.manifest().name;
                    tracing::warn!(%database, %reason, "answering on the processor, not on a GPU");
                }
            }
        }
        let database = Database::open(snapshot, &self.cpu, opening)?;
        Ok(Opened { database, backend: self.cpu.name(), on_gpu: false })
    }

    /// Gives the GPUs up: one of them failed. What was on them must be opened again; gives whether it can be.
    pub fn lose_gpus(&mut self) -> bool {
        self.gpus = None;
        self.falls_back
    }

    /// Whether GPUs are in use.
    pub fn on_gpus(&self) -> bool {
        self.gpus.is_some()
    }
}

impl fmt::Debug for Backends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backends").field("cpu", &self.cpu).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
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
}
