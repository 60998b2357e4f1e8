//! Stub of the module for buckets, for builds without the feature.

use std::convert::Infallible;
use std::ops::Range;

use spirea_protocols::Version;

use super::copy::{Published, Publisher};
use crate::{FileEntry, StoreError};

/// A repository in a bucket. This type has no values, because the feature is off.
#[derive(Debug)]
pub struct BucketPublisher(Infallible);

impl BucketPublisher {
    /// Refuses an address.
    ///
    /// # Errors
    /// [`StoreError::BadOption`].
    pub fn new(_: &str) -> Result<Self, StoreError> {
        Err(StoreError::BadOption("this build reads no buckets: enable the feature object-store".into()))
    }
}

impl Publisher for BucketPublisher {
    type Error = StoreError;

    fn record(&self) -> Result<Option<Published>, StoreError> {
        match self.0 {}
    }

    fn manifest(&self, _: &Version) -> Result<Vec<u8>, StoreError> {
        match self.0 {}
    }

    fn piece(&self, _: &Version, _: &FileEntry, _: Range<u64>) -> Result<Vec<u8>, StoreError> {
        match self.0 {}
    }
}
