//! The files of a version of a database.

use spirea_protocols::signature::Signature;
use spirea_protocols::{Version, delta};
use spirea_store::{Snapshot, VersionRecord};

/// Files of a version of a database.
#[derive(Clone)]
pub(crate) struct VersionFiles {
    pub base: Snapshot,
    pub delta: Option<Snapshot>,
    pub signature: Option<Signature>,
    /// Number of values of base and delta together, if known.
    pub values: Option<u64>,
}

impl From<VersionRecord> for VersionFiles {
    fn from(VersionRecord { base, delta, values, signature, .. }: VersionRecord) -> Self {
        Self { base, delta, values, signature }
    }
}

impl VersionFiles {
    /// Returns the name of the version.
    pub fn version(&self) -> Version {
        delta::version(self.base.version(), self.delta.as_ref().map(Snapshot::version))
    }

    /// Returns the base, then the delta if there is one.
    pub fn snapshots(&self) -> impl Iterator<Item = &Snapshot> {
        [&self.base].into_iter().chain(&self.delta)
    }
}
