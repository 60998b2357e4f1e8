use std::time::Duration;

use spirea_protocols::{ProtocolError, Version};
use spirea_store::StoreError;

/// Error of a request that was refused or failed. No variant contains any of a query's content.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// There is no database of this name.
    #[error("there is no database of this name")]
    UnknownDatabase,
    /// The database is still being loaded.
    #[error("the database is being loaded")]
    Loading,
    /// The database could not be loaded.
    #[error("the database could not be loaded")]
    Failed,
    /// The queries were made for another version.
    #[error("the queries were made for another version of the database")]
    Stale {
        /// Version that answers now.
        current: Version,
    },
    /// The queries were made for a version that this server is still copying or loading.
    #[error("the version is not here yet")]
    NotYet,
    /// The number or length of the queries differs from the parameters.
    #[error("malformed request: {0}")]
    Malformed(String),
    /// The server does not have the evaluation keys that the queries need, or has them no longer.
    /// The client has to register the keys and may then send the same queries again.
    #[error("the evaluation keys of the queries are not known")]
    UnknownKeys,
    /// The limits of memory and disk are both too small for a single client's keys.
    #[error("the server has no room for evaluation keys")]
    NoRoomForKeys,
    /// No room is left for the keys of this request: the keys of waiting requests and the
    /// registered keys take all of it.
    #[error("the keys of other requests take all the room for evaluation keys")]
    KeysInUse {
        /// Time until the next try.
        retry_after: Duration,
    },
    /// The queue is full.
    #[error("the queue of requests is full")]
    Overloaded {
        /// Estimated time until there is room.
        retry_after: Duration,
    },
    /// The engine stopped before the request's turn came.
    #[error("the engine is stopping")]
    Stopping,
    /// The protocol or its backend failed.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// The computation panicked; the engine goes on.
    #[error("the computation was aborted by a defect")]
    Panicked,
    /// The number or length of the computed answers differs from the parameters.
    #[error("the computation gave answers of a wrong number or length")]
    WrongAnswers,
}

impl EngineError {
    /// Returns true if the request was accepted for computation. Otherwise a retry is safe.
    pub fn accepted(&self) -> bool {
        matches!(self, Self::Protocol(_) | Self::Panicked | Self::WrongAnswers)
    }
}

/// Error of loading a database.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// Two databases have the same name.
    #[error("there are two databases called {0:?}; rename one of them when building its snapshot")]
    DuplicateName(String),
    /// The snapshot is damaged or unreadable.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The protocol or its backend refused.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// The parts of the snapshot do not belong together.
    #[error("the snapshot contradicts itself: {0}; build it anew")]
    Inconsistent(String),
}
