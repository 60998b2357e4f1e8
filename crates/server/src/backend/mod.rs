//! Selection of the backend for a database: the only place that knows several backends.

mod choice;
mod entry;
mod gpus;
mod ordered;
mod pim;
mod processor;
mod share;

pub use choice::{BackendChoice, PimChoice, PimMachine};
pub use gpus::gpu_demand;
pub(crate) use ordered::{Backends, Opened};
pub use processor::Processor;
pub use share::ShareBackends;
