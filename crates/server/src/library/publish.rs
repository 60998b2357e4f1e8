//! What publishers ask: changes, snapshots, and which version shall answer.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use spirea_protocols::Table;
use spirea_store::repository::Shrinking;
use spirea_store::{Changes, Repository, Silent, Snapshot, StoreError, VersionRecord};

use super::entries::{Entry, Library};
use super::error::PublishError;
use super::receive::{ReceiveError, receive};
use super::source::Source;
use super::thread::spawn;

/// A delta is compacted if it takes more than one part in so many of its base's bytes, and more than
/// [`LEAST_COMPACTED`].
const COMPACTED_SHARE: u64 = 8;
const LEAST_COMPACTED: u64 = 4 << 20;

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

    /// The table of the current base, by which changes are read; none if nothing has been published.
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
            self.spawn_compaction(name);
        }
        Ok(Published::from(&record))
    }

    /// Takes a snapshot in, as a tar archive of its folder. When this returns it is on the disk and answers.
    ///
    /// # Errors
    /// See [`PublishError`]. Nothing has changed then.
    pub fn take(
        self: &Arc<Self>,
        name: &str,
        shrinking: Shrinking,
        archive: impl Read,
    ) -> Result<Published, PublishError> {
        let (entry, repository) = self.entry(name)?;
        let staging = repository.staging()?;
        receive(archive, staging.path(), name)?;
        let record = repository.take_base(staging, shrinking, &Silent)?;
        self.bring_up(name, entry, repository)?;
        Ok(Published::from(&record))
    }

    /// Makes an earlier version answer again: the one that begins with the digits `to`, or the one before.
    ///
    /// # Errors
    /// See [`PublishError`].
    pub fn roll_back(self: &Arc<Self>, name: &str, to: Option<&str>) -> Result<Published, PublishError> {
        let (entry, repository) = self.entry(name)?;
        let to = to.map(|digits| repository.find(digits)).transpose()?;
        let record = repository.roll_back(to)?;
        self.bring_up(name, entry, repository)?;
        Ok(Published::from(&record))
    }

    /// Makes a new base of the base and its delta. Changes are taken in meanwhile. Operators are told of a failure until
    /// a compaction succeeds.
    ///
    /// # Errors
    /// See [`PublishError`].
    pub fn compact(self: &Arc<Self>, name: &str) -> Result<Published, PublishError> {
        let (entry, repository) = self.entry(name)?;
        let compact = || {
            let record = repository.compact(&self.loader.cpu(), &Silent)?;
            self.bring_up(name, entry, repository)?;
            Ok(Published::from(&record))
        };
        let compacted = compact();
        match &compacted {
            Ok(_) => entry.compactions().last = None,
            // Another one is at work, or the version is no longer current: that is no failure.
            Err(PublishError::Store(StoreError::Busy { .. })) => (),
            Err(error) => {
                let mut failed = entry.compactions();
                failed.count += 1;
                failed.last = Some(error.to_string());
            }
        }
        compacted
    }

    /// Compacts on a thread of its own.
    fn spawn_compaction(self: &Arc<Self>, name: &str) {
        let (library, name) = (Arc::clone(self), name.to_owned());
        let compaction = move || match library.compact(&name) {
            Ok(Published { sequence, .. }) => tracing::info!(database = %name, sequence, "compacted"),
            Err(PublishError::Store(StoreError::Busy { .. })) => (),
            Err(error) => tracing::error!(database = %name, %error, "the compaction failed"),
        };
        spawn("spirea-compact", compaction);
    }
}

/// Whether a version's delta is worth a new base.
fn is_large(record: &VersionRecord) -> bool {
    let bytes = |snapshot: &Snapshot| snapshot.manifest().matrix.bytes;
    let most = LEAST_COMPACTED.max(bytes(&record.base) / COMPACTED_SHARE);
    record.delta.as_ref().is_some_and(|delta| bytes(delta) > most)
}
