//! Why there is no DPU, or what it said.

use spirea_backend::BackendError;

use super::MOST_TASKLETS;

/// Why there is no DPU, or what it said.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PimError {
    /// No library of the vendor.
    #[error("no UPMEM SDK: {0} cannot be loaded; install the SDK, or name its library in SPIREA_DPU_LIBRARY")]
    NoLibrary(String),
    /// The device program cannot be loaded.
    #[error("the device program: {0}")]
    Program(String),
    /// Fewer DPUs than were asked for.
    #[error("{wanted} DPUs are wanted, {free} are free")]
    Allocation {
        /// How many were asked for; at least 1.
        wanted: usize,
        /// How many there were.
        free: usize,
    },
    /// A number of tasklets that no DPU has.
    #[error("{0} tasklets: a DPU has 1 to {MOST_TASKLETS}")]
    Tasklets(u32),
    /// Stacks and buffers have no room in WRAM.
    #[error("{0}")]
    Wram(String),
    /// A transfer that breaks a rule.
    #[error("a transfer of the host: {0}")]
    Transfer(String),
    /// A DPU is in fault.
    #[error("a DPU is in fault: {0}")]
    Fault(String),
    /// So many DPUs have failed that the rest cannot answer.
    #[error(
        "{failed} of {dpus} DPUs of a cluster have failed, and what they had has no room elsewhere: {reason}"
    )]
    Lost {
        /// How many have failed.
        failed: usize,
        /// How many there were.
        dpus: usize,
        /// What the last one said.
        reason: String,
    },
    /// A table that no number of passes gets over.
    #[error("no room in MRAM for {wanted} bytes of a table: {free} are free in each DPU")]
    Memory {
        /// Bytes that each DPU needs at least.
        wanted: usize,
        /// Bytes that are free in each.
        free: usize,
    },
    /// Settings that do not go together.
    #[error("{0}")]
    Settings(String),
    /// A call that failed.
    #[error("{call} gave error {code}")]
    Call {
        /// The function.
        call: &'static str,
        /// What it returned.
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
