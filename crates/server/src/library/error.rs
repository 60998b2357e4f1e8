use spirea_store::StoreError;

use super::receive::ReceiveError;

/// Reason why a version could not be published.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PublishError {
    /// There is no database of this name.
    #[error("there is no database of this name")]
    UnknownDatabase,
    /// The database is served from a folder that the server only reads.
    #[error(
        "this database is served from a snapshot's folder, or from a repository that the server may only read, and takes no publications"
    )]
    Fixed,
    /// The database is a copy of another server's.
    #[error("this database follows {0}, and takes no publications")]
    Follows(String),
    /// No kept version has the file.
    #[error("no kept version names a snapshot with this file")]
    UnknownFile,
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
