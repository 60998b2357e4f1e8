//! Compaction: merges a base and the changes of its delta into a new base.
//!
//! If every changed value still fits its record, and few records change, the new base is the old
//! one with these records replaced. Otherwise all records are rebuilt from the old records and the
//! changes, at fresh places, so that keys aimed at one record are spread. The salt stays, so the
//! tags in entries remain valid.
//!
//! If clients hold a hint, the seed stays. For records changed in place, the hint's rows that the
//! changes affect are made anew, and clients fetch only the rows that differ. If clients hold no
//! hint, the seed is drawn anew and everything is recomputed, so that content chosen against a
//! public matrix affects one base at most.
//!
//! An entry with several copies changes in every record that holds one, and is counted in the
//! first.
//!
//! Records with inclusion proofs are always rebuilt: a changed record is part of the proofs of all
//! records under its root, so a few changes affect nearly all proofs.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use spirea_backend::ProtocolBackend;
use spirea_math::random::Seed;
use spirea_protocols::delta::{Change, index_key};
use spirea_protocols::keyword::{Bucket, KeyHash, entries, entry_bytes};
use spirea_protocols::registry::ProtocolParams;
use spirea_protocols::table::Boundaries;
use spirea_protocols::{ChangedRecord, PatchedFiles, ProtocolError, Table, TableKind};

use super::draft::{Computed, Draft};
use super::draws::Draws;
use super::options::ValueLimit;
use super::prove::Proving;
use super::records::Collector;
use super::schema::Schema;
use super::test::Samples;
use crate::error::IoContext;
use crate::files::entry;
use crate::manifest::{FileEntry, HINT_FILE, MATRIX_FILE, SERVER_FILE};
use crate::record_file::RecordFile;
use crate::{Changes, Location, Phase, Progress, Snapshot, Statistics, StoreError, time};

/// Minimum ratio of unchanged to changed records at which a table is changed in place. Below this
/// ratio, computing the whole hint anew is less work.
const STAYING: u64 = 16;
/// Records between two reports of progress.
const REPORT_RECORDS: u64 = 1 << 13;

/// Builds `base` with these changes into `folder`, which exists and is empty.
///
/// # Errors
/// See [`StoreError`]; [`StoreError::Empty`] if nothing would be left.
pub(crate) fn compact<B: ProtocolBackend>(
    base: &Snapshot,
    changes: &Changes,
    folder: &Path,
    backend: &Arc<B>,
    progress: &dyn Progress,
) -> Result<(), StoreError> {
    match Edits::of(base, changes)? {
        Some(edits) => patch(base, edits, folder, backend, progress),
        None => rebuild(base, changes, folder, backend, progress),
    }
}

/// The affected records of a base, before and after the changes.
struct Edits {
    records: Vec<ChangedRecord>,
    entries: u64,
    statistics: Statistics,
}

impl Edits {
    /// Returns the edits, or `None` if the base must be rebuilt.
    fn of(base: &Snapshot, changes: &Changes) -> Result<Option<Self>, StoreError> {
        let (table, statistics) = (&base.manifest().table, base.manifest().statistics.clone());
        if table.proofs.is_some() {
            return Ok(None);
        }
        if changes.rows_of(table) > table.entries && table.kind == TableKind::Index {
            return Ok(None);
        }
        let boundaries = table.boundaries();
        let touched = by_record(table, &boundaries, changes.iter());
        if touched.len() as u64 * STAYING > table.records {
            return Ok(None);
        }
        let file = RecordFile::open(base.manifest().protocol.stored, &base.matrix_path())?;
        let mut edits = Self { records: Vec::new(), entries: table.entries, statistics };
        let indices: Vec<_> = touched.keys().copied().collect();
        for (found, changes) in file.records(&indices).zip(touched.into_values()) {
            let (index, old) = found?;
            let payload = unseal(base, index, &old)?;
            let changed = match table.kind {
                TableKind::Keyword => {
                    let is_first = |hash: &KeyHash| boundaries.of_entry(&hash.tag)[0] == index;
                    edits.bucket(table, payload, changes, is_first)?
                }
                TableKind::Index => edits.rows(table, boundaries.rows(index), payload, changes)?,
            };
            if changed.len() > table.payload_bytes {
                return Ok(None);
            }
            let new = table.seal(index, &changed);
            edits.records.push(ChangedRecord { index, old, new });
        }
        edits.statistics.rows = edits.entries;
        edits.statistics.longest_value_row = None;
        edits.statistics.without_longest = None;
        Ok((edits.entries > 0).then_some(edits))
    }

