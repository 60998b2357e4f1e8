use bytes::Bytes;
use spirea_backend::{Backend as _, NaiveBackend, StoredFile};
use spirea_engine::{HintFile, Identity};
use spirea_math::random::Seed;
use spirea_protocols::registry::{Choice, ProtocolParams};
use spirea_protocols::table::CHECKSUM_BYTES;
use spirea_protocols::{TableKind, Version};

use crate::table;

/// Default version.
pub const VERSION: Version = Version::new([1; 32]);

/// Returns a protocol's parameters for ten records of 32 bytes.
pub fn params(protocol: &str) -> ProtocolParams {
    let choice = Choice { protocol: protocol.into(), ..Choice::default() };
    ProtocolParams::choose(&choice, Seed::new([0; 32]), 10, 32)
        .expect("every protocol takes ten records of 32 bytes")
}

/// Returns the identity of a database without files: its table is looked up by position.
pub fn identity(name: &str, version: Version, params: &ProtocolParams) -> Identity {
    Identity {
        name: name.into(),
        version,
        party: None,
        params: params.clone(),
        table: table(TableKind::Index, params.records(), params.record_bytes() - CHECKSUM_BYTES),
        hint: HintFile {
            file: StoredFile::at("none"),
            bytes: params.sizes.hint_bytes,
            blake3: blake3::hash(b"").into(),
            rows: StoredFile::at("none"),
            rows_bytes: 0,
        },
        manifest: Bytes::new(),
        backend: NaiveBackend.id(),
    }
}
