use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;
use spirea_apple::EvaluationKey;
use spirea_engine::KeyOwner;
use spirea_engine::keys::{Amount, Budget, Lru};

use super::settings::AppleConfig;

/// Name of a key: a hash of the client's identifier, which the client chooses, and of the
/// identifier of the keys that the use case asks for. Because of the hash, the identifiers of
/// clients are not in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct KeyName([u8; 32]);

impl KeyName {
    pub fn new(user: &[u8], identifier: &[u8]) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("spirea 2026 evaluation key of an Apple client");
        hasher.update(&(user.len() as u64).to_le_bytes()).update(user).update(identifier);
        Self(hasher.finalize().into())
    }
}

struct Stored {
    key: Arc<EvaluationKey>,
    /// Time at which the client made the key, in seconds since 1970, as the client says.
    timestamp: u64,
}

/// Clients' evaluation keys in memory, within bounds. The least recently used keys are evicted
/// first.
pub(crate) struct Keys(Mutex<Lru<KeyName, Stored>>);

impl Keys {
    pub fn new(config: &AppleConfig) -> Self {
        let all = Amount { sets: usize::MAX, bytes: config.keys_memory };
        let owner = Amount { sets: config.client_keys, bytes: config.keys_memory / 2 };
        Self(Mutex::new(Lru::new(Budget { all, owner, expiry: config.key_life })))
    }

    /// Stores a key that `owner` sent, in place of any key of the same name. Returns false if the
    /// key alone is above the limit.
    pub fn insert(
        &self,
        name: KeyName,
        key: Arc<EvaluationKey>,
        timestamp: u64,
        owner: Option<KeyOwner>,
        now: SystemTime,
    ) -> bool {
        let bytes = key.memory_bytes() as u64;
        self.0.lock().insert(name, Stored { key, timestamp }, bytes, owner, now).is_some()
    }

    /// Returns a key with its timestamp, unless the key was evicted or has expired.
    pub fn get(&self, name: &KeyName, now: SystemTime) -> Option<(Arc<EvaluationKey>, u64)> {
        let mut keys = self.0.lock();
        keys.get(name, now).map(|stored| (Arc::clone(&stored.key), stored.timestamp))
    }

    /// Removes the keys that have expired.
    pub fn expire(&self, now: SystemTime) {
        self.0.lock().expire(now);
    }

    /// Returns the number and the bytes of the keys.
    pub fn amount(&self) -> Amount {
        self.0.lock().amount()
    }
}
