//! Sources of a database's versions.

use std::path::Path;

use spirea_engine::MOST_VERSIONS;
use spirea_store::repository::Settings;
use spirea_store::{Repository, Snapshot, StoreError};

use super::folder::Folder;
use super::signer::{SignerError, signer_of};
use super::version::Version;

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

/// Source of a database's versions.
pub(crate) enum Source {
    /// The snapshot in a folder, and those that take its place.
    Snapshot(Folder),
    /// Those of a repository.
    Repository(Box<Repository>),
}

impl Source {
    /// Opens the source in a folder: a snapshot or else a repository, which may be empty. Versions
    /// published there are signed by the key in the file `signing_key`, if given.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(folder: &Path, signing_key: Option<&Path>) -> Result<Self, OpenError> {
        if !Repository::is_one(folder) {
            return Ok(Self::Snapshot(Folder::open(folder)?));
        }
        let key = signing_key.map(|file| signer_of(file, folder)).transpose()?;
        // The repository keeps the number of versions that the engine keeps.
        let settings = Settings { kept: MOST_VERSIONS, key, ..Settings::default() };
        Ok(Self::Repository(Box::new(Repository::open(folder, settings)?)))
    }

    /// Checks that a folder can be opened, without locking it, because a server may have it open.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn check(folder: &Path, signing_key: Option<&Path>) -> Result<(), OpenError> {
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
            Self::Snapshot(folder) => folder.current().base.manifest().name.clone(),
            Self::Repository(repository) => repository.current().map_or_else(
                || repository.folder().file_name().unwrap_or_default().to_string_lossy().into_owned(),
                |current| current.name().to_owned(),
            ),
        }
    }

    /// Returns the versions that answer, newest first.
    pub fn versions(&self) -> Vec<Version> {
        match self {
            Self::Snapshot(folder) => folder.versions(),
            Self::Repository(repository) => repository.versions().into_iter().map(Version::from).collect(),
        }
    }
}
