//! Clients' evaluation keys: registered once, named by their hash, held within bounds.
//!
//! Keys are prepared for the database that they were registered for and held in memory in that form. Where
//! there is a folder, the client's bytes are on disk too, and survive a restart. Memory and disk are bounded
//! each, and the least recently used keys leave first; a client has a part of each, and one that fills its part
//! displaces its own keys. Keys that nobody has used for long expire. Keys that have left memory alone are prepared
//! again when a query names them; keys that have left both are unknown, and their client uploads them again.
//! Servers of the same databases may share what clients uploaded: [`SharedKeys`].

mod disk;
mod lru;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use spirea_backend::BackendId;
use spirea_protocols::{PreparedKeys, ProtocolError};

use self::disk::Disk;
pub use self::lru::Amount;
use self::lru::{Budget, Lru};
use crate::database::KeyForm;
use crate::{Database, EngineError};

/// Where keys are held, how many, and for how long.
#[derive(Clone, Debug)]
pub struct KeyOptions {
    /// The most bytes of prepared keys in memory.
    pub memory_bytes: u64,
    /// The folder for clients' bytes; without one, a restart forgets all keys.
    pub folder: Option<PathBuf>,
    /// The most that the folder holds.
    pub disk: Amount,
    /// One client's part of all that; a single set of keys is always within it.
    pub client: ClientPart,
    /// How long keys are held that nobody uses.
    pub expiry: Duration,
}

/// One client's part of the budgets: where there is no number, half of the whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientPart {
    /// Sets of keys, in memory and in the folder each.
    pub sets: Option<usize>,
    /// Bytes of prepared keys in memory.
    pub memory_bytes: Option<u64>,
    /// Bytes in the folder.
    pub disk_bytes: Option<u64>,
}

impl Default for KeyOptions {
    /// 1 GiB of memory and no folder; in a folder 16 GiB or 65,536 sets; half of each for one client; 30 days.
    fn default() -> Self {
        Self {
            memory_bytes: 1 << 30,
            folder: None,
            disk: Amount { sets: 1 << 16, bytes: 16 << 30 },
            client: ClientPart::default(),
            expiry: Duration::from_secs(30 * 24 * 60 * 60),
        }
    }
}

impl KeyOptions {
    fn memory_budget(&self) -> Budget {
        let all = Amount { sets: usize::MAX, bytes: self.memory_bytes };
        self.budget(all, self.client.memory_bytes)
    }

    fn disk_budget(&self) -> Budget {
        self.budget(self.disk, self.client.disk_bytes)
    }

    fn budget(&self, all: Amount, bytes: Option<u64>) -> Budget {
        let owner = Amount {
            sets: self.client.sets.unwrap_or(self.disk.sets / 2),
            bytes: bytes.unwrap_or(all.bytes / 2),
        };
        Budget { all, owner, expiry: self.expiry }
    }
}

/// Who registered keys, as far as the bound for one client needs to know: a hash that is held in memory alone.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyOwner([u8; 32]);

impl KeyOwner {
    /// Whoever has this name.
    pub fn new(name: &[u8]) -> Self {
        Self(blake3::derive_key("spirea 2026 owner of evaluation keys", name))
    }
}

/// Where keys were found.
enum Found {
    Memory,
    Disk,
    Shared,
}

/// Where servers share what clients uploaded. It may fail at any time, and then has and takes nothing, soon.
pub trait SharedKeys: Send + Sync {
    /// What was stored under a name: as much of it as is longer than `most` bytes by one at the most.
    fn fetch(&self, name: &[u8; 32], most: usize) -> Option<Vec<u8>>;

    /// Stores bytes under a name for so long, if it can.
    fn store(&self, name: &[u8; 32], bytes: &[u8], expiry: Duration);
}

/// The time, by which keys expire.
pub type Clock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// What is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyUsage {
    /// Prepared, in memory.
    pub memory: Amount,
    /// As bytes, on disk.
    pub disk: Amount,
}

/// What has happened to keys since the registry was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyEvents {
    /// Requests whose keys were in memory.
    pub from_memory: u64,
    /// Requests whose keys were prepared from the folder.
    pub from_disk: u64,
    /// Requests whose keys another server had shared.
    pub from_shared: u64,
    /// Requests whose keys were nowhere.
    pub unknown: u64,
    /// What left memory.
    pub memory: Departures,
    /// What left the folder.
    pub disk: Departures,
}

/// Why keys have left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Departures {
    /// Sets that made room for others.
    pub evicted: u64,
    /// Sets that nobody used for so long that they expired.
    pub expired: u64,
}

/// How requests found their keys.
#[derive(Default)]
struct Lookups {
    from_memory: AtomicU64,
    from_disk: AtomicU64,
    from_shared: AtomicU64,
    unknown: AtomicU64,
}

/// The folder for keys cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{path}: the folder for evaluation keys cannot be used: {source}; name another one", path = .path.display())]
pub struct KeyFolderError {
    /// The folder.
    pub path: PathBuf,
    /// What the system said.
    pub source: std::io::Error,
}

/// Keys under this hash, registered for one database: what they are called in memory and on disk.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct KeyId([u8; 32]);

impl KeyId {
    fn new(database: &Database, hash: &[u8; 32]) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("spirea 2026 evaluation keys of a database");
        hasher.update(hash).update(database.identity().name.as_bytes());
        Self(hasher.finalize().into())
    }
}

/// The keys of all databases.
pub struct KeyRegistry {
    /// By the form that they were prepared in: another version, or another backend, may need another one.
    memory: Mutex<Lru<(KeyForm, KeyId), PreparedKeys>>,
    disk: Option<Disk>,
    /// Held while keys are prepared and files are changed, so that two requests never do the same work, and
    /// what one computation takes is taken once.
    turn: Mutex<()>,
    clock: Clock,
    lookups: Lookups,
    shared: Option<Box<dyn SharedKeys>>,
    expiry: Duration,
}

