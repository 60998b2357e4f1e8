//! The repository of one database: its bases, its deltas, and the versions made of them.
//!
//! ```text
//! bases/HASH/     snapshots, by version
//! deltas/HASH/    snapshots of the changes since a base, by version
//! versions/N.json which base and which delta are version number N; the highest number is current
//! work/           incomplete work
//! incoming/HASH/  snapshots that are being received from another repository
//! lock            held by the process that has the repository open
//! ```
//!
//! A snapshot is complete, verified and synced before it is moved into place, and in place before a
//! record names it; a record is written atomically. So at any instant the newest record names a
//! complete version, however the process ends, and this version includes all accepted changes.
//!
//! Any number of threads may use a repository. Changes wait for each other; a compaction runs in
//! parallel, and the changes that come meanwhile become the delta of its new base.

mod apply;
#[cfg(feature = "object-store")]
mod bucket;
#[cfg(not(feature = "object-store"))]
#[path = "no_bucket.rs"]
mod bucket;
mod copy;
mod log;
mod staging;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use spirea_backend::{ProtocolBackend, Residence};
use spirea_protocols::signature::{PrivateKey, Signature};
use spirea_protocols::{Responder, Version, delta};

pub use apply::Applied;
pub use bucket::BucketPublisher;
pub use copy::{Offer, Published, Publisher, Trust};
use log::{BASES, DELTAS, snapshot_path};
pub use log::{MAX_RECORD_BYTES, StoredRecord, VERSIONS, VersionRecord};
pub use staging::Staging;
use staging::WORK;

use crate::build::{Shape, build_delta, compact, values_with};
use crate::changes::Cursor;
use crate::error::IoContext;
use crate::files::{sync, sync_folder};
pub use crate::succession::Shrinking;
use crate::succession::{check_base, check_successor};
use crate::{Changes, Progress, Snapshot, StoreError, time};

/// Minimum number of versions, and of their bases, to keep: the current version, and the previous
/// version for queries in transit and for rollback.
const LEAST_KEPT: usize = 2;
const LOCK: &str = "lock";
/// Prefixes of the addresses of buckets, for S3 and Google Cloud Storage.
pub const BUCKETS: [&str; 2] = ["s3://", "gs://"];

/// Settings of a repository.
#[derive(Debug)]
pub struct Settings {
    /// Number of versions to keep; a number below 2 means 2.
    pub kept: usize,
    /// Number of bases of these versions to keep; a number below 2 means 2. Each base is as large
    /// as the table.
    pub bases: usize,
    /// Key that signs new versions.
    pub key: Option<PrivateKey>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { kept: LEAST_KEPT, bases: LEAST_KEPT, key: None }
    }
}

/// The folder of one database's versions. A single process at a time has it open.
#[derive(Debug)]
pub struct Repository {
    folder: PathBuf,
    settings: Settings,
    records: Mutex<Vec<VersionRecord>>,
    /// Lock held while a version is made.
    writing: Mutex<()>,
    /// Lock held during a compaction, which takes long.
    compacting: Mutex<()>,
    lock: File,
}

impl Drop for Repository {
    /// Releases the repository for other processes. Closing the file would not suffice: a child
    /// process that is just being started shares the open file until it executes its own program.
    fn drop(&mut self) {
        // If this fails, closing the file still releases the lock.
        let _ = self.lock.unlock();
    }
}

