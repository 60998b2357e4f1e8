//! Checks before trusting a device: self-tests of every primitive that the kernels rely on, and
//! measurements of the device's peak rates.

mod chains;
mod common;
mod contents;
mod rates;
mod selftest;

pub use common::SelfTestError;
pub use rates::{Instruction, Rates, TensorRate};
pub use selftest::SelfTest;

use bytemuck::Pod;

use crate::args;
use crate::driver::{DriverError, Grid, View};

/// Queues a kernel that fills a buffer with pseudorandom bytes. The buffer's size and address must
/// be multiples of 16 bytes.
///
/// # Errors
/// The driver's error.
///
/// # Panics
/// If the size or the address is not a multiple of 16 bytes.
pub fn fill<T: Pod>(to: &View<'_, T>, seed: u64) -> Result<(), DriverError> {
    let (device, bytes) = (to.device(), to.len() * size_of::<T>());
    assert!(bytes.is_multiple_of(16) && to.address().is_multiple_of(16), "whole groups of 16 bytes");
    let grid = Grid::new(device.properties().processors as usize * 8, 256);
    device.main().launch(&device.kernel("probe_fill")?, grid, args![to, (bytes / 16) as u64, seed])
}
