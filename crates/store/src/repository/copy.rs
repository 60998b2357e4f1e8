//! Copies of another repository's versions: the same records, bases and deltas, byte for byte.
//!
//! A follower reads the record of the current version there, receives the snapshots that the record
//! names and that are not here, and commits the record. Received data does not change the local
//! versions before all of it is verified:
//!
//! - the record is in canonical form, newer than the current version, and signed if a key is given;
//! - each manifest has the hash that the record names, and each file the length and the hash that
//!   its manifest names.
//!
//! Snapshots are received in `incoming/HASH/`. Their bytes survive a restart, so a transfer goes on
//! where it broke off.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use spirea_protocols::Version;
use spirea_protocols::signature::{Pin, PublicKey};

use super::Repository;
use super::log::{self, BASES, DELTAS, StoredRecord, VersionRecord, snapshot_path};
use crate::error::IoContext;
use crate::files::{sync_folder, write_synced};
use crate::manifest::{FileEntry, MANIFEST_FILE, Manifest};
use crate::succession::{Shrinking, check_successor};
use crate::{Silent, Snapshot, StoreError};

/// Name of the folder of snapshots that are being received.
const INCOMING: &str = "incoming";
/// Number of bytes of a file that are requested at once. Shorter in tests, whose files are short.
const PIECE_BYTES: u64 = if cfg!(test) { 64 << 10 } else { 4 << 20 };

/// Another repository, from which versions are copied. Nothing that it returns is trusted.
pub trait Publisher {
    /// Error of the other repository.
    type Error: From<StoreError>;

    /// Returns the current version, whose record has at most [`MAX_RECORD_BYTES`]; `None` if there
    /// is no version yet.
    ///
    /// [`MAX_RECORD_BYTES`]: super::MAX_RECORD_BYTES
    ///
    /// # Errors
    /// The error of the other repository.
    fn record(&self) -> Result<Option<Published>, Self::Error>;

    /// Returns the manifest of a snapshot, of at most
    /// [`MAX_MANIFEST_BYTES`](crate::manifest::MAX_MANIFEST_BYTES).
    ///
    /// # Errors
    /// The error of the other repository.
    fn manifest(&self, snapshot: &Version) -> Result<Vec<u8>, Self::Error>;

    /// Returns the bytes `range` of a file of a snapshot, and no others.
    ///
    /// # Errors
    /// The error of the other repository.
    fn piece(&self, snapshot: &Version, file: &FileEntry, range: Range<u64>) -> Result<Vec<u8>, Self::Error>;
}

/// The current version of another repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// The version's record, byte for byte.
    pub record: Vec<u8>,
    /// The version that answers there, which may be the previous version; `None` if unknown.
    pub answering: Option<Version>,
}

/// Relation of the version that another repository offers to the current one here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Offer {
    /// The other repository has no version yet.
    Nothing,
    /// The current version here is the same.
    Same,
    /// The version is newer.
    Newer {
        /// The version's record.
        record: Box<StoredRecord>,
        /// False as long as another version answers there.
        answers: bool,
    },
}

/// Conditions for the versions that are copied.
#[derive(Clone, Copy, Debug)]
pub struct Trust<'a> {
    /// Name of the database.
    pub name: &'a str,
    /// The key that must have signed every version. Without a key, a signature must be valid, and
    /// unsigned versions are taken.
    pub key: Option<&'a PublicKey>,
    /// Maximum bytes of the repository's files while a version is copied; without it, the disk's
    /// free space is the limit.
    pub disk: Option<u64>,
}

impl Repository {
    /// Reads the record of the current version of `publisher`, and checks whether it can follow the
    /// current version here.
    ///
    /// # Errors
    /// Those of `publisher`; [`StoreError::BadCopy`] if the record is malformed or older than the
    /// current version; [`StoreError::Protocol`] if its signature is missing or wrong.
    pub fn offered<P: Publisher>(&self, publisher: &P, trust: Trust<'_>) -> Result<Offer, P::Error> {
        let Some(published) = publisher.record()? else { return Ok(Offer::Nothing) };
        Ok(self.judge(&published, trust)?)
    }

