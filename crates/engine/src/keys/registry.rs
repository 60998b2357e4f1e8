use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use spirea_backend::BackendId;
use spirea_protocols::{KeysHash, PreparedKeys, ProtocolError};

use super::disk::{Disk, KeyFolderError};
use super::id::{KeyId, KeyOwner};
use super::lru::Lru;
use super::options::KeyOptions;
use super::usage::{KeyEvents, KeyUsage};
use crate::database::KeyForm;
use crate::{Database, EngineError};

/// Place where keys were found.
enum Found {
    Memory,
    Disk,
    Shared,
}

/// Store in which servers share what clients uploaded. It may fail at any time: then `fetch` soon
/// returns nothing and `store` stores nothing.
pub trait SharedKeys: Send + Sync {
    /// Reads the value stored under a name; if it has more than `most` bytes, only the first
    /// `most + 1`.
    fn fetch(&self, name: &[u8; 32], most: usize) -> Option<Vec<u8>>;

    /// Stores bytes under a name for the time `expiry`, if possible.
    fn store(&self, name: &[u8; 32], bytes: &[u8], expiry: Duration);
}

/// Clock for the expiry of keys.
pub type Clock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// Counts of look-ups of keys, by place.
#[derive(Default)]
struct Lookups {
    from_memory: AtomicU64,
    from_disk: AtomicU64,
    from_shared: AtomicU64,
    unknown: AtomicU64,
}

/// Registry of the keys of all databases.
pub struct KeyRegistry {
    /// Prepared keys, by the form they were prepared in: another version or another backend may
    /// need another form.
    memory: Mutex<Lru<(KeyForm, KeyId), PreparedKeys>>,
    disk: Option<Disk>,
    /// Lock held while keys are prepared and files are changed. Two requests therefore never do the
    /// same work, and only one set of keys at a time takes memory for its preparation.
    turn: Mutex<()>,
    clock: Clock,
    lookups: Lookups,
    shared: Option<Box<dyn SharedKeys>>,
    expiry: Duration,
}

impl Default for KeyRegistry {
    /// Holds keys in memory, with [`KeyOptions::default`].
    fn default() -> Self {
        Self::over(None, &KeyOptions::default(), system_clock())
    }
}

impl KeyRegistry {
    /// Opens a registry with the content of the folder.
    ///
    /// # Errors
    /// [`KeyFolderError`] if the folder cannot be used.
    pub fn open(options: &KeyOptions) -> Result<Self, KeyFolderError> {
        Self::with_clock(options, system_clock())
    }

    /// Opens a registry with another clock.
    ///
    /// # Errors
    /// [`KeyFolderError`] if the folder cannot be used.
    pub fn with_clock(options: &KeyOptions, clock: Clock) -> Result<Self, KeyFolderError> {
        let open = |folder: &PathBuf| Disk::open(folder, options.disk_budget(), clock());
        let disk = options.folder.as_ref().map(open).transpose()?;
        Ok(Self::over(disk, options, clock))
    }

    fn over(disk: Option<Disk>, options: &KeyOptions, clock: Clock) -> Self {
        let memory = Lru::new(options.memory_budget());
        Self {
            memory: Mutex::new(memory),
            disk,
            turn: Mutex::default(),
            clock,
            lookups: Lookups::default(),
            shared: None,
            expiry: options.expiry,
        }
    }

    /// Sets the store shared with other servers.
    pub fn with_shared(self, shared: Box<dyn SharedKeys>) -> Self {
        Self { shared: Some(shared), ..self }
    }

    /// Returns the amount of keys held.
    pub fn usage(&self) -> KeyUsage {
        let disk = self.disk.as_ref().map(Disk::amount).unwrap_or_default();
        KeyUsage { memory: self.memory.lock().amount(), disk }
    }

    /// Returns the bytes of keys prepared for these backends.
    pub fn prepared_for(&self, backends: &[BackendId]) -> u64 {
        self.memory.lock().bytes_of(|(form, _)| backends.contains(&form.backend()))
    }

    /// Returns the counts of events.
    pub fn events(&self) -> KeyEvents {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        KeyEvents {
            from_memory: count(&self.lookups.from_memory),
            from_disk: count(&self.lookups.from_disk),
            from_shared: count(&self.lookups.from_shared),
            unknown: count(&self.lookups.unknown),
            memory: self.memory.lock().departures(),
            disk: self.disk.as_ref().map(Disk::departures).unwrap_or_default(),
        }
    }

    /// Drops expired keys.
    pub fn expire(&self) {
        let _turn = self.turn.lock();
        let now = (self.clock)();
        // Bound to a variable, so that the keys are dropped after the lock is released.
        let _expired = self.memory.lock().expire(now);
        if let Some(disk) = &self.disk {
            disk.expire(now);
        }
    }

