//! The databases of a server: where their versions come from, and how new ones come to answer.
//!
//! A database is served from a snapshot's folder, and then stays as it is; or from a repository, and then publishers
//! give it new versions while it answers. A version is on disk before it answers, and answers before its publisher is
//! told.

mod loader;
mod receive;
mod signer;

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};

use serde::Serialize;
use spirea_engine::{Database, Engine, LoadError, MOST_VERSIONS, Served};
use spirea_protocols::signature::Signature;
use spirea_protocols::{Table, delta};
use spirea_store::repository::Settings;
use spirea_store::{Changes, Repository, Silent, Snapshot, StoreError, VersionRecord};

pub(crate) use self::loader::Loader;
pub(crate) use self::receive::ReceiveError;
use self::receive::receive;
pub use self::signer::SignerError;
use self::signer::signer_of;

/// A delta that takes more than this share of its base's bytes is compacted, and none below [`LEAST_COMPACTED`].
const COMPACTED_SHARE: u64 = 8;
const LEAST_COMPACTED: u64 = 4 << 20;

/// Why a version could not be published.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PublishError {
    /// There is no database of this name.
    #[error("there is no database of this name")]
    UnknownDatabase,
    /// The database is served from a snapshot's folder.
    #[error("this database is served from a snapshot's folder, and stays as it is")]
    Fixed,
    /// There is nothing to change.
    #[error("nothing has been published yet")]
    NothingYet,
    /// The repository refused.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The upload is no snapshot.
    #[error(transparent)]
    Receive(#[from] ReceiveError),
    /// The version is on disk and correct, but could not be loaded; the former one answers.
    #[error("the version could not be loaded, and the former one is current again: {0}")]
    Load(String),
}

/// Why a folder cannot be served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    /// It is damaged, or another process has it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What would be published there cannot be signed.
    #[error(transparent)]
    Signer(#[from] SignerError),
}

/// Where a database's versions come from.
pub(crate) enum Source {
    /// Always this one.
    Snapshot(Box<Version>),
    /// Those of a repository.
    Repository(Box<Repository>),
}

impl Source {
    /// The source in a folder: a snapshot, or else a repository, which may be empty. What is published there is
    /// signed by the key in a file, if there is one.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(folder: &Path, signing_key: Option<&Path>) -> Result<Self, OpenError> {
        if !Repository::is_one(folder) {
            let base = Snapshot::open(folder)?;
            let signature = base.signature()?;
            return Ok(Self::Snapshot(Box::new(Version { base, delta: None, signature })));
        }
        let key = signing_key.map(|file| signer_of(file, folder)).transpose()?;
        // As many as the engine keeps.
        let settings = Settings { kept: MOST_VERSIONS, key, ..Settings::default() };
        Ok(Self::Repository(Box::new(Repository::open(folder, settings)?)))
    }

    /// Looks whether a folder can be opened so, without taking it: a server may have it.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn check(folder: &Path, signing_key: Option<&Path>) -> Result<(), OpenError> {
        if !Repository::is_one(folder) {
            Snapshot::open(folder)?;
            return Ok(());
        }
        Repository::list(folder)?;
        signing_key.map(|file| signer_of(file, folder)).transpose()?;
        Ok(())
    }

    /// The database's name: a repository without a version has its folder's.
    pub fn name(&self) -> String {
        match self {
            Self::Snapshot(version) => version.base.manifest().name.clone(),
            Self::Repository(repository) => repository.current().map_or_else(
                || repository.folder().file_name().unwrap_or_default().to_string_lossy().into_owned(),
                |current| current.name().to_owned(),
            ),
        }
    }

    /// What answers, newest first.
    pub fn versions(&self) -> Vec<Version> {
        match self {
            Self::Snapshot(version) => vec![Version::clone(version)],
            Self::Repository(repository) => repository.versions().into_iter().map(Version::from).collect(),
        }
    }
}

/// A version of a database on disk.
#[derive(Clone)]
pub(crate) struct Version {
    pub base: Snapshot,
    pub delta: Option<Snapshot>,
    pub signature: Option<Signature>,
}

impl From<VersionRecord> for Version {
    fn from(VersionRecord { base, delta, signature, .. }: VersionRecord) -> Self {
        Self { base, delta, signature }
    }
}