    fn judge(
        &self,
        Published { record, answering }: &Published,
        Trust { name, key, .. }: Trust<'_>,
    ) -> Result<Offer, StoreError> {
        let record = StoredRecord::from_bytes(record)
            .map_err(|cause| StoreError::BadCopy(format!("the record of a version: {cause}")))?;
        let (version, current) = (record.version(), self.current());
        let last = current.as_ref().map_or(0, |current| current.sequence);
        if current.is_some_and(|current| (current.sequence, current.version) == (record.sequence, version)) {
            return Ok(Offer::Same);
        }
        if record.sequence <= last {
            return Err(StoreError::BadCopy(format!(
                "the version offered has number {}, and the current one here {last}: the other repository is older, and is not followed back",
                record.sequence
            )));
        }
        let signature = record.signature.as_ref();
        if let Some(key) = key.copied().or(signature.map(|signature| signature.key)) {
            Pin { key, sequence: record.sequence }.accept(name, &version, signature)?;
        }
        // A signature with an earlier number could be that of a withdrawn version.
        if signature.is_some_and(|signature| signature.sequence != record.sequence) {
            let detail = "the record's number is not the one that its signature signs";
            return Err(StoreError::BadCopy(detail.into()));
        }
        Ok(Offer::Newer {
            record: Box::new(record),
            answers: answering.is_none_or(|answering| answering == version),
        })
    }

    /// Receives the snapshots that `record` names and that are not here, verifies them and moves
    /// them into place. The version is complete when this returns, and
    /// [`Repository::commit_copy`] makes it current.
    ///
    /// # Errors
    /// Those of `publisher`; the next call then resumes after the received bytes;
    /// [`StoreError::BadCopy`] and [`StoreError::Damaged`] if the received data does not match the
    /// record; [`StoreError::Io`], also if the disk has no room; [`StoreError::OverQuota`];
    /// [`StoreError::BadOption`] if the current version's clients could not follow.
    pub fn receive<P: Publisher>(
        &self,
        publisher: &P,
        record: &StoredRecord,
        trust: Trust<'_>,
    ) -> Result<VersionRecord, P::Error> {
        let parts = [Some(Part { version: record.base, delta_of: None }), record.delta_part()];
        let missing: Vec<_> = parts
            .into_iter()
            .flatten()
            .filter(|part| !snapshot_path(self.folder(), part.kind(), &part.version).is_dir())
            .map(|part| Incoming { folder: self.incoming(&part.version), part })
            .collect();
        self.forget_incoming(&missing)?;
        for incoming in &missing {
            incoming.receive(publisher, trust.name, |needed| self.check_quota(needed, trust.disk))?;
        }
        Ok(self.place(&missing, record, trust.name)?)
    }

    fn incoming(&self, version: &Version) -> PathBuf {
        snapshot_path(self.folder(), INCOMING, version)
    }

    /// Checks that the repository's files may take `needed` more bytes.
    fn check_quota(&self, needed: u128, most: Option<u64>) -> Result<(), StoreError> {
        let Some(most) = most else { return Ok(()) };
        let kinds = [BASES, DELTAS, INCOMING].map(|kind| self.folder().join(kind));
        let kept = kinds.iter().map(|folder| bytes_below(folder)).sum::<Result<u128, _>>()?;
        if kept + needed > u128::from(most) {
            let [needed, kept] = [needed, kept].map(|bytes| u64::try_from(bytes).unwrap_or(u64::MAX));
            return Err(StoreError::OverQuota { path: self.folder().into(), needed, kept, most });
        }
        Ok(())
    }

