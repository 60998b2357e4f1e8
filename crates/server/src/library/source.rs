//! Sources of a database's versions.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use spirea_engine::MOST_VERSIONS;
use spirea_protocols::signature::PrivateKey;
use spirea_store::repository::Settings;
use spirea_store::{Repository, Snapshot, StoreError};

use super::folder::Folder;
use super::signer::{SignerError, signer_of};
use super::version_files::VersionFiles;
use crate::follow::Follow;

/// Reason why a folder cannot be served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    /// The folder is damaged, or another process has opened it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Versions published there could not be signed.
    #[error(transparent)]
    Signer(#[from] SignerError),
}

/// Returns settings with which a repository keeps the same number of versions as the engine.
fn settings(key: Option<PrivateKey>) -> Settings {
    Settings { kept: MOST_VERSIONS, key, ..Settings::default() }
}

/// Returns true if a folder is missing or empty.
fn is_empty(folder: &Path) -> bool {
    match fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == ErrorKind::NotFound,
    }
}

/// Returns true if copies of another server's versions are stored in `folder`: this server follows
/// another server, and the folder is a repository or will become one.
///
/// # Errors
/// [`StoreError::BadOption`] if this process may not write there.
fn is_copy(folder: &Path, follow: Option<&Follow>) -> Result<bool, StoreError> {
    if follow.is_none() || !(is_empty(folder) || Repository::is_one(folder)) {
        return Ok(false);
    }
    let existing = folder.ancestors().find(|path| path.exists()).unwrap_or(Path::new("."));
    if Repository::is_read_only(existing) {
        let detail = "this process may not write there (a read-only mount, or permissions), and a server that follows another one stores its versions: make the folder writable, name another one, or serve the repository without following (follow.url, --follow)";
        return Err(StoreError::BadOption(format!("{}: {detail}", folder.display())));
    }
    Ok(true)
}

/// Source of a database's versions.
pub(crate) enum Source {
    /// The snapshot in a folder, and the snapshots that replace it; or the versions of a repository
    /// that this process only reads.
    Folder(Folder),
    /// The versions of a repository that this process may change.
    Repository(Box<Repository>),
}

impl Source {
    /// Opens the source in a folder: a snapshot or else a repository, which may be empty. Versions
    /// published there are signed by the key in the file `signing_key`, if given. A repository
    /// where this process may not write is neither locked nor changed. If the server follows
    /// another one, a folder that is missing or empty becomes a repository, and repositories must
    /// be writable.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(
        folder: &Path,
        signing_key: Option<&Path>,
        follow: Option<&Follow>,
    ) -> Result<Self, OpenError> {
        if is_copy(folder, follow)? {
            return Ok(Self::Repository(Box::new(Repository::create(folder, settings(None))?)));
        }
        if !Repository::is_one(folder) || Repository::is_read_only(folder) {
            return Ok(Self::Folder(Folder::open(folder)?));
        }
        let key = signing_key.map(|file| signer_of(file, folder)).transpose()?;
        Ok(Self::Repository(Box::new(Repository::open(folder, settings(key))?)))
    }

    /// Checks that a folder can be opened, without locking it, because a server may have it open.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn check(
        folder: &Path,
        signing_key: Option<&Path>,
        follow: Option<&Follow>,
    ) -> Result<(), OpenError> {
        if is_copy(folder, follow)? && is_empty(folder) {
            return Ok(());
        }
        if !Repository::is_one(folder) {
            Snapshot::open(folder)?;
            return Ok(());
        }
        Repository::list(folder)?;
        signing_key.map(|file| signer_of(file, folder)).transpose()?;
        Ok(())
    }

    /// Returns the database's name; for a repository without a version, the folder's name.
    pub fn name(&self) -> String {
        match self {
            Self::Folder(folder) => folder.current().base.manifest().name.clone(),
            Self::Repository(repository) => repository.current().map_or_else(
                || repository.folder().file_name().unwrap_or_default().to_string_lossy().into_owned(),
                |current| current.name().to_owned(),
            ),
        }
    }

    /// Returns the versions that answer, newest first.
    pub fn versions(&self) -> Vec<VersionFiles> {
        match self {
            Self::Folder(folder) => folder.versions(),
            Self::Repository(repository) => {
                repository.versions().into_iter().map(VersionFiles::from).collect()
            }
        }
    }
}
