//! A folder in which a snapshot is made or received before it is moved into place.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::StoreError;
use crate::error::IoContext;

/// Name of the folder of incomplete work.
pub(super) const WORK: &str = "work";

/// A temporary folder of a repository, removed when dropped. Opening the repository removes folders
/// left by a process that ended.
#[derive(Debug)]
pub struct Staging {
    path: PathBuf,
}

impl Staging {
    pub(super) fn create(repository: &Path) -> Result<Self, StoreError> {
        // A counter suffices for unique names: only one process has the repository open, and
        // opening it empties the folder.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let path = repository.join(WORK).join(NEXT.fetch_add(1, Ordering::Relaxed).to_string());
        fs::create_dir(&path).at("create", &path)?;
        Ok(Self { path })
    }

    /// Returns the folder's path; the folder is empty at first.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        #[cfg(test)]
        if crate::error::faults::tripped() {
            return;
        }
        // The folder is gone if it was moved into place; if it cannot be removed now, it is removed
        // later.
        let _ = fs::remove_dir_all(&self.path);
    }
}