    /// Returns the payload of a bucket with its changes. Entries keep their positions if possible,
    /// so that fewer bytes change. `is_first` returns true for the entries that are counted in this
    /// bucket.
    fn bucket(
        &mut self,
        table: &Table,
        payload: &[u8],
        changes: Vec<(&[u8], Change<'_>)>,
        is_first: impl Fn(&KeyHash) -> bool,
    ) -> Result<Vec<u8>, ProtocolError> {
        let mut values = entries(payload).collect::<Result<Vec<_>, _>>()?;
        let hashes: Vec<_> = changes.iter().map(|(key, _)| KeyHash::new(&table.salt, key)).collect();
        for (hash, (_, change)) in hashes.iter().zip(&changes) {
            let place = values.iter().position(|(tag, _)| **tag == hash.tag);
            if is_first(hash) {
                if let Some(place) = place {
                    self.count_out(values[place].1.len(), entry_bytes);
                    self.entries -= 1;
                }
                if let Change::Put(value) = change {
                    self.count_in(value.len(), entry_bytes);
                    self.entries += 1;
                }
            }
            match (place, change) {
                (Some(place), Change::Put(value)) => values[place].1 = value,
                (None, Change::Put(value)) => values.push((&hash.tag, value)),
                (Some(place), Change::Delete) => {
                    values.remove(place);
                }
                (None, Change::Delete) => {}
            }
        }
        let mut bucket = Bucket::default();
        values.iter().for_each(|(tag, value)| bucket.push(tag, value));
        Ok(bucket.payload())
    }

    /// Returns the payload of a record of these rows with its changes.
    fn rows(
        &mut self,
        table: &Table,
        present: Range<u64>,
        payload: &[u8],
        changes: Vec<(&[u8], Change<'_>)>,
    ) -> Result<Vec<u8>, ProtocolError> {
        let mut values = table.row_values(payload, (present.end - present.start) as usize)?;
        for (key, change) in changes {
            let value = &mut values[(row_of(key) - present.start) as usize];
            self.count_out(value.map_or(0, <[u8]>::len), Table::index_payload_bytes);
            *value = match change {
                Change::Put(new) => Some(new),
                Change::Delete => None,
            };
            self.count_in(value.map_or(0, <[u8]>::len), Table::index_payload_bytes);
        }
        Ok(table.rows_payload(&values))
    }

    fn count_out(&mut self, bytes: usize, framed: fn(usize) -> usize) {
        self.statistics.value_bytes -= bytes as u64;
        self.statistics.entry_bytes -= framed(bytes) as u64;
    }

    fn count_in(&mut self, bytes: usize, framed: fn(usize) -> usize) {
        self.statistics.value_bytes += bytes as u64;
        self.statistics.entry_bytes += framed(bytes) as u64;
        self.statistics.longest_value_bytes = self.statistics.longest_value_bytes.max(bytes as u64);
    }
}

/// Groups changes by the records of the base that hold their key.
fn by_record<'c>(
    table: &Table,
    boundaries: &Boundaries,
    changes: impl Iterator<Item = (&'c [u8], Change<'c>)>,
) -> BTreeMap<u64, Vec<(&'c [u8], Change<'c>)>> {
    let mut touched = BTreeMap::<_, Vec<_>>::new();
    for (key, change) in changes {
        let records = match table.kind {
            TableKind::Keyword => boundaries.of_entry(&KeyHash::new(&table.salt, key).tag),
            TableKind::Index => vec![boundaries.of_row(row_of(key))],
        };
        for record in records {
            touched.entry(record).or_default().push((key, change));
        }
    }
    touched
}

/// Returns the number of values that `base` has after the changes `before` and then `changes`.
/// `values` is the number after `before` alone. Rows of a table by position count even without a
/// value.
///
/// # Errors
/// [`StoreError::Damaged`] if an affected record cannot be read, [`StoreError::Io`].
pub(crate) fn values_with(
    base: &Snapshot,
    values: u64,
    before: &Changes,
    changes: &Changes,
) -> Result<u64, StoreError> {
    let table = &base.manifest().table;
    if table.kind == TableKind::Index {
        return Ok(values.max(changes.rows_of(table)));
    }
    let is_put = |change: &Change<'_>| matches!(change, Change::Put(_));
    let (mut gained, mut lost) = (0, 0);
    let mut count = |was_there, change: &Change<'_>| match (was_there, is_put(change)) {
        (false, true) => gained += 1,
        (true, false) => lost += 1,
        _ => {}
    };
    let (again, anew): (Vec<_>, Vec<_>) = changes.iter().partition(|(key, _)| before.get(key).is_some());
    for (key, change) in &again {
        count(before.get(key).is_some_and(|change| is_put(&change)), change);
    }
    let file = RecordFile::open(base.manifest().protocol.stored, &base.matrix_path())?;
    let boundaries = table.boundaries();
    let touched = by_record(table, &boundaries, anew.into_iter());
    let indices: Vec<_> = touched.keys().copied().collect();
    for (found, changes) in file.records(&indices).zip(touched.into_values()) {
        let (index, record) = found?;
        let tags = entries(unseal(base, index, &record)?).map(|entry| entry.map(|(tag, _)| *tag));
        let tags = tags.collect::<Result<HashSet<_>, _>>()?;
        for (key, change) in &changes {
            let tag = KeyHash::new(&table.salt, key).tag;
            if boundaries.of_entry(&tag)[0] == index {
                count(tags.contains(&tag), change);
            }
        }
    }
    Ok(values + gained - lost)
}

