//! The repository of one database: its bases, its deltas, and which of them are its versions.
//!
//! ```text
//! bases/HASH/     snapshots, by version
//! deltas/HASH/    snapshots of what has changed since a base, by version
//! versions/N.json which base and which delta are version number N; the highest number is current
//! work/           what is not complete
//! lock            held by the process that has the repository
//! ```
//!
//! A snapshot is complete, verified and synced before it gets its place, and has its place before a record names it; a
//! record is written whole. So at any instant the newest record names a complete version, whatever ends the process,
//! and what has been accepted is in it.
//!
//! Any number of threads may use a repository. Changes wait for each other; a compaction runs beside them, and the
//! changes that come meanwhile become the delta of its new base.

mod log;
mod staging;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use spirea_backend::ProtocolBackend;
use spirea_protocols::delta;
use spirea_protocols::signature::{PrivateKey, Signature};

use log::{BASES, DELTAS, snapshot_path};
pub use log::{VERSIONS, VersionRecord};
pub use staging::Staging;
use staging::WORK;

use crate::build::{Shape, build_delta, compact, values_with};
use crate::error::IoContext;
use crate::files::{sync, sync_folder};
pub use crate::succession::Shrinking;
use crate::succession::{check_base, check_successor};
use crate::{Changes, Progress, Snapshot, StoreError, time};

/// The fewest versions, and bases of them, that are kept: the current one, and one for queries on their way and to go
/// back to.
const LEAST_KEPT: usize = 2;
const LOCK: &str = "lock";

/// How a repository works.
#[derive(Debug)]
pub struct Settings {
    /// Versions that are kept; 2 if it is less.
    pub kept: usize,
    /// Bases of them, each as large as the table; 2 if it is less.
    pub bases: usize,
    /// Signs the versions that are made.
    pub key: Option<PrivateKey>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { kept: LEAST_KEPT, bases: LEAST_KEPT, key: None }
    }
}

/// The folder of one database's versions. One process has it.
#[derive(Debug)]
pub struct Repository {
    folder: PathBuf,
    settings: Settings,
    records: Mutex<Vec<VersionRecord>>,
    /// Held by whoever makes a version.
    writing: Mutex<()>,
    /// Held by whoever compacts, which takes long.
    compacting: Mutex<()>,
    lock: File,
}

impl Drop for Repository {
    /// Gives the repository to other processes. Closing the file would not be enough: a process that this one is just
    /// starting has the same file open until it runs its own program.
    fn drop(&mut self) {
        // It is closed in any case.
        let _ = self.lock.unlock();
    }
}

