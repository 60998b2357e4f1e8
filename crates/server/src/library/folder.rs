//! Folder of a snapshot that another snapshot may replace while the server runs; or folder of a
//! repository in which this process may not write, but another process may publish.

use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use spirea_store::{Repository, Snapshot, StoreError};

use super::version_files::VersionFiles;

/// Number of versions kept when a new version is adopted: the new one, and one that clients may
/// still query.
const KEPT: usize = 2;

/// A folder that the server only reads, and its versions.
pub(crate) struct Folder {
    path: PathBuf,
    /// Versions, newest first: at least one.
    versions: Mutex<Vec<VersionFiles>>,
}

impl Folder {
    /// Opens the versions that lie in the folder now.
    ///
    /// # Errors
    /// Those of [`Snapshot::open`] and [`Snapshot::signature`], or of [`Repository::list`];
    /// [`StoreError::NoSuchVersion`] for a repository without a version.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Ok(Self { path: path.into(), versions: Mutex::new(read(path)?) })
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the newest version that lies in the folder now.
    ///
    /// # Errors
    /// Those of [`Folder::open`].
    pub fn read(&self) -> Result<VersionFiles, StoreError> {
        Ok(read(&self.path)?.swap_remove(0))
    }

    /// Returns the version that was adopted last.
    pub fn current(&self) -> VersionFiles {
        self.versions.lock()[0].clone()
    }

    /// Returns the adopted versions that are kept, newest first.
    pub fn versions(&self) -> Vec<VersionFiles> {
        self.versions.lock().clone()
    }

    /// Makes `version` the newest.
    pub fn adopt(&self, version: VersionFiles) {
        let mut versions = self.versions.lock();
        versions.retain(|other| other.version() != version.version());
        versions.insert(0, version);
        versions.truncate(KEPT);
    }
}

/// Reads the versions in a folder, newest first: at least one.
fn read(path: &Path) -> Result<Vec<VersionFiles>, StoreError> {
    if !Repository::is_one(path) {
        let base = Snapshot::open(path)?;
        let signature = base.signature()?;
        return Ok(vec![VersionFiles { base, delta: None, signature, values: None }]);
    }
    let versions: Vec<_> = Repository::list(path)?.into_iter().map(VersionFiles::from).collect();
    if versions.is_empty() {
        let detail = "it has no version yet, and this process may not write there: publish a base first";
        return Err(StoreError::NoSuchVersion { path: path.into(), detail: detail.into() });
    }
    Ok(versions)
}