/// Returns the payload of a base's record.
fn unseal<'r>(base: &Snapshot, index: u64, record: &'r [u8]) -> Result<&'r [u8], StoreError> {
    base.manifest().table.unseal(index, record).map_err(|_| StoreError::Damaged {
        path: base.matrix_path(),
        detail: format!("the checksum of record {index} is wrong"),
    })
}

/// Returns the row of a change of a table by position.
fn row_of(key: &[u8]) -> u64 {
    u64::from_le_bytes(key.try_into().expect("changes have been checked"))
}

fn patch<B: ProtocolBackend>(
    base: &Snapshot,
    edits: Edits,
    folder: &Path,
    backend: &Arc<B>,
    progress: &dyn Progress,
) -> Result<(), StoreError> {
    let Edits { records, entries, statistics } = edits;
    let manifest = base.manifest();
    let [matrix, hint, server] = [MATRIX_FILE, HINT_FILE, SERVER_FILE].map(|name| folder.join(name));
    let copy = |file: &FileEntry| {
        let (from, to) = (base.folder().join(&file.file), folder.join(&file.file));
        fs::copy(&from, &to).at("copy", &from)
    };
    copy(&manifest.matrix)?;
    let mut file = RecordFile::edit(manifest.protocol.stored, &matrix)?;
    for (done, change) in (0..).zip(&records) {
        file.write(change.index, &change.new)?;
        progress.update(Phase::Encode, done, records.len() as u64);
    }
    let samples = Samples::of_file(manifest.table.records, records[0].index, &mut file)?;
    let draft = Draft {
        name: manifest.name.clone(),
        created: time::created()?,
        table: match manifest.table.kind {
            TableKind::Keyword => Table { entries, ..manifest.table.clone() },
            TableKind::Index => manifest.table.clone(),
        },
        protocol: manifest.protocol.reseeded(seed_after(&manifest.protocol)?),
        statistics,
        samples,
        delta_of: None,
        changes: None,
        apple: None,
        kept: None,
    };
    let computed = match manifest.protocol.hint_lasts() {
        true => {
            copy(&manifest.hint)?;
            manifest.server.as_ref().map(copy).transpose()?;
            let files = PatchedFiles { matrix: &matrix, hint: &hint, server: &server };
            manifest.protocol.on().patch(backend, &files, &records)?;
            let quiet = &mut |_| ();
            Computed {
                hint: entry(folder, HINT_FILE, quiet)?,
                server: manifest.server.as_ref().map(|_| entry(folder, SERVER_FILE, quiet)).transpose()?,
                opened: None,
            }
        }
        false => draft.compute(folder, backend, progress)?,
    };
    draft.complete(folder, computed, backend, progress).map(drop)
}

