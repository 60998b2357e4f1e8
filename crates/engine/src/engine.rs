use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use spirea_backend::BackendId;
use spirea_protocols::{FileHash, KeysHash, PreparedKeys, Version};

use crate::scheduler::{DatabaseQueries, Load, Scheduler, Ticket, TraceContext, Window};
use crate::served::Versions;
use crate::{Database, EngineError, HintFile, KeyEvents, KeyOwner, KeyRegistry, KeyUsage, LoadError, Served};

/// State of a database.
#[derive(Clone)]
pub enum State {
    /// Being verified and loaded.
    Loading,
    /// Ready to answer, in these versions, newest first.
    Ready(Vec<Served>),
    /// Not loaded, for this reason.
    Failed(String),
}

/// A database by name, with its state.
#[derive(Clone)]
pub struct Status {
    /// Its name.
    pub name: String,
    /// Version that the database has or will have.
    pub version: Version,
    /// Its state.
    pub state: State,
    /// Reason why the expected version could not be loaded, while another version answers.
    pub refused: Option<String>,
}

/// The queries of a request to one part of a version, with the hash of its client's evaluation
/// keys.
#[derive(Clone)]
pub struct Asked {
    /// The keys, if the protocol needs them.
    pub keys: Option<KeysHash>,
    /// The queries.
    pub queries: Vec<Bytes>,
}

/// Entry of a database in the engine.
#[derive(Default)]
struct Known {
    expected: Version,
    versions: Versions,
    failure: Option<String>,
}

/// Databases by name, the keys of their clients, and the scheduler that answers for all of them.
pub struct Engine {
    databases: RwLock<BTreeMap<String, Known>>,
    keys: KeyRegistry,
    lanes: Lanes,
}

/// Schedulers of an engine.
enum Lanes {
    /// One scheduler, for databases computed on the same machine.
    Shared(Scheduler),
    /// One scheduler for each version, for databases computed by other machines, so that a version
    /// waiting for its machines does not delay other versions. `queue` is the number of requests
    /// that may wait in each.
    OfVersions { queue: usize },
}

impl Engine {
    /// Creates an engine without databases. At most `queue` requests (at least 1) wait while
    /// another is being answered.
    ///
    /// # Errors
    /// Fails if the system gives no thread.
    pub fn new(queue: usize, keys: KeyRegistry) -> std::io::Result<Self> {
        let lanes = Lanes::Shared(Scheduler::new(queue, Window::default())?);
        Ok(Self { databases: RwLock::default(), keys, lanes })
    }

    /// Creates an engine for databases that other machines compute. Each version has its own queue,
    /// in which at most `queue` requests wait, and computes as many batches at the same time as its
    /// base has [slots](Database::with_slots).
    pub fn of_remote(queue: usize, keys: KeyRegistry) -> Self {
        Self { databases: RwLock::default(), keys, lanes: Lanes::OfVersions { queue } }
    }

    /// Announces a database that will be loaded.
    ///
    /// # Errors
    /// [`LoadError::DuplicateName`] if the name is taken.
    pub fn announce(&self, name: &str, version: Version) -> Result<(), LoadError> {
        match self.write().entry(name.into()) {
            Entry::Occupied(_) => Err(LoadError::DuplicateName(name.into())),
            Entry::Vacant(entry) => {
                entry.insert(Known { expected: version, ..Known::default() });
                Ok(())
            }
        }
    }

    /// Sets the version that a database will have. Until that version is published, the other
    /// versions continue to answer.
    pub fn expect(&self, name: &str, version: Version) {
        self.write().entry(name.into()).or_default().expected = version;
    }

    /// Publishes a version as the newest of its database. If the same version already answers, it
    /// is replaced. The newest former versions continue to answer requests that name them, as long
    /// as all versions together have at most two bases. Accepted requests are answered even if
    /// their version is dropped.
    pub fn publish(&self, version: impl Into<Served>) {
        let served = version.into();
        let mut databases = self.write();
        let known = databases.entry(served.base().identity().name.clone()).or_default();
        known.expected = *served.version();
        known.failure = None;
        known.versions.push(served);
    }

    /// Sets the versions of a database that answer, newest first: at most
    /// [`MOST_VERSIONS`](crate::MOST_VERSIONS). Accepted requests are answered even if their
    /// version is dropped.
    pub fn serve_exactly(&self, name: &str, versions: Vec<Served>) {
        let mut databases = self.write();
        let known = databases.entry(name.into()).or_default();
        if let Some(newest) = versions.first() {
            known.expected = *newest.version();
            known.failure = None;
        }
        known.versions = Versions::exactly(versions);
    }

    /// Removes a database. Accepted requests are answered.
    pub fn forget(&self, name: &str) {
        self.write().remove(name);
    }

