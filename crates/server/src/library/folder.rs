//! The folder of a snapshot, which another snapshot may replace while the server runs.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use spirea_store::{Snapshot, StoreError};

use super::version::Version;

/// Number of kept versions: the current one, and one that clients may still query.
const KEPT: usize = 2;

/// The folder of a snapshot, and its versions.
pub(crate) struct Folder {
    path: PathBuf,
    /// Versions, newest first: at least one.
    versions: Mutex<Vec<Version>>,
}

impl Folder {
    /// Opens the snapshot that lies in the folder now.
    ///
    /// # Errors
    /// Those of [`Snapshot::open`] and [`Snapshot::signature`].
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Ok(Self { path: path.into(), versions: Mutex::new(vec![read(path)?]) })
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the version that lies in the folder now.
    ///
    /// # Errors
    /// Those of [`Folder::open`].
    pub fn read(&self) -> Result<Version, StoreError> {
        read(&self.path)
    }

    /// Returns the version that was adopted last.
    pub fn current(&self) -> Version {
        self.locked()[0].clone()
    }

    /// Returns the adopted versions that are kept, newest first.
    pub fn versions(&self) -> Vec<Version> {
        self.locked().clone()
    }

    /// Makes `version` the newest.
    pub fn adopt(&self, version: Version) {
        let mut versions = self.locked();
        versions.retain(|other| other.name() != version.name());
        versions.insert(0, version);
        versions.truncate(KEPT);
    }

    fn locked(&self) -> MutexGuard<'_, Vec<Version>> {
        // A panic leaves a whole list.
        self.versions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read(path: &Path) -> Result<Version, StoreError> {
    let base = Snapshot::open(path)?;
    let signature = base.signature()?;
    Ok(Version { base, delta: None, signature, values: None })
}