impl Repository {
    /// Opens the repository in `folder`: what a process that ended had not completed is removed, and the newest
    /// complete version is current. Manifests alone are read; a server verifies the files before it serves them.
    ///
    /// # Errors
    /// [`StoreError::NotARepository`], [`StoreError::Busy`] if another process has it, [`StoreError::BadLog`] or those
    /// of [`Snapshot::open`] if it is damaged, [`StoreError::Io`].
    pub fn open(folder: impl AsRef<Path>, settings: Settings) -> Result<Self, StoreError> {
        let folder = folder.as_ref().to_path_buf();
        if !Self::is_one(&folder) {
            return Err(StoreError::NotARepository { path: folder });
        }
        let path = folder.join(LOCK);
        let lock =
            File::options().create(true).truncate(false).write(true).open(&path).at("create", &path)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let detail = "another process has this repository: publish through that server, or stop it";
                return Err(StoreError::Busy { path: folder, detail: detail.into() });
            }
            Err(TryLockError::Error(error)) => return Err(error).at("lock", &path),
        }
        let work = folder.join(WORK);
        if work.is_dir() {
            fs::remove_dir_all(&work).at("remove", &work)?;
        }
        for name in [WORK, BASES, DELTAS] {
            let path = folder.join(name);
            fs::create_dir_all(&path).at("create", &path)?;
        }
        sync_folder(&folder)?;
        let records = Mutex::new(log::read(&folder)?);
        let (writing, compacting) = (Mutex::new(()), Mutex::new(()));
        let repository = Self { folder, settings, records, writing, compacting, lock };
        repository.remove_unnamed()?;
        Ok(repository)
    }

    /// Opens the repository in `folder`, a new one if there is no such folder or it is empty.
    ///
    /// # Errors
    /// See [`Repository::open`]; [`StoreError::Exists`] if the folder has anything else in it.
    pub fn create(folder: impl AsRef<Path>, settings: Settings) -> Result<Self, StoreError> {
        let folder = folder.as_ref();
        fs::create_dir_all(folder).at("create", folder)?;
        let versions = folder.join(VERSIONS);
        if !versions.is_dir() {
            if fs::read_dir(folder).at("read", folder)?.next().is_some() {
                let detail =
                    "it is no repository and has files in it; choose a folder that is empty or not there";
                return Err(StoreError::Exists { path: folder.into(), detail: detail.into() });
            }
            fs::create_dir(&versions).at("create", &versions)?;
        }
        Self::open(folder, settings)
    }

    /// Whether there is a repository in `folder`.
    pub fn is_one(folder: impl AsRef<Path>) -> bool {
        folder.as_ref().join(VERSIONS).is_dir()
    }

    /// Reads what versions the repository in `folder` has, newest first, without taking it: also while a server has
    /// it.
    ///
    /// # Errors
    /// See [`Repository::open`]; the server may have removed a version meanwhile.
    pub fn list(folder: impl AsRef<Path>) -> Result<Vec<VersionRecord>, StoreError> {
        log::read(folder.as_ref())
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The versions that are kept, newest first; a version to which the operator went back is there once.
    pub fn versions(&self) -> Vec<VersionRecord> {
        locked(&self.records).clone()
    }

    /// The current version.
    pub fn current(&self) -> Option<VersionRecord> {
        locked(&self.records).first().cloned()
    }

    /// A folder to receive a snapshot in, for [`Repository::take_base`].
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn staging(&self) -> Result<Staging, StoreError> {
        Staging::create(&self.folder)
    }

    /// Copies a snapshot in and makes it the current version, when the copy's hashes are right.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] if they are not, [`StoreError::BadOption`] if it is another dataset's or a delta,
    /// [`StoreError::Shrunk`], [`StoreError::Io`].
    pub fn add_base(
        &self,
        snapshot: &Snapshot,
        shrinking: Shrinking,
        progress: &dyn Progress,
    ) -> Result<VersionRecord, StoreError> {
        // Before gigabytes are copied.
        self.check_base(snapshot, shrinking)?;
        let staging = self.staging()?;
        for file in fs::read_dir(snapshot.folder()).at("read", snapshot.folder())? {
            let from = file.at("read", snapshot.folder())?.path();
            let to = staging.path().join(from.file_name().expect("entries have names"));
            fs::copy(&from, &to).at("copy", &from)?;
            sync(&to)?;
        }
        self.take_base(staging, shrinking, progress)
    }

    /// Makes the snapshot in a staging folder, whose files are synced, the current version, when its hashes are right.
    ///
    /// # Errors
    /// See [`Repository::add_base`].
    pub fn take_base(
        &self,
        staging: Staging,
        shrinking: Shrinking,
        progress: &dyn Progress,
    ) -> Result<VersionRecord, StoreError> {
        let snapshot = Snapshot::open(staging.path())?;
        self.check_base(&snapshot, shrinking)?;
        snapshot.verify(progress)?;
        let signature = snapshot.signature()?;
        if let Some(signature) = &signature {
            signature.verify(&snapshot.manifest().name, &snapshot.version(), &signature.key)?;
        }
        let _writing = locked(&self.writing);
        let base = self.install(staging, &snapshot, BASES)?;
        if let Some(current) = self.current().filter(|current| is_of(current, &base, None)) {
            return Ok(current);
        }
        self.commit(Content::of(base), signature)
    }

    /// Refuses a snapshot that is no base, or to which the current version's clients could not follow.
    fn check_base(&self, base: &Snapshot, shrinking: Shrinking) -> Result<(), StoreError> {
        check_base(base)?;
        let Some(current) = self.current() else { return Ok(()) };
        let former = current.base.manifest();
        let values = current.values.unwrap_or(former.table.entries);
        check_successor(base.manifest(), former, values, shrinking)
    }

    /// Adds changes to those of the current version, and makes the result the current version. When this returns,
    /// they are on the disk; after an error, nothing has changed. A table in bins has no deltas: its changes make a new
    /// base.
    ///
    /// # Errors
    /// [`StoreError::NoSuchVersion`] without a base, [`StoreError::BadChange`] if the table cannot take one,
    /// [`StoreError::Damaged`] if the changes so far cannot be read, and see [`StoreError`].
    pub fn apply<B: ProtocolBackend>(
        &self,
        changes: Changes,
        backend: &Arc<B>,
        progress: &dyn Progress,
    ) -> Result<VersionRecord, StoreError> {
        let _writing = locked(&self.writing);
        let current = self.expect_current()?;
        if changes.is_empty() {
            return Ok(current);
        }
        let mut all = changes_of(&current)?;
        let has_deltas = current.base.manifest().protocol.bins() == 1;
        let count = |values| values_with(&current.base, values, &all, &changes);
        let values = current.values.filter(|_| has_deltas).map(count).transpose()?;
        all.extend(changes);
        all.check(&current.base.manifest().table)?;
        if !has_deltas {
            // A delta would be asked for each bin: the table is made anew instead, which for two servers is a copy.
            let staging = self.staging()?;
            compact(&current.base, &all, staging.path(), backend, progress)?;
            let snapshot = Snapshot::open(staging.path())?;
            let base = self.install(staging, &snapshot, BASES)?;
            return self.commit(Content::of(base), None);
        }
        let shape = current.delta.as_ref().and_then(Shape::of);
        let delta = self.make_delta(&current.base, shape, &all, backend, progress)?;
        self.commit(Content { base: current.base, delta: Some(delta), values }, None)
    }

    /// Finds the one version that begins with some hexadecimal digits.
    ///
    /// # Errors
    /// [`StoreError::NoSuchVersion`] if none is kept that does; [`StoreError::BadOption`] if several do.
    pub fn find(&self, digits: &str) -> Result<[u8; 32], StoreError> {
        let digits = digits.to_ascii_lowercase();
        let records = self.versions();
        let mut found = records.iter().filter(|record| record.version_hex().starts_with(&digits));
        match (found.next(), found.next()) {
            (Some(record), None) => Ok(record.version),
            (None, _) => {
                Err(self.no_such_version(&format!("no version that begins with {digits:?} is kept")))
            }
            _ => Err(StoreError::BadOption(format!(
                "several versions begin with {digits:?}: give more digits"
            ))),
        }
    }

    /// Makes an earlier version current again, under a new sequence number: `to`, or else the newest version before the
    /// current one that no roll-back has left. The versions that were newer are left from then on.
    ///
    /// # Errors
    /// [`StoreError::NoSuchVersion`] if it is not kept.
    pub fn roll_back(&self, to: Option<[u8; 32]>) -> Result<VersionRecord, StoreError> {
        let _writing = locked(&self.writing);
        let records = self.versions();
        let mut abandoned = self.expect_current()?.abandoned;
        let wanted = match to {
            Some(version) => records.iter().position(|record| record.version == version),
            None => {
                let left = |record: &VersionRecord| abandoned.contains(&record.version);
                records.iter().skip(1).position(|record| !left(record)).map(|place| place + 1)
            }
        };
        let Some(place) = wanted else {
            return Err(self.no_such_version(match to {
                Some(_) => "no such version is kept",
                None => {
                    "no earlier version is kept but those that a roll-back has left; name the version (--to)"
                }
            }));
        };
        let VersionRecord { version, base, delta, values, .. } = records[place].clone();
        // A version that had been left is not an earlier one: the current version stays to go back to.
        if !abandoned.contains(&version) {
            abandoned.extend(records[..place].iter().map(|record| record.version));
        }
        self.commit_leaving(abandoned, Content { base, delta, values }, None)
    }

    fn no_such_version(&self, detail: &str) -> StoreError {
        let kept = self.versions().iter().map(VersionRecord::version_hex).collect::<Vec<_>>().join(", ");
        StoreError::NoSuchVersion { path: self.folder.clone(), detail: format!("{detail}; there are {kept}") }
    }

    /// Makes a new base of the current base and its delta, and makes that current, with the changes that came meanwhile
    /// as its delta. Without a delta there is nothing to do.
    ///
    /// # Errors
    /// [`StoreError::Busy`] if a compaction is going on, or the base was replaced meanwhile; those of a build.
    pub fn compact<B: ProtocolBackend>(
        &self,
        backend: &Arc<B>,
        progress: &dyn Progress,
    ) -> Result<VersionRecord, StoreError> {
        let busy = |detail: &str| StoreError::Busy { path: self.folder.clone(), detail: detail.into() };
        let Ok(_compacting) = self.compacting.try_lock() else {
            return Err(busy("a compaction is going on; wait for it"));
        };
        let from = self.expect_current()?;
        if from.delta.is_none() {
            return Ok(from);
        }
        let compacted = changes_of(&from)?;
        let staging = self.staging()?;
        compact(&from.base, &compacted, staging.path(), backend, progress)?;
        let snapshot = Snapshot::open(staging.path())?;

        let _writing = locked(&self.writing);
        let now = self.expect_current()?;
        let superseded = || busy("the version that was compacted is no longer current; compact again");
        if now.base.version() != from.base.version() {
            return Err(superseded());
        }
        let rest = changes_of(&now)?.since(&compacted).ok_or_else(superseded)?;
        let base = self.install(staging, &snapshot, BASES)?;
        if rest.is_empty() {
            return self.commit(Content::of(base), None);
        }
        let values = values_with(&base, base.manifest().table.entries, &Changes::new(), &rest)?;
        let delta = self.make_delta(&base, None, &rest, backend, progress)?;
        self.commit(Content { base, delta: Some(delta), values: Some(values) }, None)
    }

    fn expect_current(&self) -> Result<VersionRecord, StoreError> {
        self.current().ok_or_else(|| {
            let detail = "it has no version yet; publish a base with --base SNAPSHOT".into();
            StoreError::NoSuchVersion { path: self.folder.clone(), detail }
        })
    }

    fn make_delta<B: ProtocolBackend>(
        &self,
        base: &Snapshot,
        before: Option<Shape>,
        changes: &Changes,
        backend: &Arc<B>,
        progress: &dyn Progress,
    ) -> Result<Snapshot, StoreError> {
        let staging = self.staging()?;
        build_delta(base, before, changes, staging.path(), backend, progress)?;
        let snapshot = Snapshot::open(staging.path())?;
        self.install(staging, &snapshot, DELTAS)
    }

    /// Gives a complete snapshot its place. Nothing names it yet: opened again, the repository would remove it.
    fn install(&self, staging: Staging, snapshot: &Snapshot, kind: &str) -> Result<Snapshot, StoreError> {
        let place = snapshot_path(&self.folder, kind, &snapshot.version());
        if !place.is_dir() {
            sync_folder(staging.path())?;
            fs::rename(staging.path(), &place).at("rename", staging.path())?;
            sync_folder(&self.folder.join(kind))?;
        }
        Snapshot::open(&place)
    }

    /// Makes a version current, and removes what no kept version names. A version is signed with the repository's key;
    /// without one, by the signature that it came with, if that is newer than the current version.
    fn commit(&self, content: Content, brought: Option<Signature>) -> Result<VersionRecord, StoreError> {
        let abandoned = self.current().map_or_else(Vec::new, |current| current.abandoned);
        self.commit_leaving(abandoned, content, brought)
    }

    /// Commits a version as [`Repository::commit`] does, by which time roll-backs have left the `abandoned` ones.
    fn commit_leaving(
        &self,
        mut abandoned: Vec<[u8; 32]>,
        content: Content,
        brought: Option<Signature>,
    ) -> Result<VersionRecord, StoreError> {
        let Content { base, delta, values } = content;
        let last = self.current().map_or(0, |current| current.sequence);
        let version = delta::version(base.version(), delta.as_ref().map(Snapshot::version));
        let mut records = self.versions();
        records.retain(|other| other.version != version);
        abandoned.retain(|left| records.iter().any(|other| other.version == *left));
        let mut record = VersionRecord {
            version,
            // Seconds, so that numbers rise even if the repository is made anew.
            sequence: time::unix_seconds().max(last.saturating_add(1)),
            created: time::created()?,
            base,
            delta,
            values,
            signature: None,
            abandoned,
        };
        match (&self.settings.key, brought) {
            (Some(key), _) => {
                record.signature =
                    Some(Signature::new(key, record.name(), &version, record.sequence, &record.created));
            }
            (None, Some(signature)) if signature.sequence > last => {
                record.sequence = signature.sequence;
                record.signature = Some(signature);
            }
            (None, _) => {}
        }
        log::write(&self.folder, &record)?;
        records.insert(0, record.clone());
        *locked(&self.records) = records;
        // The version is current: what cannot be removed now is removed when the repository is opened.
        let _ = self.remove_unnamed();
        Ok(record)
    }

    /// Removes records that are not kept, and snapshots that no kept record names.
    fn remove_unnamed(&self) -> Result<(), StoreError> {
        let mut records = self.versions();
        let mut seen = HashSet::new();
        records.retain(|record| seen.insert(record.version));
        records.truncate(self.settings.kept.max(LEAST_KEPT));
        let mut bases = HashSet::new();
        records.retain(|record| {
            bases.insert(record.base.version());
            bases.len() <= self.settings.bases.max(LEAST_KEPT)
        });
        *locked(&self.records) = records.clone();
        let named: HashSet<PathBuf> = records
            .iter()
            .flat_map(|record| {
                let delta = record.delta.as_ref().map(|delta| delta.folder().to_path_buf());
                [
                    Some(log::record_path(&self.folder, record.sequence)),
                    Some(record.base.folder().into()),
                    delta,
                ]
            })
            .flatten()
            .collect();
        // Records first: none ever names what is gone.
        for kind in [VERSIONS, DELTAS, BASES] {
            let folder = self.folder.join(kind);
            for entry in fs::read_dir(&folder).at("read", &folder)? {
                let path = entry.at("read", &folder)?.path();
                if named.contains(&path) {
                    continue;
                }
                let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
                removed.at("remove", &path)?;
            }
            sync_folder(&folder)?;
        }
        Ok(())
    }
}

/// The content of a version that is made.
struct Content {
    base: Snapshot,
    delta: Option<Snapshot>,
    values: Option<u64>,
}

impl Content {
    /// A base alone.
    fn of(base: Snapshot) -> Self {
        let values = Some(base.manifest().table.entries);
        Self { base, delta: None, values }
    }
}

fn is_of(record: &VersionRecord, base: &Snapshot, delta: Option<&Snapshot>) -> bool {
    record.version == delta::version(base.version(), delta.map(Snapshot::version))
}

/// The changes of a version's delta.
fn changes_of(record: &VersionRecord) -> Result<Changes, StoreError> {
    let Some(delta) = &record.delta else { return Ok(Changes::new()) };
    let path = delta.changes_path();
    let bytes = fs::read(&path).at("read", &path)?;
    let damaged = |detail: &str| StoreError::Damaged { path: path.clone(), detail: detail.into() };
    let hash = delta.manifest().changes.as_ref().map(|entry| entry.blake3);
    if hash != Some(*blake3::hash(&bytes).as_bytes()) {
        return Err(damaged("its content does not match the manifest's hash"));
    }
    Changes::from_bytes(&bytes).map_err(|error| damaged(&error.to_string()))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Whoever panicked left whole values: each is replaced in one step.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
