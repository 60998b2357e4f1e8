use std::time::Duration;

use spirea_protocols::ProtocolError;
use spirea_store::StoreError;

/// Why a request was refused or failed. No variant carries anything of a query's content.
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
        /// The version that answers now.
        current: [u8; 32],
    },
    /// The queries are not as many or as long as the parameters say.
    #[error("malformed request: {0}")]
    Malformed(String),
    /// The evaluation keys that the queries need are not here, or no longer: their client has to register
    /// them, and may then send the same queries again.
    #[error("the evaluation keys of the queries are not known")]
    UnknownKeys,
    /// Neither memory nor disk may hold a single client's keys.
    #[error("the server has no room for evaluation keys")]
    NoRoomForKeys,
    /// The keys of requests that wait, and of clients that have theirs registered, take all the room that there is.
    #[error("the keys of other requests take all the room for evaluation keys")]
    KeysInUse {
        /// When to try again.
        retry_after: Duration,
    },
    /// The queue is full.
    #[error("the queue of requests is full")]
    Overloaded {
        /// About when there may be room.
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
    /// The computation gave answers that are not what the parameters say.
    #[error("the computation gave answers of a wrong number or length")]
    WrongAnswers,
}

impl EngineError {
    /// Whether the request had been accepted for computation. When not, trying again is safe.
    pub fn accepted(&self) -> bool {
        matches!(self, Self::Protocol(_) | Self::Panicked | Self::WrongAnswers)
    }
}

/// Why a database could not be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// Two databases have one name.
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