impl Default for KeyRegistry {
    /// In memory, as [`KeyOptions::default`] says.
    fn default() -> Self {
        Self::over(None, &KeyOptions::default(), system_clock())
    }
}

impl KeyRegistry {
    /// A registry with what the folder holds.
    ///
    /// # Errors
    /// [`KeyFolderError`].
    pub fn open(options: &KeyOptions) -> Result<Self, KeyFolderError> {
        Self::with_clock(options, system_clock())
    }

    /// The same by another clock.
    ///
    /// # Errors
    /// [`KeyFolderError`].
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

    /// The same, with what it shares with other servers.
    pub fn with_shared(self, shared: Box<dyn SharedKeys>) -> Self {
        Self { shared: Some(shared), ..self }
    }

    /// What it holds.
    pub fn usage(&self) -> KeyUsage {
        let disk = self.disk.as_ref().map(Disk::amount).unwrap_or_default();
        KeyUsage { memory: lock(&self.memory).amount(), disk }
    }

    /// Bytes of what is prepared for some of the backends.
    pub(crate) fn prepared_for(&self, backends: &[BackendId]) -> u64 {
        lock(&self.memory).bytes_of(|(form, _)| backends.contains(&form.backend()))
    }

    /// What has happened.
    pub fn events(&self) -> KeyEvents {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        KeyEvents {
            from_memory: count(&self.lookups.from_memory),
            from_disk: count(&self.lookups.from_disk),
            from_shared: count(&self.lookups.from_shared),
            unknown: count(&self.lookups.unknown),
            memory: lock(&self.memory).departures(),
            disk: self.disk.as_ref().map(Disk::departures).unwrap_or_default(),
        }
    }

    /// Drops what has expired.
    pub(crate) fn expire(&self) {
        let _turn = lock(&self.turn);
        let now = (self.clock)();
        // They are dropped here, after the lock.
        let _expired = lock(&self.memory).expire(now);
        if let Some(disk) = &self.disk {
            disk.expire(now);
        }
    }

    /// Prepares and keeps a client's bytes; gives their hash.
    pub(crate) fn register(
        &self,
        database: &Database,
        bytes: &[u8],
        owner: Option<KeyOwner>,
    ) -> Result<[u8; 32], EngineError> {
        let hash = blake3::hash(bytes).into();
        let id = KeyId::new(database, &hash);
        let kept = {
            let _turn = lock(&self.turn);
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
        // Others wait for the turn, not for a network.
        if let Some(shared) = &self.shared {
            shared.store(&id.0, bytes, self.expiry);
        }
        Ok(hash)
    }

    /// The keys with this hash that were registered for the database.
    pub(crate) fn get(&self, database: &Database, hash: &[u8; 32]) -> Result<PreparedKeys, EngineError> {
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

    fn find(&self, database: &Database, hash: &[u8; 32]) -> Result<(PreparedKeys, Found), EngineError> {
        let id = KeyId::new(database, hash);
        let now = (self.clock)();
        if let Some(keys) = self.recall(database, id, now) {
            return Ok((keys, Found::Memory));
        }
        let stored = self.disk.as_ref().filter(|disk| disk.contains(id, now));
        // Asked before the turn is taken: others wait for the turn, not for a network.
        let shared = if stored.is_none() { self.fetch(database, id, hash) } else { None };
        if stored.is_none() && shared.is_none() {
            return Err(EngineError::UnknownKeys);
        }
        let _turn = lock(&self.turn);
        // Another request may have had the same need.
        if let Some(keys) = self.recall(database, id, now) {
            return Ok((keys, Found::Memory));
        }
        let from_disk =
            stored.and_then(|disk| Some((disk.read(id, hash, now)?, Found::Disk, disk.owner(id))));
        let found = from_disk.or_else(|| Some((shared?, Found::Shared, None)));
        let (bytes, place, owner) = found.ok_or(EngineError::UnknownKeys)?;
        let keys = database.prepare_keys(&bytes).map_err(|error| match error {
            // They fit another version of the database, or its other part.
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

    /// What another server shared under a client's hash.
    fn fetch(&self, database: &Database, id: KeyId, hash: &[u8; 32]) -> Option<Vec<u8>> {
        let bytes = self.shared.as_ref()?.fetch(&id.0, database.sizes().keys_bytes)?;
        let right = blake3::hash(&bytes) == *hash;
        if !right {
            tracing::warn!("shared keys were damaged and are not used");
        }
        right.then_some(bytes)
    }

    /// Prepared keys, if they are in memory.
    fn recall(&self, database: &Database, id: KeyId, now: SystemTime) -> Option<PreparedKeys> {
        let keys = lock(&self.memory).get(&(database.key_form(), id), now).cloned()?;
        if let Some(disk) = &self.disk {
            disk.touch(id, now);
        }
        Some(keys)
    }

    /// Takes prepared keys into memory; gives whether there is room for them at all.
    fn hold(
        &self,
        database: &Database,
        id: KeyId,
        keys: &PreparedKeys,
        owner: Option<KeyOwner>,
        now: SystemTime,
    ) -> bool {
        let key = (database.key_form(), id);
        let evicted = lock(&self.memory).insert(key, keys.clone(), keys.memory_bytes() as u64, owner, now);
        // They are dropped here, after the lock.
        evicted.is_some()
    }
}

fn system_clock() -> Clock {
    Arc::new(SystemTime::now)
}

// No lock is held while foreign code runs but the turn, which guards no data: a panic leaves all of it fit.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
