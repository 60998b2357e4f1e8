//! The source of the versions that this server follows.

use std::ops::Range;

use spirea_protocols::Version;
use spirea_store::repository::{BucketPublisher, Published, Publisher};
use spirea_store::{FileEntry, StoreError};
use ureq::http::HeaderValue;

use super::http::HttpPublisher;
use super::{Follow, FollowError, Look};

/// Another server, or a bucket.
pub(crate) enum Origin<'b, E> {
    Server(Box<HttpPublisher<E>>),
    Bucket {
        publisher: &'b BucketPublisher,
        /// Returns true once transfers shall end.
        ended: E,
    },
}

impl<'b, E: Fn() -> bool> Origin<'b, E> {
    /// Prepares requests for the database `name`; `bucket` is its repository if a bucket is
    /// followed. Transfers fail once `ended` returns true.
    ///
    /// # Errors
    /// [`FollowError::Settings`] and [`FollowError::Token`].
    pub fn new(
        follow: &Follow,
        name: &str,
        bucket: Option<&'b BucketPublisher>,
        look: Look,
        ended: E,
    ) -> Result<Self, FollowError> {
        Ok(match bucket {
            Some(publisher) => Self::Bucket { publisher, ended },
            None => Self::Server(Box::new(HttpPublisher::new(follow, name, look, ended)?)),
        })
    }

    /// Returns the entity tag of the state that the latest look saw; `None` if it has none.
    pub fn tag(&self) -> Option<HeaderValue> {
        match self {
            Self::Server(server) => server.tag(),
            Self::Bucket { .. } => None,
        }
    }

    /// Waits until the state has another tag, or for some time. Returns false if there was no
    /// waiting.
    ///
    /// # Errors
    /// Those of [`Publisher::record`].
    pub fn wait(&self, tag: &HeaderValue) -> Result<bool, FollowError> {
        match self {
            Self::Server(server) => server.wait(tag),
            Self::Bucket { .. } => Ok(false),
        }
    }
}

impl<E: Fn() -> bool> Publisher for Origin<'_, E> {
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