    /// Removes the received parts of all snapshots except `kept`.
    fn forget_incoming(&self, kept: &[Incoming]) -> Result<(), StoreError> {
        let folder = self.folder().join(INCOMING);
        fs::create_dir_all(&folder).at("create", &folder)?;
        let kept: HashSet<_> = kept.iter().map(|incoming| incoming.folder.clone()).collect();
        for entry in fs::read_dir(&folder).at("read", &folder)? {
            let path = entry.at("read", &folder)?.path();
            if !kept.contains(&path) {
                let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
                removed.at("remove", &path)?;
            }
        }
        Ok(())
    }

    /// Moves complete snapshots into place, and opens the version that they belong to.
    fn place(
        &self,
        received: &[Incoming],
        record: &StoredRecord,
        name: &str,
    ) -> Result<VersionRecord, StoreError> {
        for Incoming { folder, part } in received {
            let place = snapshot_path(self.folder(), part.kind(), &part.version);
            sync_folder(folder)?;
            fs::rename(folder, &place).at("rename", folder)?;
            sync_folder(&self.folder().join(part.kind()))?;
        }
        let version = log::resolve(self.folder(), record, &log::record_path(self.folder(), record.sequence))?;
        if version.name() != name {
            let found = version.name();
            return Err(StoreError::BadCopy(format!(
                "the version is of the database {found:?}, not of {name:?}"
            )));
        }
        if let Some(current) = self.current() {
            // The publisher has decided how many values a version may lose.
            let former = current.base.manifest();
            check_successor(version.base.manifest(), former, former.table.entries, Shrinking::Allow)?;
        }
        Ok(version)
    }

    /// Makes a version that [`Repository::receive`] returned the current one, with the number, time
    /// and signature that it has in the other repository.
    ///
    /// # Errors
    /// [`StoreError::Io`]; [`StoreError::Busy`] if another version has become current meanwhile.
    pub fn commit_copy(&self, record: VersionRecord) -> Result<(), StoreError> {
        let _writing = self.writing.lock();
        if self.current().is_some_and(|current| current.sequence >= record.sequence) {
            let detail = "another version has become current meanwhile".into();
            return Err(StoreError::Busy { path: self.folder().into(), detail });
        }
        self.make_current(record)
    }
}

impl StoredRecord {
    fn delta_part(&self) -> Option<Part> {
        self.delta.map(|version| Part { version, delta_of: Some(self.base) })
    }
}

/// A snapshot that a record names.
#[derive(Clone, Copy, Debug)]
struct Part {
    version: Version,
    /// For a delta, the version of its base.
    delta_of: Option<Version>,
}

impl Part {
    fn kind(&self) -> &'static str {
        if self.delta_of.is_none() { BASES } else { DELTAS }
    }
}

/// A snapshot that is being received.
#[derive(Debug)]
struct Incoming {
    folder: PathBuf,
    part: Part,
}

impl Incoming {
    /// Receives what is missing, until every file has its length and its hash.
    fn receive<P: Publisher>(
        &self,
        publisher: &P,
        name: &str,
        check_quota: impl Fn(u128) -> Result<(), StoreError>,
    ) -> Result<(), P::Error> {
        fs::create_dir_all(&self.folder).at("create", &self.folder)?;
        let manifest = match self.received_manifest() {
            Some(manifest) => manifest,
            None => self.take_manifest(&publisher.manifest(&self.part.version)?, name)?,
        };
        let needed = self.missing(&manifest);
        self.check_room(needed)?;
        check_quota(needed)?;
        for entry in manifest.files() {
            self.receive_file(entry, |range| publisher.piece(&self.part.version, entry, range))?;
        }
        Ok(())
    }

    /// Returns the manifest that was received before, if it is whole.
    fn received_manifest(&self) -> Option<Manifest> {
        let snapshot = Snapshot::open(&self.folder).ok()?;
        (snapshot.version() == self.part.version).then(|| snapshot.manifest().clone())
    }

