use spirea_store::StoreError;

use super::receive::ReceiveError;

/// Reason why a version could not be published.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PublishError {
    /// There is no database of this name.
    #[error("there is no database of this name")]
    UnknownDatabase,
    /// The database is served from a snapshot's folder.
    #[error("this database is served from a snapshot's folder, and takes no publications")]
    Fixed,
    /// There is nothing to change yet.
    #[error("nothing has been published yet")]
    NothingYet,
    /// The repository refused.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The upload is not a snapshot.
    #[error(transparent)]
    Receive(#[from] ReceiveError),
    /// The version is on disk and correct but could not be loaded; the former version answers.
    #[error("the version could not be loaded, and the former one is current again: {0}")]
    Load(String),
}
