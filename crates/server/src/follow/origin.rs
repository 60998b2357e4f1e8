//! Where the versions come from that this server follows.

use std::ops::Range;

use spirea_protocols::Version;
use spirea_store::repository::{BucketPublisher, Published, Publisher};
use spirea_store::{FileEntry, StoreError};

use super::{Follow, FollowError, HttpPublisher, Look};

/// Another server, or a bucket.
pub(crate) enum Origin<E> {
    Server(HttpPublisher<E>),
    Bucket {
        publisher: BucketPublisher,
        /// Returns true once transfers shall end.
        ended: E,
    },
}

impl<E: Fn() -> bool> Origin<E> {
    /// Prepares requests for the database `name`. Transfers fail once `ended` returns true.
    ///
    /// # Errors
    /// [`FollowError::Settings`], [`FollowError::Token`] and [`FollowError::Store`].
    pub fn new(follow: &Follow, name: &str, look: Look, ended: E) -> Result<Self, FollowError> {
        Ok(match follow.is_bucket() {
            true => Self::Bucket { publisher: follow.bucket(name)?, ended },
            false => Self::Server(HttpPublisher::new(follow, name, look, ended)?),
        })
    }
}

impl<E: Fn() -> bool> Publisher for Origin<E> {
    type Error = FollowError;

    fn record(&self) -> Result<Option<Published>, FollowError> {
        match self {
            Self::Server(server) => server.record(),
            Self::Bucket { publisher, ended } => going(ended, || publisher.record()),
        }
    }

    fn manifest(&self, snapshot: &Version) -> Result<Vec<u8>, FollowError> {
        match self {
            Self::Server(server) => server.manifest(snapshot),
            Self::Bucket { publisher, ended } => going(ended, || publisher.manifest(snapshot)),
        }
    }

    fn piece(&self, snapshot: &Version, file: &FileEntry, range: Range<u64>) -> Result<Vec<u8>, FollowError> {
        match self {
            Self::Server(server) => server.piece(snapshot, file, range),
            Self::Bucket { publisher, ended } => going(ended, || publisher.piece(snapshot, file, range)),
        }
    }
}

/// Makes a request unless transfers shall end.
fn going<T>(
    ended: impl Fn() -> bool,
    request: impl FnOnce() -> Result<T, StoreError>,
) -> Result<T, FollowError> {
    if ended() { Err(FollowError::Ended) } else { Ok(request()?) }
}
