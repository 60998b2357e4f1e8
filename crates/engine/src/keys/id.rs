use crate::Database;

/// Who registered keys, as far as the bound for one client needs to know: a hash that is held in memory alone.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyOwner([u8; 32]);

impl KeyOwner {
    /// Whoever has this name.
    pub fn new(name: &[u8]) -> Self {
        Self(blake3::derive_key("spirea 2026 owner of evaluation keys", name))
    }
}

/// Keys under this hash, registered for one database: what they are called in memory and on disk.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct KeyId(pub [u8; 32]);

impl KeyId {
    /// What a database's keys with this hash are called.
    pub fn new(database: &Database, hash: &[u8; 32]) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("spirea 2026 evaluation keys of a database");
        hasher.update(hash).update(database.identity().name.as_bytes());
        Self(hasher.finalize().into())
    }
}