    /// Checks a manifest and stores it.
    fn take_manifest(&self, bytes: &[u8], name: &str) -> Result<Manifest, StoreError> {
        let bad = |detail: String| StoreError::BadCopy(format!("a manifest: {detail}"));
        let (manifest, version) = Manifest::from_bytes(bytes).map_err(|error| bad(error.to_string()))?;
        if version != self.part.version {
            return Err(bad("it does not have the hash that the record names".into()));
        }
        if manifest.delta_of != self.part.delta_of {
            return Err(bad("the record names it in another place".into()));
        }
        if manifest.name != name {
            return Err(bad(format!("it is of the database {:?}, not of {name:?}", manifest.name)));
        }
        write_synced(&self.folder.join(MANIFEST_FILE), bytes)?;
        Ok(manifest)
    }

    /// Returns the number of bytes that are missing.
    fn missing(&self, manifest: &Manifest) -> u128 {
        let missing = |entry: &FileEntry| {
            let received = fs::metadata(self.folder.join(&entry.file)).map_or(0, |file| file.len());
            u128::from(entry.bytes.saturating_sub(received))
        };
        manifest.files().map(missing).sum()
    }

    /// Checks that the disk has room for `needed` bytes.
    fn check_room(&self, needed: u128) -> Result<(), StoreError> {
        let space = rustix::fs::statvfs(&self.folder).map_err(io::Error::from).at("measure", &self.folder)?;
        let free = u128::from(space.f_bavail) * u128::from(space.f_frsize);
        if needed > free {
            let detail = format!("{needed} bytes are to come, and {free} are free");
            return Err(io::Error::new(ErrorKind::StorageFull, detail)).at("receive", &self.folder);
        }
        Ok(())
    }

    /// Receives the rest of a file in pieces, and verifies the whole.
    fn receive_file<E: From<StoreError>>(
        &self,
        entry: &FileEntry,
        piece: impl Fn(Range<u64>) -> Result<Vec<u8>, E>,
    ) -> Result<(), E> {
        let path = self.folder.join(&entry.file);
        let file =
            OpenOptions::new().create(true).truncate(false).write(true).open(&path).at("create", &path)?;
        let mut received = file.metadata().at("read", &path)?.len();
        if received > entry.bytes {
            file.set_len(0).at("write", &path)?;
            received = 0;
        }
        while received < entry.bytes {
            let end = entry.bytes.min(received + PIECE_BYTES);
            let bytes = piece(received..end)?;
            if bytes.len() as u64 != end - received {
                let (found, wanted) = (bytes.len(), end - received);
                let detail = format!("{}: {found} bytes came where {wanted} were asked for", entry.file);
                return Err(StoreError::BadCopy(detail).into());
            }
            file.write_all_at(&bytes, received).at("write", &path)?;
            received = end;
        }
        file.sync_all().at("sync", &path)?;
        self.verify(entry, &file, &path).map_err(E::from)
    }

    /// Compares a file with its hash. A wrong file is emptied, so that the next attempt begins
    /// anew.
    fn verify(&self, entry: &FileEntry, file: &File, path: &Path) -> Result<(), StoreError> {
        let verified = Snapshot::open(&self.folder)?.verify_file(&entry.file, &Silent);
        if let Err(StoreError::Damaged { .. }) = verified {
            file.set_len(0).at("write", path)?;
        }
        verified
    }
}

/// Returns the bytes of the files in the snapshots' folders in `folder`.
fn bytes_below(folder: &Path) -> Result<u128, StoreError> {
    let mut bytes = 0;
    for snapshot in fs::read_dir(folder).at("read", folder)? {
        let snapshot = snapshot.at("read", folder)?.path();
        for file in fs::read_dir(&snapshot).at("read", &snapshot)? {
            let file = file.at("read", &snapshot)?;
            bytes += u128::from(file.metadata().at("read", &file.path())?.len());
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;