    /// Publishes an older version, as the oldest of those that answer, for requests that name it.
    pub fn publish_former(&self, served: Served) {
        let mut databases = self.write();
        databases.entry(served.base().identity().name.clone()).or_default().versions.push_former(served);
    }

    /// Replaces a database, in all versions that answer, by the same database in another form or on
    /// another backend.
    pub fn replace(&self, database: &Arc<Database>) {
        if let Some(known) = self.write().get_mut(&database.identity().name) {
            known.versions.replace(database);
        }
    }

    /// Notes that an announced database could not be loaded, or that a database can no longer
    /// answer.
    pub fn fail(&self, name: &str, cause: String) {
        if let Some(known) = self.write().get_mut(name) {
            known.versions = Versions::default();
            known.failure = Some(cause);
        }
    }

    /// Notes that the expected version could not be loaded; other versions continue to answer.
    pub fn refuse(&self, name: &str, cause: String) {
        if let Some(known) = self.write().get_mut(name) {
            known.failure = Some(cause);
        }
    }

    /// Returns the status of every database, ordered by name.
    pub fn statuses(&self) -> Vec<Status> {
        let status = |(name, known): (&String, &Known)| {
            let Known { expected, versions, failure } = known;
            let state = match (versions.all(), failure) {
                ([], None) => State::Loading,
                ([], Some(cause)) => State::Failed(cause.clone()),
                (versions, _) => State::Ready(versions.to_vec()),
            };
            let refused = failure.clone().filter(|_| !versions.all().is_empty());
            Status { name: name.clone(), version: *expected, state, refused }
        };
        self.read().iter().map(status).collect()
    }

    /// Returns true if there is a database of this name, in any state.
    pub fn knows(&self, name: &str) -> bool {
        self.read().contains_key(name)
    }

    /// Returns a version of a database, by default its newest.
    ///
    /// # Errors
    /// [`EngineError::UnknownDatabase`], [`EngineError::Loading`], [`EngineError::Failed`], or
    /// [`EngineError::Stale`] if only other versions answer.
    pub fn version(&self, name: &str, version: Option<&Version>) -> Result<Served, EngineError> {
        self.of(name, |versions| versions.find(version).cloned())
    }

    /// Returns the version that a request names.
    ///
    /// # Errors
    /// [`EngineError::NotYet`] if it is the [expected](Engine::expect) version, which does not
    /// answer yet; else those of [`Engine::version`].
    pub fn named(&self, name: &str, version: &Version) -> Result<Served, EngineError> {
        self.version(name, Some(version)).map_err(|error| match error {
            EngineError::Stale { .. } if self.awaited(name) == Some(*version) => EngineError::NotYet,
            error => error,
        })
    }

    /// Returns the [expected](Engine::expect) version of a database while it does not answer.
    pub fn awaited(&self, name: &str) -> Option<Version> {
        let databases = self.read();
        let Known { expected, versions, .. } = databases.get(name)?;
        versions.find(Some(expected)).is_none().then_some(*expected)
    }

    /// Returns all versions of a database that answer, newest first: at least one.
    ///
    /// # Errors
    /// [`EngineError::UnknownDatabase`], [`EngineError::Loading`] or [`EngineError::Failed`].
    pub fn versions(&self, name: &str) -> Result<Vec<Served>, EngineError> {
        self.of(name, |versions| Some(versions.all().to_vec()))
    }

    /// Returns the hint with this hash, of any version that answers; `None` if no version has it.
    ///
    /// # Errors
    /// [`EngineError::UnknownDatabase`], [`EngineError::Loading`] or [`EngineError::Failed`].
    pub fn hint(&self, name: &str, blake3: &FileHash) -> Result<Option<HintFile>, EngineError> {
        let versions = self.versions(name)?;
        let mut hints = versions.iter().flat_map(Served::parts).map(|part| &part.identity().hint);
        Ok(hints.find(|hint| hint.blake3 == *blake3).cloned())
    }

    /// Runs `find` on the versions of a database that answers.
    fn of<T>(&self, name: &str, find: impl FnOnce(&Versions) -> Option<T>) -> Result<T, EngineError> {
        let databases = self.read();
        let known = databases.get(name).ok_or(EngineError::UnknownDatabase)?;
        let Some(newest) = known.versions.find(None) else {
            return Err(if known.failure.is_some() { EngineError::Failed } else { EngineError::Loading });
        };
        find(&known.versions).ok_or(EngineError::Stale { current: *newest.version() })
    }

