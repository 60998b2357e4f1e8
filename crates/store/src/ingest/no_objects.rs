//! Stub of the module for objects, for builds without the feature.

use std::convert::Infallible;
use std::io::{self, Empty};
use std::path::PathBuf;

use crate::StoreError;

/// An object. This type has no values, because the feature is off.
#[derive(Clone, Debug)]
pub(super) struct Object(Infallible);

impl Object {
    pub fn name(&self) -> PathBuf {
        match self.0 {}
    }

    pub fn key(&self) -> &str {
        match self.0 {}
    }

    pub fn bytes(&self) -> u64 {
        match self.0 {}
    }

    pub fn open(&self) -> io::Result<(Empty, u64)> {
        match self.0 {}
    }
}

/// Refuses an address.
///
/// # Errors
/// [`StoreError::BadOption`].
pub(super) fn find(_: &str) -> Result<Vec<Object>, StoreError> {
    Err(StoreError::BadOption("this build reads no addresses: enable the feature object-store".into()))
}
