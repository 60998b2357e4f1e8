//! The link between a configuration and its version: the manifests of the parts, whose hashes
//! define the version.
//!
//! A signature covers a version only. Without the manifests, a server could present a signed
//! version beside its own table, parameters or hint.

use serde::Deserialize;
use spirea_protocols::registry::ProtocolParams;
use spirea_protocols::{FileHash, Table, Version};

/// The members of a snapshot's manifest that a client compares with the configuration.
#[derive(Deserialize)]
pub(crate) struct Manifest {
    name: String,
    #[serde(default)]
    delta_of: Option<Version>,
    table: Table,
    protocol: ProtocolParams,
    hint: HintEntry,
}

#[derive(Deserialize)]
struct HintEntry {
    bytes: u64,
    blake3: FileHash,
}

impl Manifest {
    /// Returns true if this is the manifest of this part of the dataset `name`: of the base, or of
    /// a delta of the base `delta_of`.
    pub(crate) fn is_of(
        &self,
        name: &str,
        delta_of: Option<Version>,
        (table, params): (&Table, &ProtocolParams),
        (hint_bytes, hint_blake3): (u64, &FileHash),
    ) -> bool {
        self.name == name
            && self.delta_of == delta_of
            && self.table == *table
            && self.protocol == *params
            && self.hint.bytes == hint_bytes
            && self.hint.blake3 == *hint_blake3
    }
}
