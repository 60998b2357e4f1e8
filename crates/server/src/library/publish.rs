//! Operations of publishers: changes, snapshots, and selection of the current version.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use spirea_backend::StoredFile;
use spirea_cpu::priority::at_low_priority;
use spirea_engine::Served;
use spirea_protocols::{Table, Version};
use spirea_store::changes::Cursor;
use spirea_store::repository::{Applied, Shrinking, StoredRecord};
use spirea_store::{Changes, FileEntry, Repository, Silent, Snapshot, StoreError, VersionRecord};

use super::entries::{Entry, Library};
use super::error::PublishError;
use super::followers::FollowerId;
use super::receive::{ReceiveError, receive};
use super::source::Source;
use super::thread::spawn;

/// A delta is compacted if it exceeds `1 / COMPACTED_SHARE` of its base's bytes and also
/// [`LEAST_COMPACTED`] bytes. A delta makes look-ups and publications more expensive, and a
/// compaction takes time. The sum is least near this fraction (`docs/updates.md` has the
/// measurements).
const COMPACTED_SHARE: u64 = 16;
/// The divisor in place of [`COMPACTED_SHARE`] if clients keep the hint: after a compaction, each
/// client downloads the rows of the hint that changed.
const COMPACTED_SHARE_WITH_HINT: u64 = 8;
const LEAST_COMPACTED: u64 = 4 << 20;

/// A version that answers.
#[derive(Debug, Serialize)]
pub(crate) struct Published {
    /// Hash by which clients name the version.
    pub version: Version,
    /// Sequence number, which rises with every version that becomes current.
    pub sequence: u64,
    /// Number of changes since the base was built.
    pub changes: u64,
    /// Position of the producer of the changes, if it gave one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Cursor>,
}

impl From<&VersionRecord> for Published {
    fn from(record: &VersionRecord) -> Self {
        let changes = record.delta.as_ref().map_or(0, |delta| delta.manifest().table.entries);
        Self { version: record.version, sequence: record.sequence, changes, cursor: record.cursor.clone() }
    }
}

impl Library {
    pub(super) fn entry(&self, name: &str) -> Result<(&Entry, &Repository), PublishError> {
        let entry = self.entries.get(name).ok_or(PublishError::UnknownDatabase)?;
        match &entry.source {
            Source::Folder(_) => Err(PublishError::Fixed),
            Source::Repository(repository) => Ok((entry, repository)),
        }
    }

    /// Returns the repository of a database into which this server publishes.
    fn own(&self, name: &str) -> Result<(&Entry, &Repository), PublishError> {
        match &self.follow {
            Some(follow) => Err(PublishError::Follows(follow.url.clone())),
            None => self.entry(name),
        }
    }

    /// Returns the bytes of the current version's record; `None` if nothing has been published.
    ///
    /// # Errors
    /// [`PublishError::UnknownDatabase`], [`PublishError::Fixed`].
    pub fn record(&self, name: &str) -> Result<Option<Vec<u8>>, PublishError> {
        let (_, repository) = self.entry(name)?;
        Ok(repository.current().map(|current| StoredRecord::from(&current).to_bytes()))
    }

    /// Notes that a follower has a version of a database.
    ///
    /// # Errors
    /// [`PublishError::UnknownDatabase`], [`PublishError::Fixed`].
    pub fn report(&self, name: &str, follower: FollowerId, has: Version) -> Result<(), PublishError> {
        let (entry, _) = self.entry(name)?;
        entry.followers.report(follower, has);
        Ok(())
    }

    /// Returns a file of a snapshot that a kept version names, with its length and hash. Notes the
    /// request of `follower`, if given.
    ///
    /// # Errors
    /// [`PublishError::UnknownDatabase`], [`PublishError::Fixed`], [`PublishError::UnknownFile`].
    pub fn file(
        &self,
        name: &str,
        snapshot: &Version,
        file: &str,
        follower: Option<FollowerId>,
    ) -> Result<(FileEntry, StoredFile), PublishError> {
        let (entry, repository) = self.entry(name)?;
        if let Some(follower) = follower {
            entry.followers.see(follower);
        }
        let records = repository.versions();
        let mut named = records.iter().flat_map(VersionRecord::snapshots);
        let found = named.find(|known| known.version() == *snapshot).and_then(|found| found.file(file));
        found.ok_or(PublishError::UnknownFile)
    }

    /// Returns the kept versions, newest first.
    ///
    /// # Errors
    /// [`PublishError::UnknownDatabase`], [`PublishError::Fixed`].
    pub fn versions(&self, name: &str) -> Result<Vec<Published>, PublishError> {
        let (_, repository) = self.entry(name)?;
        Ok(repository.versions().iter().map(Published::from).collect())
    }

    /// Returns the table of the current base, which defines how changes are read; `None` if nothing
    /// has been published.
    ///
    /// # Errors
    /// [`PublishError::UnknownDatabase`], [`PublishError::Fixed`].
    pub fn table(&self, name: &str) -> Result<Option<Table>, PublishError> {
        let (_, repository) = self.entry(name)?;
        Ok(repository.current().map(|current| current.base.manifest().table.clone()))
    }

