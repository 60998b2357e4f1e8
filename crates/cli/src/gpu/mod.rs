//! `spirea gpu`: checks of the device features that the kernels rely on, and measurements against
//! the device's limits.

mod bench;
mod check;
mod device;

use clap::Subcommand;

use crate::status::Status;

/// Commands of `spirea gpu`.
#[derive(Subcommand)]
pub enum Gpu {
    /// Self-tests of the device, every step against the CPU, and whole protocols.
    Check(check::CheckOptions),
    /// Measure the device's limits, and the steps and protocols beside them.
    Bench(bench::BenchOptions),
}

/// Exit status on a machine without a device.
const NO_DEVICE: u8 = 3;

/// Runs the command. The status is 0 for success, 1 if anything failed, and 3 without a device.
pub fn run(gpu: &Gpu) -> anyhow::Result<Status> {
    match gpu {
        Gpu::Check(options) => check::run(options),
        Gpu::Bench(options) => bench::run(options),
    }
}