impl Version {
    /// What clients name it by.
    pub fn name(&self) -> [u8; 32] {
        delta::version(self.base.version(), self.delta.as_ref().map(Snapshot::version))
    }

    fn snapshots(&self) -> impl Iterator<Item = &Snapshot> {
        [&self.base].into_iter().chain(&self.delta)
    }
}

/// A database of the server.
struct Entry {
    source: Source,
    /// Held while its current version is made to answer, so that versions come to answer in the order in which they
    /// became current.
    turn: Mutex<()>,
}

impl Entry {
    fn turn(&self) -> MutexGuard<'_, ()> {
        // It guards no data.
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The databases of a server.
pub(crate) struct Library {
    engine: Arc<Engine>,
    loader: Loader,
    entries: BTreeMap<String, Entry>,
}

/// A version that answers.
#[derive(Debug, Serialize)]
pub(crate) struct Published {
    /// What clients name it by.
    #[serde(with = "spirea_protocols::hex")]
    pub version: [u8; 32],
    /// Rises with every version that becomes current.
    pub sequence: u64,
    /// Changes since its base was built.
    pub changes: u64,
}

impl From<&VersionRecord> for Published {
    fn from(record: &VersionRecord) -> Self {
        let changes = record.delta.as_ref().map_or(0, |delta| delta.manifest().table.entries);
        Self { version: record.version, sequence: record.sequence, changes }
    }
}

impl Library {
    /// The databases of sources, each announced to the engine.
    ///
    /// # Errors
    /// [`LoadError::DuplicateName`].
    pub fn new(engine: Arc<Engine>, loader: Loader, sources: Vec<Source>) -> Result<Self, LoadError> {
        let mut entries = BTreeMap::new();
        for source in sources {
            let (name, current) = (source.name(), source.versions().into_iter().next());
            engine.announce(&name, current.map_or([0; 32], |version| version.name()))?;
            entries.insert(name, Entry { source, turn: Mutex::default() });
        }
        Ok(Self { engine, loader, entries })
    }

    /// Loads all databases, then waits for a GPU to fail, and answers on the processor then. Ends when the server has.
    pub fn run(self: Arc<Self>, losses: &mpsc::Receiver<String>) {
        for (name, entry) in &self.entries {
            match self.load(name, entry) {
                Ok(()) => (),
                Err(cause) => self.engine.fail(name, cause),
            }
        }
        for (name, entry) in &self.entries {
            self.settle(name, entry);
        }
        let library = Arc::downgrade(&self);
        drop(self);
        while let Ok(reason) = losses.recv() {
            let Some(library) = library.upgrade() else { return };
            library.leave_gpus(&reason);
        }
    }

    /// Verifies and loads the current version.
    fn load(&self, name: &str, entry: &Entry) -> Result<(), String> {
        let _turn = entry.turn();
        let Some(version) = entry.source.versions().into_iter().next() else {
            return Err("nothing has been published yet".into());
        };
        let served = self.open(name, &version, |loader, snapshot| {
            verify(snapshot)?;
            loader.open_soon(snapshot)
        })?;
        self.engine.publish(served);
        Ok(())
    }

    /// Opens what was opened soon as it is to be held, and then the former versions that are kept. What cannot be is
    /// in the log; the current version answers whatever comes of it.
    fn settle(&self, name: &str, entry: &Entry) {
        let versions = entry.source.versions();
        if let Some(current) = versions.first() {
            self.hold(name, &current.base);
        }
        for version in versions.iter().skip(1) {
            let served = self.open(name, version, |loader, snapshot| {
                verify(snapshot)?;
                loader.open(snapshot)
            });
            if let Ok(served) = served {
                self.engine.publish_former(served);
            }
        }
    }

    /// Opens a base that answers from its file as it is to be held.
    fn hold(&self, name: &str, base: &Snapshot) {
        let answers = |served: &Served| served.base().identity().version == base.version();
        let answering = self.engine.versions(name).is_ok_and(|versions| versions.iter().any(answers));
        if answering
            && self.loader.opens_twice(base)
            && let Ok(database) = self.loader.open(base)
        {
            self.engine.replace(&database);
        }
    }