    /// Applies changes, given as lines of JSON. When this returns, they are on disk and answer.
    ///
    /// # Errors
    /// See [`PublishError`]; nothing has changed in this case.
    pub fn change(self: &Arc<Self>, name: &str, lines: impl Read) -> Result<Published, PublishError> {
        let (entry, repository) = self.own(name)?;
        let current = repository.current().ok_or(PublishError::NothingYet)?;
        let changes = Changes::read_lines(&current.base.manifest().table, lines, Path::new("changes"));
        // A read error is the sender's fault.
        let changes = changes.map_err(|error| match error {
            StoreError::Io { source, .. } => ReceiveError::Broken(source).into(),
            error => PublishError::from(error),
        })?;
        at_low_priority(|| {
            let timed = self.loader.builder();
            let residence = self.loader.interim(&current.base.manifest().protocol).residence;
            let Applied { record, servers } = repository.apply_open(changes, &timed, residence, &Silent)?;
            let former = self.engine.version(name, None).ok();
            let former = former.as_ref().and_then(Served::delta);
            let take_over = |delta| self.loader.take_over(delta, &timed, servers, former);
            let delta = record.delta.as_ref().and_then(take_over);
            self.bring_up(name, entry, repository, delta)?;
            if is_large(&record) {
                self.spawn_compaction(name);
            }
            Ok(Published::from(&record))
        })
    }

    /// Publishes a snapshot, given as a tar archive of its folder. When this returns, it is on disk
    /// and answers.
    ///
    /// # Errors
    /// See [`PublishError`]; nothing has changed in this case.
    pub fn take(
        self: &Arc<Self>,
        name: &str,
        shrinking: Shrinking,
        archive: impl Read,
    ) -> Result<Published, PublishError> {
        let (entry, repository) = self.own(name)?;
        let staging = repository.staging()?;
        receive(archive, staging.path(), name)?;
        at_low_priority(|| {
            let record = repository.take_base(staging, shrinking, &Silent)?;
            self.bring_up(name, entry, repository, None)?;
            Ok(Published::from(&record))
        })
    }

    /// Makes an earlier version answer again: the version whose hash begins with the digits `to`,
    /// or without `to` the previous version.
    ///
    /// # Errors
    /// See [`PublishError`].
    pub fn roll_back(self: &Arc<Self>, name: &str, to: Option<&str>) -> Result<Published, PublishError> {
        let (entry, repository) = self.own(name)?;
        let to = to.map(|digits| repository.find(digits)).transpose()?;
        let record = repository.roll_back(to)?;
        at_low_priority(|| self.bring_up(name, entry, repository, None))?;
        Ok(Published::from(&record))
    }

    /// Builds a new base from the base and its delta. Changes are accepted meanwhile. A failure is
    /// reported to operators until a compaction succeeds.
    ///
    /// # Errors
    /// See [`PublishError`].
    pub fn compact(self: &Arc<Self>, name: &str) -> Result<Published, PublishError> {
        let (entry, repository) = self.own(name)?;
        let compact = || {
            let record = repository.compact(&self.loader.cpu(), &Silent)?;
            self.bring_up(name, entry, repository, None)?;
            Ok(Published::from(&record))
        };
        let compacted = at_low_priority(compact);
        match &compacted {
            Ok(_) => entry.compactions().last = None,
            // Not a failure: another compaction is running, or the version is no longer current.
            Err(PublishError::Store(StoreError::Busy { .. })) => (),
            Err(error) => {
                let mut failed = entry.compactions();
                failed.count += 1;
                failed.last = Some(error.to_string());
            }
        }
        compacted
    }

    /// Starts a compaction on its own thread.
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

/// Returns true if a version's delta is large enough for a new base.
fn is_large(record: &VersionRecord) -> bool {
    let bytes = |snapshot: &Snapshot| snapshot.manifest().matrix.bytes;
    let share = match record.base.manifest().protocol.hint_lasts() {
        true => COMPACTED_SHARE_WITH_HINT,
        false => COMPACTED_SHARE,
    };
    let most = most_bytes(bytes(&record.base), share);
    record.delta.as_ref().is_some_and(|delta| bytes(delta) > most)
}

/// Returns the bytes up to which a delta is not compacted, for a base of `base` bytes. A larger
/// delta has more than one `share`-th of the base.
fn most_bytes(base: u64, share: u64) -> u64 {
    LEAST_COMPACTED.max(base / share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delta_may_be_larger_if_a_compaction_costs_downloads() {
        const GIB: u64 = 1 << 30;
        assert_eq!(most_bytes(GIB, COMPACTED_SHARE_WITH_HINT), GIB / 8);
        assert_eq!(most_bytes(GIB, COMPACTED_SHARE), GIB / 16);
        for share in [COMPACTED_SHARE_WITH_HINT, COMPACTED_SHARE] {
            assert_eq!(most_bytes(1 << 20, share), LEAST_COMPACTED);
        }
    }
}
