//! The driver API as owned values: devices, streams, buffers, kernels, graphs.
//!
//! Everything unsafe of this crate is here. One context a device, the primary one. Buffers belong to their
//! device's *main stream*: they are allocated and freed in its order, so that a buffer may be dropped while
//! kernels that use it are still queued there. Work on another stream is forked from the main stream and joined
//! to it again ([`Stream::after`]) before a buffer that it uses is dropped.
#![allow(unsafe_code)]

mod blas;
mod device;
mod error;
mod graph;
mod launch;
mod library;
mod memory;
mod stream;

pub use blas::ByteProduct;
pub use device::{Compute, Device, PoolWatch, Properties};
pub use error::DriverError;
pub use graph::Graph;
pub(crate) use launch::args;
pub use launch::{Arg, Grid, Kernel};
pub use library::{DRIVER_VARIABLE, device_count, driver_version};
pub use memory::{Buffer, Pinned, View};
pub use stream::{Event, Stream};
