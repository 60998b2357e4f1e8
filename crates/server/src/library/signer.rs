//! The key that signs what is published through a server.

use std::path::{Path, PathBuf};

use spirea_protocols::signature::{PrivateKey, PublicKey};
use spirea_store::signing::read_key;
use spirea_store::{Repository, StoreError, VersionRecord};

/// Why versions cannot be signed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SignerError {
    /// The file cannot be used.
    #[error("{0}; signing_key (--signing-key) names a file that `spirea key new` made")]
    Key(StoreError),
    /// The repository cannot be read.
    #[error(transparent)]
    Store(StoreError),
    /// Another key has signed what answers: clients that pin it would refuse all that is published.
    #[error(
        "{path}: its current version is signed by the key {current}, and {file} is the key {key}: name the file of the \
         former; or change keys, of which clients must be told (spirea rollback --repository {path} --to {version} \
         --sign {file})",
        path = .repository.display(), file = .file.display()
    )]
    Other {
        /// The repository.
        repository: PathBuf,
        /// Its current version, in hexadecimal digits.
        version: String,
        /// Who signed that.
        current: Box<PublicKey>,
        /// The file of the key that is to sign.
        file: PathBuf,
        /// What belongs to it.
        key: Box<PublicKey>,
    },
}

/// The key in a file, unless the current version of a repository is signed by another one.
pub(super) fn signer_of(file: &Path, repository: &Path) -> Result<PrivateKey, SignerError> {
    let key = read_key(file).map_err(SignerError::Key)?;
    let versions = Repository::list(repository).map_err(SignerError::Store)?;
    match versions.first() {
        Some(version @ VersionRecord { signature: Some(signature), .. }) if signature.key != key.public() => {
            Err(SignerError::Other {
                repository: repository.into(),
                version: version.version_hex(),
                current: Box::new(signature.key),
                file: file.into(),
                key: Box::new(key.public()),
            })
        }
        _ => Ok(key),
    }
}