    /// A version, of databases that answer already where there are some.
    fn open(
        &self,
        name: &str,
        version: &Version,
        open: impl Fn(&Loader, &Snapshot) -> Result<Arc<Database>, String>,
    ) -> Result<Served, String> {
        let answering = self.engine.versions(name).unwrap_or_default();
        let database = |snapshot: &Snapshot| {
            let known = answering
                .iter()
                .flat_map(Served::parts)
                .find(|part| part.identity().version == snapshot.version());
            known.map_or_else(|| open(&self.loader, snapshot), |known| Ok(Arc::clone(known)))
        };
        let base = database(&version.base)?;
        let delta = version.delta.as_ref().map(database).transpose()?;
        let served = Served::new(base, delta).map_err(|error| error.to_string())?;
        Ok(served.signed(version.signature.clone()))
    }

    /// Opens on the processor what was on GPUs, of which one failed.
    fn leave_gpus(&self, reason: &str) {
        if !self.loader.on_gpus() {
            return;
        }
        tracing::error!(%reason, "a GPU failed");
        let can_go_on = self.loader.lose_gpus();
        for (name, entry) in &self.entries {
            let _turn = entry.turn();
            let reopened = match can_go_on {
                true => self.reopen(name, entry),
                false => Err(format!("its GPU failed ({reason}); start the server again")),
            };
            if let Err(cause) = reopened {
                self.engine.fail(name, cause);
            }
        }
    }

    /// Opens all parts of the versions that answer again.
    fn reopen(&self, name: &str, entry: &Entry) -> Result<(), String> {
        let answering = self.engine.versions(name).unwrap_or_default();
        let versions = entry.source.versions();
        for part in answering.iter().flat_map(Served::parts) {
            let mut snapshots = versions.iter().flat_map(Version::snapshots);
            let snapshot = snapshots.find(|snapshot| snapshot.version() == part.identity().version);
            // One that is no longer on disk answers no more.
            if let Some(snapshot) = snapshot {
                self.engine.replace(&self.loader.open(snapshot)?);
            }
        }
        Ok(())
    }

    fn entry(&self, name: &str) -> Result<(&Entry, &Repository), PublishError> {
        let entry = self.entries.get(name).ok_or(PublishError::UnknownDatabase)?;
        match &entry.source {
            Source::Snapshot(_) => Err(PublishError::Fixed),
            Source::Repository(repository) => Ok((entry, repository)),
        }
    }

    /// The versions that are kept, newest first.
    ///
    /// # Errors
    /// [`PublishError::UnknownDatabase`], [`PublishError::Fixed`].
    pub fn versions(&self, name: &str) -> Result<Vec<Published>, PublishError> {
        let (_, repository) = self.entry(name)?;
        Ok(repository.versions().iter().map(Published::from).collect())
    }

    /// The table of the current base, which changes are read for; none if nothing has been published.
    ///
    /// # Errors
    /// [`PublishError::UnknownDatabase`], [`PublishError::Fixed`].
    pub fn table(&self, name: &str) -> Result<Option<Table>, PublishError> {
        let (_, repository) = self.entry(name)?;
        Ok(repository.current().map(|current| current.base.manifest().table.clone()))
    }

    /// Takes changes in, as lines of JSON. When this returns they are on the disk and answer.
    ///
    /// # Errors
    /// See [`PublishError`]. Nothing has changed then.
    pub fn change(self: &Arc<Self>, name: &str, lines: impl Read) -> Result<Published, PublishError> {
        let (entry, repository) = self.entry(name)?;
        let current = repository.current().ok_or(PublishError::NothingYet)?;
        let changes = Changes::read_lines(&current.base.manifest().table, lines, Path::new("changes"));
        // What cannot be read is the sender's.
        let changes = changes.map_err(|error| match error {
            StoreError::Io { source, .. } => ReceiveError::Broken(source).into(),
            error => PublishError::from(error),
        })?;
        let record = repository.apply(changes, &self.loader.cpu(), &Silent)?;
        self.bring_up(name, entry, repository)?;
        if is_large(&record) {
            self.compact_apart(name);
        }
        Ok(Published::from(&record))
    }