    /// Registers a client's evaluation keys for a part of a database; returns the hash by which its
    /// requests name them. The keys count against the owner's budget; keys without an owner count
    /// only against the budget of all keys. If the keys are not held yet, they are prepared on the
    /// calling thread.
    ///
    /// # Errors
    /// [`EngineError::Malformed`] or [`EngineError::Protocol`] if the bytes are not keys for the
    /// database; [`EngineError::NoRoomForKeys`].
    pub fn register_keys(
        &self,
        database: &Database,
        bytes: &[u8],
        owner: Option<KeyOwner>,
    ) -> Result<KeysHash, EngineError> {
        self.keys.register(database, bytes, owner)
    }

    /// Drops evaluation keys that have expired. Until then they take up room, though no query can
    /// use them.
    pub fn expire_keys(&self) {
        self.keys.expire();
    }

    /// Admits the queries of one request, to each part of a version, with their client's keys.
    /// Dropping the ticket gives up its place in the queue. Keys that are not in memory are read
    /// and prepared on the calling thread.
    ///
    /// # Errors
    /// [`EngineError::Malformed`] if the number or length of the queries differs from the
    /// parameters, or a request names keys that its protocol does not need;
    /// [`EngineError::UnknownKeys`]; [`EngineError::Overloaded`] if the queue is full;
    /// [`EngineError::NotYet`] if a part was [released](Database::asleep). In each case no query
    /// has been computed.
    pub fn submit(&self, version: &Served, asked: Vec<Asked>) -> Result<Ticket, EngineError> {
        self.submit_traced(version, asked, None)
    }

    /// Admits a request as [`Engine::submit`] does, with the trace to which its computation
    /// belongs.
    ///
    /// # Errors
    /// Errors of [`Engine::submit`].
    pub fn submit_traced(
        &self,
        version: &Served,
        asked: Vec<Asked>,
        trace: Option<TraceContext>,
    ) -> Result<Ticket, EngineError> {
        if !version.is_open() {
            return Err(EngineError::NotYet);
        }
        let databases: Vec<&Arc<Database>> = version.parts().collect();
        let count = asked.first().map_or(0, |part| part.queries.len());
        let most = version.max_batch();
        if asked.len() != databases.len() || asked.iter().any(|part| part.queries.len() != count) {
            let detail = "every part of the version is asked, and all as often";
            return Err(EngineError::Malformed(detail.into()));
        }
        if count == 0 || count > most {
            return Err(EngineError::Malformed(format!("1 to {most} look-ups, not {count}")));
        }
        let part = |(database, Asked { keys, queries }): (&Arc<Database>, Asked)| {
            database.admit(&queries)?;
            Ok(DatabaseQueries {
                keys: self.keys_of(database, keys)?,
                database: Arc::clone(database),
                queries,
            })
        };
        let parts = databases.into_iter().zip(asked).map(part).collect::<Result<_, EngineError>>()?;
        match &self.lanes {
            Lanes::Shared(scheduler) => scheduler.submit_traced(parts, trace),
            Lanes::OfVersions { queue } => {
                let base = Arc::clone(version.base());
                version.lane().submit(*queue, || Box::new(move || base.slots()), parts, trace)
            }
        }
    }

    /// Returns the keys that a request names, if its database needs any.
    fn keys_of(
        &self,
        database: &Database,
        hash: Option<KeysHash>,
    ) -> Result<Option<PreparedKeys>, EngineError> {
        match (database.sizes().keys_bytes, hash) {
            (0, None) => Ok(None),
            (0, Some(_)) => Err(EngineError::Malformed("keys for a protocol that needs none".into())),
            (_, None) => Err(EngineError::UnknownKeys),
            (_, Some(hash)) => self.keys.get(database, &hash).map(Some),
        }
    }

    /// Returns the amount of evaluation keys held.
    pub fn key_usage(&self) -> KeyUsage {
        self.keys.usage()
    }

    /// Returns the bytes of evaluation keys in memory prepared for these backends
    /// ([`Identity::backend`]).
    ///
    /// [`Identity::backend`]: crate::Identity::backend
    pub fn keys_prepared_for(&self, backends: &[BackendId]) -> u64 {
        self.keys.prepared_for(backends)
    }

    /// Returns the counts of events of evaluation keys.
    pub fn key_events(&self) -> KeyEvents {
        self.keys.events()
    }

    /// Returns the numbers of requests that wait and that are being answered. If each version has
    /// its own queue, only those of versions that answer count.
    pub fn load(&self) -> Load {
        match &self.lanes {
            Lanes::Shared(scheduler) => scheduler.load(),
            Lanes::OfVersions { .. } => {
                let databases = self.read();
                let versions = databases.values().flat_map(|known| known.versions.all());
                versions.map(Served::load).fold(Load::default(), |sum, load| Load {
                    waiting: sum.waiting + load.waiting,
                    running: sum.running + load.running,
                })
            }
        }
    }

    // No writer leaves the map half changed, so it is still valid after a panic elsewhere.
    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<String, Known>> {
        self.databases.read()
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<String, Known>> {
        self.databases.write()
    }
}
