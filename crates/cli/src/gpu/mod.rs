//! `spirea gpu`: whether a device does what the kernels rely on, and how near it comes to its limits.

mod bench;
mod check;
mod device;

use clap::Subcommand;

use crate::status::Status;

/// What to ask of the device.
#[derive(Subcommand)]
pub enum Gpu {
    /// Self-tests of the device, every step against the CPU, and whole protocols.
    Check(check::CheckOptions),
    /// What the device can do at most, and how near the steps and the protocols come to it.
    Bench(bench::BenchOptions),
}

/// The exit code of a machine without a device.
const NO_DEVICE: u8 = 3;

/// Runs the command: 0 if all is well, 1 if anything failed, 3 without a device.
pub fn run(gpu: &Gpu) -> anyhow::Result<Status> {
    match gpu {
        Gpu::Check(options) => check::run(options),
        Gpu::Bench(options) => bench::run(options),
    }
}
