//! Errors of the driver: the reason why no device is available, or why a call failed.

use cudarc::driver::result;
use cudarc::driver::sys::CUresult;
use spirea_backend::BackendError;

use super::Compute;

/// Environment variable with the path of the driver library, for a library that the system's linker
/// does not find.
pub const DRIVER_VARIABLE: &str = "SPIREA_CUDA_DRIVER";

/// Error of the driver: the reason why no device is available, or why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DriverError {
    /// No driver library.
    #[error(
        "no NVIDIA driver: libcuda is not on this machine; install the driver, or name its library in {DRIVER_VARIABLE}"
    )]
    NoDriver,
    /// The driver finds no usable device.
    #[error("the NVIDIA driver finds no device ({0}): see what nvidia-smi says")]
    NoDevice(String),
    /// The driver is older than the kernels.
    #[error("the NVIDIA driver is for CUDA {found}, the kernels want {wanted} or later: update the driver")]
    OldDriver {
        /// CUDA version of the driver, such as 11.4.
        found: String,
        /// Minimum CUDA version that the kernels need.
        wanted: String,
    },
    /// No device has this number.
    #[error("device {ordinal} of {count}: numbers start at 0")]
    NoSuchDevice {
        /// Number asked for.
        ordinal: usize,
        /// Number of devices.
        count: usize,
    },
    /// No kernels were compiled for this device.
    #[error("{0}")]
    Kernels(String),
    /// No cubin runs on the device, and the driver refused to compile the kernels' PTX.
    #[error(
        "no kernels are compiled for compute capability {capability}, and the driver cannot compile their PTX \
         ({reason}): update the driver, or use a version of Spirea that knows the device"
    )]
    Ptx {
        /// Compute capability of the device.
        capability: Compute,
        /// The driver's error.
        reason: String,
    },
    /// The device's memory is full.
    #[error("the device has no room for {wanted} bytes: {free} of {total} are free")]
    OutOfMemory {
        /// Bytes asked for.
        wanted: usize,
        /// Bytes free.
        free: usize,
        /// Bytes in all.
        total: usize,
    },
    /// The device failed, and nothing on it can be used any more.
    #[error("the device was lost ({0}): start again")]
    Lost(String),
    /// A driver call failed.
    #[error("{call}: {reason}")]
    Call {
        /// Name of the call.
        call: &'static str,
        /// The driver's error.
        reason: String,
    },
}

impl DriverError {
    /// Converts the driver's error for `call`.
    pub(super) fn of(call: &'static str) -> impl Fn(result::DriverError) -> Self {
        move |error| {
            let reason = describe(error);
            match error.0 {
                CUresult::CUDA_ERROR_NO_DEVICE => Self::NoDevice(reason),
                CUresult::CUDA_ERROR_DEINITIALIZED
                | CUresult::CUDA_ERROR_ILLEGAL_ADDRESS
                | CUresult::CUDA_ERROR_LAUNCH_TIMEOUT
                | CUresult::CUDA_ERROR_LAUNCH_FAILED
                | CUresult::CUDA_ERROR_ASSERT
                | CUresult::CUDA_ERROR_HARDWARE_STACK_ERROR
                | CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION
                | CUresult::CUDA_ERROR_MISALIGNED_ADDRESS
                | CUresult::CUDA_ERROR_ECC_UNCORRECTABLE
                | CUresult::CUDA_ERROR_DEVICE_UNAVAILABLE => Self::Lost(format!("{call}: {reason}")),
                _ => Self::Call { call, reason },
            }
        }
    }
}

/// Formats the driver's name of an error, with its number.
pub(super) fn describe(error: result::DriverError) -> String {
    let name = error.error_name().map_or("unknown", |name| name.to_str().unwrap_or("unknown"));
    format!("{name}, {}", error.0 as u32)
}

impl From<DriverError> for BackendError {
    fn from(error: DriverError) -> Self {
        match error {
            DriverError::Lost(_) | DriverError::Call { .. } => Self::Device(error.to_string()),
            _ => Self::Unavailable(error.to_string()),
        }
    }
}
