//! The log of a repository's versions: a small file for each version, named by its sequence number.
//!
//! On disk a record is `{"blake3": HASH, "record": {...}}` in one canonical form, like a manifest.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use spirea_protocols::{FileHash, Version, delta, signature::Signature};

use crate::changes::{Changes, Cursor};
use crate::error::IoContext;
use crate::files::{TEMPORARY, read_at_most, replace};
use crate::{Snapshot, StoreError, time};

/// Name of the folder of the records, which distinguishes a repository from a snapshot.
pub const VERSIONS: &str = "versions";
/// Name of the folder of the bases.
pub(super) const BASES: &str = "bases";
/// Name of the folder of the deltas.
pub(super) const DELTAS: &str = "deltas";
/// Maximum length of a record, in bytes.
pub const MAX_RECORD_BYTES: usize = 1 << 20;

/// A version of a database: a base and optionally a delta.
#[derive(Clone, Debug)]
pub struct VersionRecord {
    /// Hash by which clients name this version: see [`delta::version`].
    pub version: Version,
    /// Sequence number. It rises each time a version becomes current, also by a rollback.
    pub sequence: u64,
    /// Time when the version became current: RFC 3339 in UTC, to the second.
    pub created: String,
    /// The base.
    pub base: Snapshot,
    /// Changes since the base, if any.
    pub delta: Option<Snapshot>,
    /// Number of values in base and delta together, or of rows for a table by position; `None` in a
    /// record of an earlier release with a delta.
    pub values: Option<u64>,
    /// The operator's signature.
    pub signature: Option<Signature>,
    /// Versions that roll-backs had abandoned when this version became current, without those that
    /// became current again.
    pub abandoned: Vec<Version>,
    /// Position of the producer whose changes the version contains, if the producer gave one.
    pub cursor: Option<Cursor>,
}

impl VersionRecord {
    /// Returns the snapshots that a server opens.
    pub fn snapshots(&self) -> impl Iterator<Item = &Snapshot> {
        [Some(&self.base), self.delta.as_ref()].into_iter().flatten()
    }

    /// Returns the name of the dataset.
    pub fn name(&self) -> &str {
        &self.base.manifest().name
    }

    /// Reads the changes of the delta.
    pub(super) fn changes(&self) -> Result<Changes, StoreError> {
        let Some(delta) = &self.delta else { return Ok(Changes::new()) };
        let path = delta.changes_path();
        let damaged = |detail: &str| StoreError::Damaged { path: path.clone(), detail: detail.into() };
        let entry =
            delta.manifest().changes.as_ref().ok_or_else(|| damaged("its manifest does not name it"))?;
        let bytes = read_at_most(&path, entry.bytes).at("read", &path)?;
        if entry.blake3 != FileHash::new(*blake3::hash(&bytes).as_bytes()) {
            return Err(damaged("its content does not match the manifest's hash"));
        }
        Changes::from_bytes(&bytes).map_err(|error| damaged(&error.to_string()))
    }
}

/// Content of a record's file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredRecord {
    /// Sequence number of the version.
    pub sequence: u64,
    /// Time when the version became current: RFC 3339 in UTC, to the second.
    pub created: String,
    /// Version of the base.
    pub base: Version,
    /// Version of the delta, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delta: Option<Version>,
    /// Number of values, for a version with a delta, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<u64>,
    /// The operator's signature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<Signature>,
    /// Versions that roll-backs abandoned: see [`VersionRecord::abandoned`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub abandoned: Vec<Version>,
    /// Position of the producer: see [`VersionRecord::cursor`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Cursor>,
}