/// Returns the seed of the public matrices for a base that replaces a base with the parameters
/// `protocol`. Call this function only after the new base's records are fixed.
fn seed_after(protocol: &ProtocolParams) -> Result<Seed, StoreError> {
    match protocol.seed() {
        Some(seed) if protocol.hint_lasts() => Ok(seed),
        _ => Draws::System.seed(),
    }
}

fn rebuild<B: ProtocolBackend>(
    base: &Snapshot,
    changes: &Changes,
    folder: &Path,
    backend: &Arc<B>,
    progress: &dyn Progress,
) -> Result<(), StoreError> {
    let manifest = base.manifest();
    let table = &manifest.table;
    let spool = folder.join("spool");
    fs::create_dir(&spool).at("create", &spool)?;
    let limit = ValueLimit::Given(table.value_limit());
    let mut collector =
        Collector::create(table.kind, &spool, base.folder(), table.salt, Schema::of(table), limit)?;
    let place = || Location::File(base.folder().into());
    let by_hash: HashMap<KeyHash, Change<'_>> =
        changes.iter().map(|(key, change)| (KeyHash::new(&table.salt, key), change)).collect();
    let boundaries = table.boundaries();
    let mut file = RecordFile::open(manifest.protocol.stored, &base.matrix_path())?;
    file.scan(|index, record| {
        if index.is_multiple_of(REPORT_RECORDS) {
            progress.update(Phase::Read, index, table.records);
        }
        let payload = unseal(base, index, record)?;
        match table.kind {
            TableKind::Keyword => entries(payload).try_for_each(|entry| {
                let (tag, value) = entry?;
                let hash = KeyHash { tag: *tag };
                let is_first = boundaries.of_entry(tag)[0] == index;
                match by_hash.contains_key(&hash) || !is_first {
                    true => Ok(()),
                    false => collector.push(Some(&hash), Some(value), place),
                }
            }),
            TableKind::Index => {
                let present = boundaries.rows(index);
                let values = table.row_values(payload, (present.end - present.start) as usize)?;
                present.zip(values).try_for_each(|(row, former)| {
                    let value = match changes.get(&index_key(row)) {
                        Some(Change::Put(value)) => Some(value),
                        Some(Change::Delete) => None,
                        None => former,
                    };
                    collector.push(None, value, place)
                })
            }
        }
    })?;
    match table.kind {
        TableKind::Keyword => {
            for (hash, change) in &by_hash {
                if let Change::Put(value) = change {
                    collector.push(Some(hash), Some(value), place)?;
                }
            }
        }
        TableKind::Index => {
            for row in table.entries..changes.rows_of(table) {
                let value = match changes.get(&index_key(row)) {
                    Some(Change::Put(value)) => Some(value),
                    _ => None,
                };
                collector.push(None, value, place)?;
            }
        }
    }
    let rows = collector.finish()?;
    let proving = Proving::anew(table, &manifest.protocol, rows.records(Proving::of(table)));
    let planned = rows.plan(proving, &Draws::System, progress)?;
    let table = planned.table().clone();
    let seed = seed_after(&manifest.protocol)?;
    let protocol = manifest.protocol.reshaped(seed, table.records, table.record_bytes())?;
    let (statistics, samples) = planned.encode(protocol.stored, &folder.join(MATRIX_FILE), progress)?;
    fs::remove_dir_all(&spool).at("remove", &spool)?;
    let draft = Draft {
        name: manifest.name.clone(),
        created: time::created()?,
        table,
        protocol,
        statistics: Statistics { longest_value_row: None, ..statistics },
        samples,
        delta_of: None,
        changes: None,
        apple: None,
        kept: None,
    };
    let computed = draft.compute(folder, backend, progress)?;
    draft.complete(folder, computed, backend, progress).map(drop)
}
