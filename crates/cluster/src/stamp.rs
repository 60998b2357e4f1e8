//! Whether a file has changed since it was read.

use std::path::Path;
use std::time::SystemTime;

/// What a file looked like: when it was written, and how long it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp(SystemTime, u64);

impl Stamp {
    /// That of a file; none if there is none.
    pub fn of(path: &Path) -> Option<Self> {
        let metadata = std::fs::metadata(path).ok()?;
        Some(Self(metadata.modified().ok()?, metadata.len()))
    }
}
