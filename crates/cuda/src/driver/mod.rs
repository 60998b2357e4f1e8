//! The driver API as owned values: devices, streams, buffers, kernels, graphs.
//!
//! All unsafe code of this crate is here. Each device has one context, its primary one. Buffers
//! belong to their device's *main stream*: they are allocated and freed in its order, so that a
//! buffer may be dropped while kernels that use it are still queued there. Work on another stream
//! is forked from the main stream and joined to it again ([`Stream::after`]) before a buffer that
//! it uses is dropped.
#![allow(unsafe_code)]

mod args;
mod blas;
mod compute;
mod device;
mod error;
mod graph;
mod kernel;
mod library;
mod memory;
mod pool;
mod properties;
mod stream;

pub use args::Arg;
pub(crate) use args::args;
pub use blas::ByteProduct;
pub use compute::Compute;
pub use device::Device;
pub use error::{DRIVER_VARIABLE, DriverError};
pub use graph::Graph;
pub use kernel::{Grid, Kernel};
pub use library::{device_count, driver_version};
pub use memory::{Buffer, Pinned, View};
pub use pool::PoolWatch;
pub use properties::Properties;
pub use stream::{Event, Stream};
