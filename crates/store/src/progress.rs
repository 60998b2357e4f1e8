//! Progress of long steps.

use std::fmt;

use crate::StoreError;

/// Phase of an operation that takes long enough to be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Phase {
    /// Reading the input, in bytes of the file.
    Read,
    /// Sorting and counting keys, in entries.
    Plan,
    /// Hashing records for their inclusion proofs, in records.
    Prove,
    /// Sealing and writing records, in records.
    Encode,
    /// Computing the hint, in thousandths.
    Hint,
    /// Sending real queries to the new snapshot, in queries.
    Test,
    /// Hashing files, in bytes.
    Verify,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Plan => "plan",
            Self::Prove => "prove",
            Self::Encode => "encode",
            Self::Hint => "hint",
            Self::Test => "test",
            Self::Verify => "verify",
        })
    }
}

/// Receiver of the progress of a long operation.
pub trait Progress {
    /// Reports that `done` of `total` units of `phase` are done; the phase defines the unit.
    fn update(&self, phase: Phase, done: u64, total: u64);

    /// Reports that `rows` rows of the input were dropped in favour of other rows with the same
    /// keys.
    fn left_out(&self, _rows: u64) {}

    /// True if the operation shall be cancelled; it then fails with [`StoreError::Stopped`] at its
    /// next check.
    fn is_stopped(&self) -> bool {
        false
    }
}

/// Checks for cancellation.
///
/// # Errors
/// [`StoreError::Stopped`] if cancelled.
pub(crate) fn go_on(progress: &dyn Progress) -> Result<(), StoreError> {
    if progress.is_stopped() { Err(StoreError::Stopped) } else { Ok(()) }
}

/// A receiver that ignores all reports.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn update(&self, _: Phase, _: u64, _: u64) {}
}
