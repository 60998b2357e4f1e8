use crate::Database;
use spirea_protocols::KeysHash;

/// Owner of keys, for the limit of one client: a hash that is held only in memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyOwner([u8; 32]);

impl KeyOwner {
    /// Returns the owner with this name.
    pub fn new(name: &[u8]) -> Self {
        Self(blake3::derive_key("spirea 2026 owner of evaluation keys", name))
    }
}

/// Identifier, in memory and on disk, of the keys with one hash registered for one database.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct KeyId(pub [u8; 32]);

impl KeyId {
    /// Returns the identifier of a database's keys with this hash.
    pub fn new(database: &Database, hash: &KeysHash) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("spirea 2026 evaluation keys of a database");
        hasher.update(hash.as_bytes()).update(database.identity().name.as_bytes());
        Self(hasher.finalize().into())
    }
}
