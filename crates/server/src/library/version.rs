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
    /// Values that base and delta have together, if anybody has counted them.
    pub values: Option<u64>,
}

impl From<VersionRecord> for Version {
    fn from(VersionRecord { base, delta, values, signature, .. }: VersionRecord) -> Self {
        Self { base, delta, values, signature }
    }
}

impl Version {
    /// What clients name it by.
    pub fn name(&self) -> [u8; 32] {
        delta::version(self.base.version(), self.delta.as_ref().map(Snapshot::version))
    }

    /// Its base, and its delta if it has one.
    pub fn snapshots(&self) -> impl Iterator<Item = &Snapshot> {
        [&self.base].into_iter().chain(&self.delta)
    }
}