impl From<&VersionRecord> for StoredRecord {
    fn from(record: &VersionRecord) -> Self {
        Self {
            sequence: record.sequence,
            created: record.created.clone(),
            base: record.base.version(),
            delta: record.delta.as_ref().map(Snapshot::version),
            values: record.delta.as_ref().and(record.values),
            signature: record.signature.clone(),
            abandoned: record.abandoned.clone(),
            cursor: record.cursor.clone(),
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope<S> {
    blake3: FileHash,
    record: S,
}

impl StoredRecord {
    /// Returns the hash by which clients name the version: see [`delta::version`].
    pub fn version(&self) -> Version {
        delta::version(self.base, self.delta)
    }

    /// Returns the bytes of the record's file, always the same for equal records.
    pub fn to_bytes(&self) -> Vec<u8> {
        let content = serde_json::to_vec(self).expect("a record is plain data");
        let envelope = Envelope { blake3: blake3::hash(&content).into(), record: self };
        let mut bytes = serde_json::to_vec_pretty(&envelope).expect("a record is plain data");
        bytes.push(b'\n');
        bytes
    }

    /// Parses the bytes of a record's file.
    ///
    /// # Errors
    /// The cause, if the bytes are not in the form that this software writes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() > MAX_RECORD_BYTES {
            return Err(format!("it is longer than {MAX_RECORD_BYTES} bytes"));
        }
        let envelope: Envelope<Self> = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        let record = envelope.record;
        if record.to_bytes() != bytes || !time::is_rfc3339(&record.created) {
            return Err("it does not match its hash, or was edited".into());
        }
        Ok(record)
    }
}

/// Returns the path of a record.
pub(super) fn record_path(folder: &Path, sequence: u64) -> PathBuf {
    // Every name has twenty digits, so that names sort in the order of the numbers.
    folder.join(VERSIONS).join(format!("{sequence:020}.json"))
}

/// Returns the folder of a base or a delta.
pub(super) fn snapshot_path(folder: &Path, kind: &str, version: &Version) -> PathBuf {
    folder.join(kind).join(version.to_string())
}

/// Writes a record; the version is current when this returns.
pub(super) fn write(folder: &Path, record: &VersionRecord) -> Result<(), StoreError> {
    replace(&record_path(folder, record.sequence), &StoredRecord::from(record).to_bytes())
}

/// Reads all records, newest first. Ignores files that an interrupted process has not finished.
///
/// # Errors
/// [`StoreError::NotARepository`], [`StoreError::BadLog`], those of [`Snapshot::open`].
pub(super) fn read(folder: &Path) -> Result<Vec<VersionRecord>, StoreError> {
    let versions = folder.join(VERSIONS);
    if !versions.is_dir() {
        return Err(StoreError::NotARepository { path: folder.into() });
    }
    let mut records = Vec::new();
    for file in fs::read_dir(&versions).at("read", &versions)? {
        let path = file.at("read", &versions)?.path();
        if path.extension().is_none_or(|extension| extension != TEMPORARY) {
            records.push(read_record(folder, &path)?);
        }
    }
    records.sort_unstable_by_key(|record| std::cmp::Reverse(record.sequence));
    Ok(records)
}

fn read_record(folder: &Path, path: &Path) -> Result<VersionRecord, StoreError> {
    let bad = |detail: String| StoreError::BadLog { path: path.into(), detail };
    let bytes = read_at_most(path, MAX_RECORD_BYTES as u64).at("read", path)?;
    let stored = StoredRecord::from_bytes(&bytes).map_err(bad)?;
    if record_path(folder, stored.sequence) != path {
        return Err(bad(format!("its sequence number {} is not its name", stored.sequence)));
    }
    resolve(folder, &stored, path)
}

/// Opens the snapshots that a record names. Errors name the record's `path`.
///
/// # Errors
/// [`StoreError::BadLog`] if a snapshot is missing or is not what the record says; those of
/// [`Snapshot::open`].
pub(super) fn resolve(
    folder: &Path,
    stored: &StoredRecord,
    path: &Path,
) -> Result<VersionRecord, StoreError> {
    let bad = |detail: &str| StoreError::BadLog { path: path.into(), detail: detail.into() };
    let base = open(folder, BASES, &stored.base, path)?;
    let delta = stored.delta.map(|delta| open(folder, DELTAS, &delta, path)).transpose()?;
    if base.manifest().delta_of.is_some() {
        return Err(bad("its base is a delta"));
    }
    if delta.as_ref().is_some_and(|delta| delta.manifest().delta_of != Some(stored.base)) {
        return Err(bad("its delta is not one of its base"));
    }
    Ok(VersionRecord {
        version: stored.version(),
        sequence: stored.sequence,
        created: stored.created.clone(),
        values: if delta.is_some() { stored.values } else { Some(base.manifest().table.entries) },
        base,
        delta,
        signature: stored.signature.clone(),
        abandoned: stored.abandoned.clone(),
        cursor: stored.cursor.clone(),
    })
}

/// Opens a snapshot named by a record.
fn open(folder: &Path, kind: &str, version: &Version, record: &Path) -> Result<Snapshot, StoreError> {
    let path = snapshot_path(folder, kind, version);
    if !path.is_dir() {
        let detail = format!("it names {}, which is not there", path.display());
        return Err(StoreError::BadLog { path: record.into(), detail });
    }
    let snapshot = Snapshot::open(&path)?;
    if snapshot.version() != *version {
        let detail = format!("it has version {}, which is not its name", snapshot.version());
        return Err(StoreError::Damaged { path, detail });
    }
    Ok(snapshot)
}
