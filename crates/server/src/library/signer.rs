//! The key that signs versions published through a server.

use std::path::{Path, PathBuf};

use spirea_protocols::signature::{PrivateKey, PublicKey};
use spirea_store::signing::read_key;
use spirea_store::{Repository, StoreError, VersionRecord};

/// Reason why versions cannot be signed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SignerError {
    /// The file cannot be used.
    #[error("{0}; signing_key (--signing-key) names a file that `spirea key new` made")]
    Key(StoreError),
    /// The repository cannot be read.
    #[error(transparent)]
    Store(StoreError),
    /// Another key signed the current version: clients that pin that key would refuse everything
    /// published with this one.
    #[error(
        "{path}: its current version is signed by the key {current}, and {file} is the key {key}: name the file of the \
         former; or change keys, of which clients must be told (spirea rollback --repository {path} --to {version} \
         --sign {file})",
        path = .repository.display(), file = .file.display()
    )]
    Other {
        /// Folder of the repository.
        repository: PathBuf,
        /// Current version of the repository, in hexadecimal.
        version: String,
        /// Key that signed the current version.
        current: Box<PublicKey>,
        /// File of the configured key.
        file: PathBuf,
        /// Public key of the configured key.
        key: Box<PublicKey>,
    },
}

/// Reads the key in a file; an error if another key signed the current version of the repository.
pub(super) fn signer_of(file: &Path, repository: &Path) -> Result<PrivateKey, SignerError> {
    let key = read_key(file).map_err(SignerError::Key)?;
    let versions = Repository::list(repository).map_err(SignerError::Store)?;
    match versions.first() {
        Some(version @ VersionRecord { signature: Some(signature), .. }) if signature.key != key.public() => {
            Err(SignerError::Other {
                repository: repository.into(),
                version: version.version.to_string(),
                current: Box::new(signature.key),
                file: file.into(),
                key: Box::new(key.public()),
            })
        }
        _ => Ok(key),
    }
}
