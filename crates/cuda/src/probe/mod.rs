//! What a person asks of a device before trusting it: whether every primitive does what the kernels rely on, and how
//! fast it is at most.

mod contents;
mod rates;
mod selftest;

pub use rates::{Instruction, Rates, TensorRate};
pub use selftest::{SelfTest, SelfTestError};

use bytemuck::Pod;

use crate::args;
use crate::driver::{DriverError, Grid, View};

/// Queues filling a buffer, whose bytes are a multiple of 16, with pseudorandom ones.
///
/// # Errors
/// What the driver said.
///
/// # Panics
/// If they are not.
pub fn fill<T: Pod>(to: &View<'_, T>, seed: u64) -> Result<(), DriverError> {
    let (device, bytes) = (to.device(), to.len() * size_of::<T>());
    assert!(bytes.is_multiple_of(16) && to.address().is_multiple_of(16), "whole groups of 16 bytes");
    let grid = Grid::new(device.properties().processors as usize * 8, 256);
    device.main().launch(&device.kernel("probe_fill")?, grid, args![to, (bytes / 16) as u64, seed])
}
