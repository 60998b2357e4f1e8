//! Errors of DPUs: the reason why no DPU is available, or why a call failed.

use spirea_backend::BackendError;

use super::MOST_TASKLETS;

/// Error of DPUs: the reason why no DPU is available, or why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PimError {
    /// The vendor's library cannot be loaded.
    #[error("no UPMEM SDK: {0} cannot be loaded; install the SDK, or name its library in SPIREA_DPU_LIBRARY")]
    NoLibrary(String),
    /// The device program cannot be loaded.
    #[error("the device program: {0}")]
    Program(String),
    /// Fewer DPUs are free than were asked for.
    #[error("{wanted} DPUs are wanted, {free} are free")]
    Allocation {
        /// Number of DPUs asked for; at least 1.
        wanted: usize,
        /// Number of free DPUs.
        free: usize,
    },
    /// No DPU has this number of tasklets.
    #[error("{0} tasklets: a DPU has 1 to {MOST_TASKLETS}")]
    Tasklets(u32),
    /// WRAM has no room for stacks and buffers.
    #[error("{0}")]
    Wram(String),
    /// A transfer breaks a rule.
    #[error("a transfer of the host: {0}")]
    Transfer(String),
    /// A DPU is in fault.
    #[error("a DPU is in fault: {0}")]
    Fault(String),
    /// So many DPUs have failed that the others cannot answer.
    #[error(
        "{failed} of {dpus} DPUs of a cluster have failed, and what they had has no room elsewhere: {reason}"
    )]
    Lost {
        /// Number of failed DPUs.
        failed: usize,
        /// Number of DPUs.
        dpus: usize,
        /// Reason of the last failure.
        reason: String,
    },
    /// A table does not fit in any number of passes.
    #[error("no room in MRAM for {wanted} bytes of a table: {free} are free in each DPU")]
    Memory {
        /// Minimum number of bytes that the table needs in each DPU.
        wanted: usize,
        /// Number of free bytes in each DPU.
        free: usize,
    },
    /// Settings do not go together.
    #[error("{0}")]
    Settings(String),
    /// A call failed.
    #[error("{call} gave error {code}")]
    Call {
        /// Name of the function.
        call: &'static str,
        /// Returned code.
        code: u32,
    },
}

impl From<PimError> for BackendError {
    fn from(error: PimError) -> Self {
        match error {
            PimError::Transfer(_) | PimError::Fault(_) | PimError::Lost { .. } | PimError::Call { .. } => {
                Self::Device(error.to_string())
            }
            _ => Self::Unavailable(error.to_string()),
        }
    }
}