    /// Prepares and keeps a client's bytes; returns their hash.
    ///
    /// # Errors
    /// Errors of [`Engine::register_keys`](crate::Engine::register_keys).
    pub fn register(
        &self,
        database: &Database,
        bytes: &[u8],
        owner: Option<KeyOwner>,
    ) -> Result<KeysHash, EngineError> {
        let hash = blake3::hash(bytes).into();
        let id = KeyId::new(database, &hash);
        let kept = {
            let _turn = self.turn.lock();
            let now = (self.clock)();
            let held = self.recall(database, id, now).is_some() || {
                let keys = database.prepare_keys(bytes)?;
                self.hold(database, id, &keys, owner, now)
            };
            let stored = self.disk.as_ref().is_some_and(|disk| disk.write(id, bytes, owner, now));
            held || stored
        };
        if !kept {
            return Err(EngineError::NoRoomForKeys);
        }
        // Outside the turn, so that other requests never wait for a network.
        if let Some(shared) = &self.shared {
            shared.store(&id.0, bytes, self.expiry);
        }
        Ok(hash)
    }

    /// Returns the keys with this hash that were registered for the database.
    ///
    /// # Errors
    /// [`EngineError::UnknownKeys`]; if the keys are not in memory, also the errors of preparing
    /// them.
    pub fn get(&self, database: &Database, hash: &KeysHash) -> Result<PreparedKeys, EngineError> {
        let found = self.find(database, hash);
        let counter = match &found {
            Ok((_, Found::Memory)) => &self.lookups.from_memory,
            Ok((_, Found::Disk)) => &self.lookups.from_disk,
            Ok((_, Found::Shared)) => &self.lookups.from_shared,
            Err(_) => &self.lookups.unknown,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        found.map(|(keys, _)| keys)
    }

    fn find(&self, database: &Database, hash: &KeysHash) -> Result<(PreparedKeys, Found), EngineError> {
        let id = KeyId::new(database, hash);
        let now = (self.clock)();
        if let Some(keys) = self.recall(database, id, now) {
            return Ok((keys, Found::Memory));
        }
        let stored = self.disk.as_ref().filter(|disk| disk.contains(id, now));
        // Fetched before the turn is taken, so that other requests never wait for a network.
        let shared = if stored.is_none() { self.fetch(database, id, hash) } else { None };
        if stored.is_none() && shared.is_none() {
            return Err(EngineError::UnknownKeys);
        }
        let _turn = self.turn.lock();
        // Another request may have prepared the same keys in the meantime.
        if let Some(keys) = self.recall(database, id, now) {
            return Ok((keys, Found::Memory));
        }
        let from_disk =
            stored.and_then(|disk| Some((disk.read(id, hash, now)?, Found::Disk, disk.owner(id))));
        let found = from_disk.or_else(|| Some((shared?, Found::Shared, None)));
        let (bytes, place, owner) = found.ok_or(EngineError::UnknownKeys)?;
        let keys = database.prepare_keys(&bytes).map_err(|error| match error {
            // The keys fit another version of the database, or its other part.
            EngineError::Malformed(_) | EngineError::Protocol(ProtocolError::Malformed { .. }) => {
                EngineError::UnknownKeys
            }
            error => error,
        })?;
        self.hold(database, id, &keys, owner, now);
        if let (Found::Shared, Some(disk)) = (&place, &self.disk) {
            disk.write(id, &bytes, owner, now);
        }
        Ok((keys, place))
    }

    /// Returns the bytes that another server shared under a client's hash.
    fn fetch(&self, database: &Database, id: KeyId, hash: &KeysHash) -> Option<Vec<u8>> {
        let bytes = self.shared.as_ref()?.fetch(&id.0, database.sizes().keys_bytes)?;
        let right = KeysHash::from(blake3::hash(&bytes)) == *hash;
        if !right {
            tracing::warn!("shared keys were damaged and are not used");
        }
        right.then_some(bytes)
    }

    /// Returns prepared keys if they are in memory.
    fn recall(&self, database: &Database, id: KeyId, now: SystemTime) -> Option<PreparedKeys> {
        let keys = self.memory.lock().get(&(database.key_form(), id), now).cloned()?;
        if let Some(disk) = &self.disk {
            disk.touch(id, now);
        }
        Some(keys)
    }

    /// Puts prepared keys into memory; returns false if they exceed the budget.
    fn hold(
        &self,
        database: &Database,
        id: KeyId,
        keys: &PreparedKeys,
        owner: Option<KeyOwner>,
        now: SystemTime,
    ) -> bool {
        let key = (database.key_form(), id);
        let evicted = self.memory.lock().insert(key, keys.clone(), keys.memory_bytes() as u64, owner, now);
        // The evicted keys are dropped here, after the lock is released.
        evicted.is_some()
    }
}

fn system_clock() -> Clock {
    Arc::new(SystemTime::now)
}
