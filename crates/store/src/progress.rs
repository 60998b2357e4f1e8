//! Progress of long steps.

use std::fmt;

use crate::StoreError;

/// A step that takes long enough to be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Phase {
    /// The input is read, in bytes of the file.
    Read,
    /// Keys are sorted and counted, in entries.
    Plan,
    /// Records are hashed for their inclusion proofs, in records.
    Prove,
    /// Records are sealed and written, in records.
    Encode,
    /// The hint is computed, in thousandths.
    Hint,
    /// Real queries are made of the new snapshot, in queries.
    Test,
    /// Files are hashed, in bytes.
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

/// Is told how far a long step is.
pub trait Progress {
    /// `done` of `total` units of `phase` are done; the units are the phase's.
    fn update(&self, phase: Phase, done: u64, total: u64);

    /// `rows` rows of the input were left out, because other rows with their keys were taken.
    fn left_out(&self, _rows: u64) {}

    /// Whether what is told shall not go on: it ends with [`StoreError::Stopped`] where it asks next.
    fn is_stopped(&self) -> bool {
        false
    }
}

/// Asks whether to go on.
///
/// # Errors
/// [`StoreError::Stopped`] if not.
pub(crate) fn go_on(progress: &dyn Progress) -> Result<(), StoreError> {
    if progress.is_stopped() { Err(StoreError::Stopped) } else { Ok(()) }
}

/// Shows nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn update(&self, _: Phase, _: u64, _: u64) {}
}
