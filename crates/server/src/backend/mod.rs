//! Which backend answers for a database: the only place that knows more than one.

mod choice;
mod entry;
mod gpus;
mod ordered;
mod processor;

pub use choice::BackendChoice;
pub use gpus::gpu_demand;
pub(crate) use ordered::{Backends, Opened};