impl Repository {
    /// Opens the repository in `folder`: removes incomplete work of a process that ended; the
    /// newest complete version is current. Only manifests are read; a server verifies the files
    /// before it serves them.
    ///
    /// # Errors
    /// [`StoreError::NotARepository`], [`StoreError::Busy`] if another process has locked it,
    /// [`StoreError::BadOption`] if this process may write into `folder`, but not into one of its
    /// folders, [`StoreError::BadLog`] or those of [`Snapshot::open`] if the repository is damaged,
    /// [`StoreError::Io`].
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
        let folders = [WORK, BASES, DELTAS, VERSIONS].map(|name| folder.join(name));
        if let Some(path) = folders.iter().find(|path| Self::is_read_only(path)) {
            let detail = "this process may not write there, unlike in the folder above: give it the permission to write in all folders of a repository, or in none of them to serve the repository as it is";
            return Err(StoreError::BadOption(format!("{}: {detail}", path.display())));
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

    /// Opens the repository in `folder`; creates a new one if the folder is missing or empty.
    ///
    /// # Errors
    /// See [`Repository::open`]; [`StoreError::Exists`] if the folder contains anything else.
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

    /// True if there is a repository in `folder`.
    pub fn is_one(folder: impl AsRef<Path>) -> bool {
        folder.as_ref().join(VERSIONS).is_dir()
    }

    /// True if this process may not write into `folder`: its file system is mounted read-only, or
    /// its permissions forbid it. Such a repository can be read ([`Repository::list`]), but not
    /// opened.
    pub fn is_read_only(folder: impl AsRef<Path>) -> bool {
        use rustix::fs::{Access, access};
        use rustix::io::Errno;
        matches!(access(folder.as_ref(), Access::WRITE_OK), Err(Errno::ROFS | Errno::ACCESS))
    }

    /// Returns the versions of the repository in `folder`, newest first, without locking it, so
    /// that a server may have it open.
    ///
    /// # Errors
    /// See [`Repository::open`]; a server may remove a version while this reads.
    pub fn list(folder: impl AsRef<Path>) -> Result<Vec<VersionRecord>, StoreError> {
        log::read(folder.as_ref())
    }

    /// Returns the repository's folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the kept versions, newest first; a version restored by a rollback appears once.
    pub fn versions(&self) -> Vec<VersionRecord> {
        self.records.lock().clone()
    }

    /// Returns the current version.
    pub fn current(&self) -> Option<VersionRecord> {
        self.records.lock().first().cloned()
    }

    /// Creates a folder to receive a snapshot, for [`Repository::take_base`].
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn staging(&self) -> Result<Staging, StoreError> {
        Staging::create(&self.folder)
    }

    /// Copies a snapshot into the repository, verifies the copy's hashes and makes it the current
    /// version.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] if the hashes are wrong, [`StoreError::BadOption`] if it belongs to
    /// another dataset or is a delta, [`StoreError::Shrunk`], [`StoreError::Io`].
    pub fn add_base(
        &self,
        snapshot: &Snapshot,
        shrinking: Shrinking,
        progress: &dyn Progress,
    ) -> Result<VersionRecord, StoreError> {
        // Checked before gigabytes are copied.
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

    /// Verifies the hashes of the snapshot in a staging folder, whose files are synced, and makes
    /// it the current version.
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
        let _writing = self.writing.lock();
        let base = self.install(staging, &snapshot, BASES)?;
        if let Some(current) = self.current().filter(|current| is_of(current, &base, None)) {
            return Ok(current);
        }
        self.commit(Content::of(base, None), signature)
    }

    /// Refuses a snapshot that is no base, or to which the current version's clients could not
    /// follow.
    fn check_base(&self, base: &Snapshot, shrinking: Shrinking) -> Result<(), StoreError> {
        check_base(base)?;
        let Some(current) = self.current() else { return Ok(()) };
        let former = current.base.manifest();
        let values = current.values.unwrap_or(former.table.entries);
        check_successor(base.manifest(), former, values, shrinking)
    }

    /// Finds the one version that begins with some hexadecimal digits.
    ///
    /// # Errors
    /// [`StoreError::NoSuchVersion`] if no kept version begins with `digits`;
    /// [`StoreError::BadOption`] if several do.
    pub fn find(&self, digits: &str) -> Result<Version, StoreError> {
        let digits = digits.to_ascii_lowercase();
        let records = self.versions();
        let mut found = records.iter().filter(|record| record.version.to_string().starts_with(&digits));
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

    /// Makes an earlier version current again, under a new sequence number. The earlier version is
    /// `to`, or by default the newest version before the current one that no roll-back has
    /// abandoned. The newer versions count as abandoned from then on.
    ///
    /// # Errors
    /// [`StoreError::NoSuchVersion`] if the version is not kept.
    pub fn roll_back(&self, to: Option<Version>) -> Result<VersionRecord, StoreError> {
        let _writing = self.writing.lock();
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
        let VersionRecord { version, base, delta, values, cursor, .. } = records[place].clone();
        // If `version` was abandoned before, this roll-back is not a step back: a later roll-back
        // may return to the current version.
        if !abandoned.contains(&version) {
            abandoned.extend(records[..place].iter().map(|record| record.version));
        }
        self.commit_leaving(abandoned, Content { base, delta, values, cursor }, None)
    }

    fn no_such_version(&self, detail: &str) -> StoreError {
        let kept =
            self.versions().iter().map(|record| record.version.to_string()).collect::<Vec<_>>().join(", ");
        StoreError::NoSuchVersion { path: self.folder.clone(), detail: format!("{detail}; there are {kept}") }
    }

    /// Builds a new base from the current base and its delta, and makes it current, with the
    /// changes that came meanwhile as its delta. Does nothing without a delta.
    ///
    /// # Errors
    /// [`StoreError::Busy`] if a compaction is running, or the base was replaced meanwhile; those
    /// of a build.
    pub fn compact<B: ProtocolBackend>(
        &self,
        backend: &Arc<B>,
        progress: &dyn Progress,
    ) -> Result<VersionRecord, StoreError> {
        let busy = |detail: &str| StoreError::Busy { path: self.folder.clone(), detail: detail.into() };
        let Some(_compacting) = self.compacting.try_lock() else {
            return Err(busy("a compaction is going on; wait for it"));
        };
        let from = self.expect_current()?;
        if from.delta.is_none() {
            return Ok(from);
        }
        let compacted = from.changes()?;
        let staging = self.staging()?;
        compact(&from.base, &compacted, staging.path(), backend, progress)?;
        let snapshot = Snapshot::open(staging.path())?;

        let _writing = self.writing.lock();
        let now = self.expect_current()?;
        let superseded = || busy("the version that was compacted is no longer current; compact again");
        if now.base.version() != from.base.version() {
            return Err(superseded());
        }
        let rest = now.changes()?.since(&compacted).ok_or_else(superseded)?;
        let base = self.install(staging, &snapshot, BASES)?;
        if rest.is_empty() {
            return self.commit(Content::of(base, now.cursor), None);
        }
        let values = values_with(&base, base.manifest().table.entries, &Changes::new(), &rest)?;
        let (delta, _) = self.make_delta(&base, None, &rest, backend, None, progress)?;
        let content = Content { base, delta: Some(delta), values: Some(values), cursor: now.cursor };
        self.commit(content, None)
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
        kept: Option<Residence>,
        progress: &dyn Progress,
    ) -> Result<(Snapshot, Vec<Box<dyn Responder>>), StoreError> {
        let staging = self.staging()?;
        let servers = build_delta(base, before, changes, staging.path(), backend, kept, progress)?;
        let snapshot = Snapshot::open(staging.path())?;
        Ok((self.install(staging, &snapshot, DELTAS)?, servers))
    }

    /// Moves a complete snapshot into place. No record names it yet: reopening the repository would
    /// remove it.
    fn install(&self, staging: Staging, snapshot: &Snapshot, kind: &str) -> Result<Snapshot, StoreError> {
        let place = snapshot_path(&self.folder, kind, &snapshot.version());
        if !place.is_dir() {
            sync_folder(staging.path())?;
            fs::rename(staging.path(), &place).at("rename", staging.path())?;
            sync_folder(&self.folder.join(kind))?;
        }
        Snapshot::open(&place)
    }

    /// Makes a version current, and removes everything that no kept version names. The version is
    /// signed with the repository's key. Without a key, the version keeps the signature that came
    /// with it, if this signature is newer than the current version.
    fn commit(&self, content: Content, brought: Option<Signature>) -> Result<VersionRecord, StoreError> {
        let abandoned = self.current().map_or_else(Vec::new, |current| current.abandoned);
        self.commit_leaving(abandoned, content, brought)
    }

    /// Commits a version as [`Repository::commit`] does, and records that roll-backs have abandoned
    /// the versions in `abandoned`.
    fn commit_leaving(
        &self,
        mut abandoned: Vec<Version>,
        content: Content,
        brought: Option<Signature>,
    ) -> Result<VersionRecord, StoreError> {
        let Content { base, delta, values, cursor } = content;
        let last = self.current().map_or(0, |current| current.sequence);
        let version = delta::version(base.version(), delta.as_ref().map(Snapshot::version));
        let records = self.versions();
        abandoned.retain(|left| *left != version && records.iter().any(|other| other.version == *left));
        let mut record = VersionRecord {
            version,
            // Based on the time in seconds, so that numbers rise even if the repository is created
            // anew.
            sequence: time::unix_seconds().max(last.saturating_add(1)),
            created: time::created()?,
            base,
            delta,
            values,
            signature: None,
            abandoned,
            cursor,
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
        self.make_current(record.clone())?;
        Ok(record)
    }

    /// Writes a record, by which its version becomes current, and removes everything that no kept
    /// version names.
    fn make_current(&self, record: VersionRecord) -> Result<(), StoreError> {
        log::write(&self.folder, &record)?;
        let mut records = self.versions();
        records.retain(|other| other.version != record.version);
        records.insert(0, record);
        *self.records.lock() = records;
        // The version is current. Files that cannot be removed now are removed when the repository
        // is next opened.
        let _ = self.remove_unnamed();
        Ok(())
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
        *self.records.lock() = records.clone();
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
        // Records are removed first, so that no record ever names a missing snapshot.
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

/// Content of a new version.
struct Content {
    base: Snapshot,
    delta: Option<Snapshot>,
    values: Option<u64>,
    cursor: Option<Cursor>,
}

impl Content {
    /// Returns the content of a base without a delta.
    fn of(base: Snapshot, cursor: Option<Cursor>) -> Self {
        let values = Some(base.manifest().table.entries);
        Self { base, delta: None, values, cursor }
    }
}

fn is_of(record: &VersionRecord, base: &Snapshot, delta: Option<&Snapshot>) -> bool {
    record.version == delta::version(base.version(), delta.map(Snapshot::version))
}
