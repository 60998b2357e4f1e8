//! `spirea gpu`: checks of the device features that the kernels rely on.

mod check;

use clap::Subcommand;
use spirea_console::status::Status;

/// Commands of `spirea gpu`.
#[derive(Subcommand)]
pub enum Gpu {
    /// Self-tests of the device, every step against the CPU, and whole protocols.
    Check(check::CheckOptions),
}

/// Runs the command. The status is 0 for success, 1 if anything failed, and 3 without a device.
pub fn run(gpu: &Gpu) -> anyhow::Result<Status> {
    match gpu {
        Gpu::Check(options) => check::run(options),
    }
}
