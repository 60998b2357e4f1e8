//! Where a database's versions come from.

use std::path::Path;

use spirea_engine::MOST_VERSIONS;
use spirea_store::repository::Settings;
use spirea_store::{Repository, Snapshot, StoreError};

use super::folder::Folder;
use super::signer::{SignerError, signer_of};
use super::version::Version;

/// Why a folder cannot be served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    /// It is damaged, or another process has it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What would be published there cannot be signed.
    #[error(transparent)]
    Signer(#[from] SignerError),
}

/// Where a database's versions come from.
pub(crate) enum Source {
    /// The snapshot in a folder, and those that take its place.
    Snapshot(Folder),
    /// Those of a repository.
    Repository(Box<Repository>),
}

impl Source {
    /// The source in a folder: a snapshot, or else a repository, which may be empty. What is published there is
    /// signed by the key in a file, if there is one.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(folder: &Path, signing_key: Option<&Path>) -> Result<Self, OpenError> {
        if !Repository::is_one(folder) {
            return Ok(Self::Snapshot(Folder::open(folder)?));
        }
        let key = signing_key.map(|file| signer_of(file, folder)).transpose()?;
        // As many as the engine keeps.
        let settings = Settings { kept: MOST_VERSIONS, key, ..Settings::default() };
        Ok(Self::Repository(Box::new(Repository::open(folder, settings)?)))
    }

    /// Checks whether a folder can be opened, without taking it: a server may have it.
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

    /// The database's name: a repository without a version has its folder's.
    pub fn name(&self) -> String {
        match self {
            Self::Snapshot(folder) => folder.current().base.manifest().name.clone(),
            Self::Repository(repository) => repository.current().map_or_else(
                || repository.folder().file_name().unwrap_or_default().to_string_lossy().into_owned(),
                |current| current.name().to_owned(),
            ),
        }
    }

    /// What answers, newest first.
    pub fn versions(&self) -> Vec<Version> {
        match self {
            Self::Snapshot(folder) => folder.versions(),
            Self::Repository(repository) => repository.versions().into_iter().map(Version::from).collect(),
        }
    }
}
