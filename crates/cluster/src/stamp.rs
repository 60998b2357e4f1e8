//! Stamps that detect changes of a file.

use std::path::Path;
use std::time::SystemTime;

/// Modification time and length of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp(SystemTime, u64);

impl Stamp {
    /// Returns the stamp of a file, or `None` if there is no file.
    pub fn of(path: &Path) -> Option<Self> {
        let metadata = std::fs::metadata(path).ok()?;
        Some(Self(metadata.modified().ok()?, metadata.len()))
    }
}
