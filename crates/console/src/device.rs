//! Choice of the device, and the report if there is none.

use std::sync::Arc;

use clap::{Args, ValueEnum};
use spirea_cuda::CudaBackend;
use spirea_cuda::driver::{Device, DriverError};

use crate::output::{Format, print_error, print_line};
use crate::status::Status;

/// Exit status on a machine without a device.
const NO_DEVICE: u8 = 3;

/// Name of the emulated device, which is this machine's processor.
const EMULATION: &str = "Spirea emulation";

/// Sizes of the work on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Scale {
    /// Sizes of real databases.
    Full,
    /// The smallest sizes that launch every kernel.
    Tiny,
}

/// Options for the device and the output format.
#[derive(Args, Clone)]
pub struct DeviceOptions {
    /// Number of the device.
    #[arg(long, default_value_t = 0)]
    device: usize,
    /// Sizes of the work: full, or tiny for a quick look; tiny by default if the device is
    /// emulated.
    #[arg(long, value_enum)]
    scale: Option<Scale>,
    /// One JSON object a line.
    #[arg(long)]
    json: bool,
}

impl DeviceOptions {
    /// Returns the output format.
    pub fn format(&self) -> Format {
        Format::from_flag(self.json)
    }

    /// Returns the scale: the one given, else tiny for an emulated device and full for any other.
    pub fn scale(&self, backend: &CudaBackend) -> Scale {
        let emulated = backend.device().properties().name.starts_with(EMULATION);
        self.scale.unwrap_or(if emulated { Scale::Tiny } else { Scale::Full })
    }

    /// Opens the device. If there is none, prints the reason in the name of `program`, and returns
    /// the exit status for it, 3.
    ///
    /// # Errors
    /// If a device exists and fails.
    pub fn open(&self, program: &str) -> anyhow::Result<Result<Arc<CudaBackend>, Status>> {
        let error = match Device::open(self.device) {
            Ok(device) => return Ok(Ok(Arc::new(CudaBackend::on(device)))),
            Err(error) => error,
        };
        let Some(reason) = reason(&error) else { return Err(error.into()) };
        match self.format() {
            Format::Text => print_error(&format!("{program}: no device ({reason}): {error}")),
            Format::Json => {
                let line = serde_json::json!({ "error": reason, "message": error.to_string() });
                print_line(&line.to_string())?;
            }
        }
        Ok(Err(Status::from(NO_DEVICE)))
    }
}

/// Returns the reason why there is no device, as a name for programs; `None` if a device failed.
fn reason(error: &DriverError) -> Option<&'static str> {
    Some(match error {
        DriverError::NoDriver => "no-driver",
        DriverError::NoDevice(_) => "no-device",
        DriverError::OldDriver { .. } => "old-driver",
        DriverError::NoSuchDevice { .. } => "no-such-device",
        DriverError::Kernels(_) | DriverError::Ptx { .. } => "no-kernels",
        DriverError::OutOfMemory { .. } => "no-memory",
        _ => return None,
    })
}
