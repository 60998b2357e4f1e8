//! A folder in which a snapshot is made, or received, before it has its place.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::StoreError;
use crate::error::IoContext;

/// Name of the folder of what is not complete.
pub(super) const WORK: &str = "work";

/// A folder of a repository's own, removed when dropped; what a process that ended has left is removed when the
/// repository is opened.
#[derive(Debug)]
pub struct Staging {
    path: PathBuf,
}

impl Staging {
    pub(super) fn create(repository: &Path) -> Result<Self, StoreError> {
        // One process has the repository, and begins with an empty folder.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let path = repository.join(WORK).join(NEXT.fetch_add(1, Ordering::Relaxed).to_string());
        fs::create_dir(&path).at("create", &path)?;
        Ok(Self { path })
    }

    /// Its path: the folder is empty at first.
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
        // Nothing is there any more if it was given its place; what cannot be removed now is removed later.
        let _ = fs::remove_dir_all(&self.path);
    }
}
