//! A version of a database as it lies on disk.

use spirea_protocols::delta;
use spirea_protocols::signature::Signature;
use spirea_store::{Snapshot, VersionRecord};

/// A version of a database on disk.
#[derive(Clone)]
pub(crate) struct Version {
    pub base: Snapshot,
    pub delta: Option<Snapshot>,
    pub signature: Option<Signature>,
    /// Number of values of base and delta together, if known.
    pub values: Option<u64>,
}

impl From<VersionRecord> for Version {
    fn from(VersionRecord { base, delta, values, signature, .. }: VersionRecord) -> Self {
        Self { base, delta, values, signature }
    }
}

impl Version {
    /// Returns the identifier by which clients name the version.
    pub fn name(&self) -> [u8; 32] {
        delta::version(self.base.version(), self.delta.as_ref().map(Snapshot::version))
    }

    /// Returns the base, then the delta if there is one.
    pub fn snapshots(&self) -> impl Iterator<Item = &Snapshot> {
        [&self.base].into_iter().chain(&self.delta)
    }
}
