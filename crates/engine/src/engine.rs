use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bytes::Bytes;

use crate::scheduler::{Load, Part, Scheduler, Ticket, Window};
use crate::{Database, EngineError, KeyRegistry, KeyUsage, LoadError};

/// Whether a database answers.
#[derive(Clone)]
pub enum State {
    /// It is being checked and loaded.
    Loading,
    /// It answers.
    Ready(Arc<Database>),
    /// It could not be loaded, and why.
    Failed(String),
}

/// A database by name, with its state.
#[derive(Clone)]
pub struct Status {
    /// Its name.
    pub name: String,
    /// The version it has or will have.
    pub version: [u8; 32],
    /// Whether it answers.
    pub state: State,
}

/// Databases by name, the keys of their clients, and the scheduler that answers for all of them.
pub struct Engine {
    databases: RwLock<BTreeMap<String, ([u8; 32], State)>>,
    keys: KeyRegistry,
    scheduler: Scheduler,
}

impl Engine {
    /// An engine without databases, in which at most `queue` requests wait (at least 1) while another is
    /// being answered.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn new(queue: usize, keys: KeyRegistry) -> std::io::Result<Self> {
        Ok(Self { databases: RwLock::default(), keys, scheduler: Scheduler::new(queue, Window::default())? })
    }

    /// Makes a database known that will be loaded.
    ///
    /// # Errors
    /// [`LoadError::DuplicateName`].
    pub fn announce(&self, name: &str, version: [u8; 32]) -> Result<(), LoadError> {
        match self.write().entry(name.into()) {
            Entry::Occupied(_) => Err(LoadError::DuplicateName(name.into())),
            Entry::Vacant(entry) => {
                entry.insert((version, State::Loading));
                Ok(())
            }
        }
    }

    /// Lets a database answer, in place of any of its name. Requests that the former one has accepted are
    /// still answered by it.
    pub fn publish(&self, database: Database) {
        let (name, version) = (database.identity().name.clone(), database.identity().version);
        self.write().insert(name, (version, State::Ready(Arc::new(database))));
    }

    /// Notes that an announced database could not be loaded.
    pub fn fail(&self, name: &str, cause: String) {
        if let Some((_, state)) = self.write().get_mut(name) {
            *state = State::Failed(cause);
        }
    }

    /// All databases, by name.
    pub fn statuses(&self) -> Vec<Status> {
        let status = |(name, (version, state)): (&String, &([u8; 32], State))| Status {
            name: name.clone(),
            version: *version,
            state: state.clone(),
        };
        self.read().iter().map(status).collect()
    }

    /// Whether there is a database of this name, in any state.
    pub fn knows(&self, name: &str) -> bool {
        self.read().contains_key(name)
    }

    /// The database of this name, if it answers.
    ///
    /// # Errors
    /// [`EngineError::UnknownDatabase`], [`EngineError::Loading`] or [`EngineError::Failed`].
    pub fn database(&self, name: &str) -> Result<Arc<Database>, EngineError> {
        match self.read().get(name) {
            None => Err(EngineError::UnknownDatabase),
            Some((_, State::Loading)) => Err(EngineError::Loading),
            Some((_, State::Failed(_))) => Err(EngineError::Failed),
            Some((_, State::Ready(database))) => Ok(Arc::clone(database)),
        }
    }

    /// Registers a client's evaluation keys for a database; gives the hash that its requests name them by.
    /// Prepares them on the calling thread, unless they are there already.
    ///
    /// # Errors
    /// Those of [`Engine::database`]; [`EngineError::Malformed`] or [`EngineError::Protocol`] if the bytes
    /// are no keys for the database; [`EngineError::NoRoomForKeys`].
    pub fn register_keys(&self, name: &str, bytes: &[u8]) -> Result<[u8; 32], EngineError> {
        let database = self.database(name)?;
        self.keys.register(&database, bytes)
    }

    /// Admits the queries of one request as one batch, with their client's keys. Dropping the ticket gives
    /// its place up. Keys that are not in memory are read and prepared on the calling thread.
    ///
    /// # Errors
    /// Those of [`Engine::database`]; [`EngineError::Stale`] if the queries were made for another version;
    /// [`EngineError::Malformed`] if they are not as many or as long as the parameters say, or name keys
    /// that nobody needs; [`EngineError::UnknownKeys`]; [`EngineError::Overloaded`] if the queue is full.
    /// No query has been computed then.
    pub fn submit(
        &self,
        name: &str,
        version: &[u8; 32],
        keys: Option<[u8; 32]>,
        queries: Vec<Bytes>,
    ) -> Result<Ticket, EngineError> {
        let database = self.database(name)?;
        database.admit(version, &queries)?;
        let keys = match (database.sizes().keys_bytes, keys) {
            (0, None) => None,
            (0, Some(_)) => {
                return Err(EngineError::Malformed("keys for a protocol that needs none".into()));
            }
            (_, None) => return Err(EngineError::UnknownKeys),
            (_, Some(hash)) => Some(self.keys.get(&database, &hash)?),
        };
        self.scheduler.submit(vec![Part { database, keys, queries }])
    }

    /// The evaluation keys that are held.
    pub fn key_usage(&self) -> KeyUsage {
        self.keys.usage()
    }

    /// Requests waiting and being answered.
    pub fn load(&self) -> Load {
        self.scheduler.load()
    }

    // The map is never left half changed, so a panic elsewhere does not make it unfit.
    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<String, ([u8; 32], State)>> {
        self.databases.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<String, ([u8; 32], State)>> {
        self.databases.write().unwrap_or_else(PoisonError::into_inner)
    }
}