    /// Takes a snapshot in, as a tar archive of its folder. When this returns it is on the disk and answers.
    ///
    /// # Errors
    /// See [`PublishError`]. Nothing has changed then.
    pub fn take(self: &Arc<Self>, name: &str, archive: impl Read) -> Result<Published, PublishError> {
        let (entry, repository) = self.entry(name)?;
        let staging = repository.staging()?;
        receive(archive, staging.path(), name)?;
        let record = repository.take_base(staging, &Silent)?;
        self.bring_up(name, entry, repository)?;
        Ok(Published::from(&record))
    }

    /// Makes an earlier version answer again: `to`, or the one before.
    ///
    /// # Errors
    /// See [`PublishError`].
    pub fn roll_back(self: &Arc<Self>, name: &str, to: Option<[u8; 32]>) -> Result<Published, PublishError> {
        let (entry, repository) = self.entry(name)?;
        let record = repository.roll_back(to)?;
        self.bring_up(name, entry, repository)?;
        Ok(Published::from(&record))
    }

    /// Makes a new base of the base and its delta. Changes are taken in meanwhile.
    ///
    /// # Errors
    /// See [`PublishError`].
    pub fn compact(self: &Arc<Self>, name: &str) -> Result<Published, PublishError> {
        let (entry, repository) = self.entry(name)?;
        let record = repository.compact(&self.loader.cpu(), &Silent)?;
        self.bring_up(name, entry, repository)?;
        Ok(Published::from(&record))
    }

    /// Compacts on a thread of its own; what comes of it is in the log.
    fn compact_apart(self: &Arc<Self>, name: &str) {
        let (library, name) = (Arc::clone(self), name.to_owned());
        let compaction = move || match library.compact(&name) {
            Ok(Published { sequence, .. }) => tracing::info!(database = %name, sequence, "compacted"),
            Err(PublishError::Store(StoreError::Busy { .. })) => (),
            Err(error) => tracing::error!(database = %name, %error, "the compaction failed"),
        };
        apart("spirea-compact", compaction);
    }

    /// Lets the current version answer. One that cannot be loaded is given up for the one before.
    fn bring_up(
        self: &Arc<Self>,
        name: &str,
        entry: &Entry,
        repository: &Repository,
    ) -> Result<(), PublishError> {
        let _turn = entry.turn();
        let Some(current) = repository.current().map(Version::from) else { return Ok(()) };
        let newest = self.engine.version(name, None).ok();
        if newest.is_some_and(|newest| *newest.version() == current.name()) {
            return Ok(());
        }
        self.engine.expect(name, current.name());
        match self.open(name, &current, Loader::open_soon) {
            Ok(served) => {
                let new_base = self.engine.versions(name).is_ok_and(|answering| {
                    answering.iter().all(|other| !Arc::ptr_eq(other.base(), served.base()))
                });
                self.engine.publish(served);
                if new_base && self.loader.opens_twice(&current.base) {
                    let (library, name) = (Arc::clone(self), name.to_owned());
                    apart("spirea-hold", move || library.hold(&name, &current.base));
                }
                Ok(())
            }
            Err(cause) => {
                self.engine.refuse(name, cause.clone());
                repository.roll_back(None)?;
                Err(PublishError::Load(cause))
            }
        }
    }
}

/// Reads all of a snapshot, which takes long: a base that several versions share is read for the first.
fn verify(snapshot: &Snapshot) -> Result<(), String> {
    snapshot.verify(&Silent).map_err(|error| {
        tracing::error!(database = %snapshot.manifest().name, %error, "the snapshot is damaged");
        error.to_string()
    })
}

/// Runs what nobody waits for on a thread of its own.
fn apart(thread: &str, work: impl FnOnce() + Send + 'static) {
    if let Err(error) = std::thread::Builder::new().name(thread.into()).spawn(work) {
        tracing::warn!(%error, thread, "the system gave no thread; the work is left for the next time");
    }
}

/// Whether a version's delta is worth a new base.
fn is_large(record: &VersionRecord) -> bool {
    let bytes = |snapshot: &Snapshot| snapshot.manifest().matrix.bytes;
    let most = LEAST_COMPACTED.max(bytes(&record.base) / COMPACTED_SHARE);
    record.delta.as_ref().is_some_and(|delta| bytes(delta) > most)
}
