//! From changes to a delta: a small keyword table beside its base.

use std::path::Path;
use std::sync::Arc;

use spirea_backend::ProtocolBackend;
use spirea_protocols::keyword::{Bucket, BucketPlanner, KeyHash, Overpadded, entry_bytes};
use spirea_protocols::table::CHECKSUM_BYTES;
use spirea_protocols::{Table, TableKind, delta};

use super::draft::Draft;
use super::records::{BucketFiller, Sink};
use crate::files::write_entry;
use crate::manifest::{CHANGES_FILE, MATRIX_FILE};
use crate::{Changes, Progress, Snapshot, Statistics, StoreError, time};

/// Records of a delta and bytes of their payloads. While the base stays they only grow, and by powers of two, so that
/// clients' keys and hints outlive most deltas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    records: u64,
    payload_bytes: usize,
}

impl Shape {
    /// The shape of a delta that there is.
    pub(crate) fn of(delta: &Snapshot) -> Self {
        let Table { records, payload_bytes, .. } = delta.manifest().table;
        Self { records, payload_bytes }
    }

    /// Bytes that even the first delta has room for, so that the next ones need not grow.
    const ROOM_BYTES: u64 = 128 << 10;

    /// A shape for these entries that is no smaller than `before`.
    fn choose(before: Option<Self>, salt: &[u8; 32], entries: &[Entry]) -> Self {
        if let Some(before) = before.filter(|before| before.holds(entries)) {
            return before;
        }
        let bytes: u64 = entries.iter().map(|entry| entry_bytes(entry.value.len()) as u64).sum();
        let mean = bytes / entries.len() as u64;
        // As many again: room to grow into.
        let others = (Self::ROOM_BYTES.saturating_sub(bytes) / mean).max(entries.len() as u64);
        let mut planner = BucketPlanner::new(entries.len() as u64 + others);
        for entry in entries {
            planner.add(&entry.hash, entry_bytes(entry.value.len()));
        }
        for i in 0..others {
            planner.add(&KeyHash::new(salt, &i.to_le_bytes()), mean as usize);
        }
        // A delta is small, and may be padded more than a table.
        let plan = planner.choose().unwrap_or_else(|Overpadded(plan)| plan);
        let record_bytes = (plan.payload_bytes + CHECKSUM_BYTES).next_power_of_two();
        let chosen = Self { records: plan.buckets, payload_bytes: record_bytes - CHECKSUM_BYTES };
        match before {
            None => chosen,
            Some(before) => Self {
                records: chosen.records.max(before.records),
                payload_bytes: chosen.payload_bytes.max(before.payload_bytes),
            },
        }
    }

    /// Whether the entries, in the order of their hashes, fit.
    fn holds(&self, entries: &[Entry]) -> bool {
        let bucket = |entry: &Entry| entry.hash.bucket(self.records);
        entries.chunk_by(|a, b| bucket(a) == bucket(b)).all(|entries| {
            let bytes: usize = entries.iter().map(|entry| entry_bytes(entry.value.len())).sum();
            Bucket::COUNT_BYTES + bytes <= self.payload_bytes
        })
    }
}

struct Entry {
    hash: KeyHash,
    value: Vec<u8>,
}

/// Builds the delta of `base` with these changes into `folder`, which exists and is empty.
///
/// # Errors
/// See [`StoreError`].
pub(crate) fn build_delta<B: ProtocolBackend>(
    base: &Snapshot,
    before: Option<Shape>,
    changes: &Changes,
    folder: &Path,
    backend: &Arc<B>,
    progress: &dyn Progress,
) -> Result<(), StoreError> {
    let version = base.version();
    let salt = delta::salt(&version);
    let mut entries: Vec<_> = changes
        .iter()
        .map(|(key, change)| Entry { hash: KeyHash::new(&salt, key), value: change.to_bytes() })
        .collect();
    entries.sort_unstable_by_key(|entry| entry.hash);
    if entries.windows(2).any(|pair| pair[0].hash == pair[1].hash) {
        let detail =
            "two keys have the same hash, which happens to nobody by chance; compact, and publish again";
        return Err(StoreError::BadOption(detail.into()));
    }
    let shape = Shape::choose(before, &salt, &entries);
    let table = Table {
        kind: TableKind::Keyword,
        entries: entries.len() as u64,
        records: shape.records,
        payload_bytes: shape.payload_bytes,
        salt,
        fields: base.manifest().table.fields.clone(),
    };
    table.validate()?;
    let protocol =
        base.manifest().protocol.reshaped(delta::seed(&version), table.records, table.record_bytes())?;
    let mut sink = Sink::create(&table, protocol.stored(), &folder.join(MATRIX_FILE), progress)?;
    let mut filler = BucketFiller::new(table.records);
    for entry in &entries {
        filler.push(&entry.hash, &entry.value, &mut sink)?;
    }
    filler.finish(&mut sink)?;
    let samples = sink.finish()?;
    let lengths = || entries.iter().map(|entry| entry.value.len());
    let statistics = Statistics {
        rows: entries.len() as u64,
        value_bytes: lengths().sum::<usize>() as u64,
        entry_bytes: lengths().map(entry_bytes).sum::<usize>() as u64,
        longest_value_bytes: lengths().max().unwrap_or_default() as u64,
        longest_value_row: None,
    };
    let draft = Draft {
        name: base.manifest().name.clone(),
        created: time::created()?,
        table,
        protocol,
        statistics,
        samples,
        delta_of: Some(version),
        changes: Some(write_entry(folder, CHANGES_FILE, &changes.to_bytes())?),
    };
    let computed = draft.compute(folder, backend, progress)?;
    draft.complete(folder, computed, backend, progress)
}
