//! From changes to a delta: a small keyword table beside its base.

use std::path::Path;
use std::sync::Arc;

use spirea_backend::ProtocolBackend;
use spirea_protocols::keyword::{Bucket, KeyHash, entry_bytes};
use spirea_protocols::registry::ProtocolParams;
use spirea_protocols::table::CHECKSUM_BYTES;
use spirea_protocols::{Sizes, Table, TableKind, delta};

use super::draft::Draft;
use super::prove::{Proving, Taker, prove};
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

    /// The shape that costs clients of the base's protocol the least, for these entries and as many again, among
    /// those that are no smaller than `before`.
    ///
    /// # Errors
    /// The protocol's if it has no shape for them.
    fn choose(
        protocol: &ProtocolParams,
        proving: Proving,
        before: Option<Self>,
        salt: &[u8; 32],
        entries: &[Entry],
    ) -> Result<Self, StoreError> {
        if let Some(before) = before.filter(|before| before.holds(entries)) {
            return Ok(before);
        }
        let mut sizes: Vec<_> = entries.iter().map(|entry| (entry.hash, entry.bytes())).collect();
        let bytes: u64 = sizes.iter().map(|&(_, bytes)| bytes as u64).sum();
        let mean = bytes / sizes.len() as u64;
        let others = (Self::ROOM_BYTES.saturating_sub(bytes) / mean).max(sizes.len() as u64);
        sizes.extend((0..others).map(|i| (KeyHash::new(salt, &i.to_le_bytes()), mean as usize)));
        let least = before.unwrap_or(Self { records: 1, payload_bytes: 1 });
        let (mut cheapest, mut refusal) = (None::<(f64, Self)>, None);
        // Up to four times as many buckets as entries: they are smaller then, and so is what grows with a bucket.
        for power in 0..=sizes.len().ilog2() + 2 {
            let records = (1 << power).max(least.records);
            let mut loads = vec![Bucket::COUNT_BYTES; records as usize];
            for (hash, bytes) in &sizes {
                loads[hash.bucket(records) as usize] += bytes;
            }
            let fullest = loads.into_iter().max().unwrap_or_default();
            let beside = proving.bytes_of()(records) + CHECKSUM_BYTES;
            let record_bytes = (fullest.max(least.payload_bytes) + beside).next_power_of_two();
            let shape = Self { records, payload_bytes: record_bytes - beside };
            match protocol.of_delta([0; 32], records, record_bytes) {
                Err(error) => refusal = Some(error),
                Ok(protocol) => {
                    let cost = client_cost(&protocol);
                    if cheapest.is_none_or(|(least, _)| cost < least) {
                        cheapest = Some((cost, shape));
                    }
                }
            }
        }
        match (cheapest, refusal) {
            (Some((_, shape)), _) => Ok(shape),
            (None, Some(error)) => Err(error.into()),
            (None, None) => unreachable!("there is a candidate, taken or refused"),
        }
    }

    /// Whether the entries, in the order of their hashes, fit.
    fn holds(&self, entries: &[Entry]) -> bool {
        let bucket = |entry: &Entry| entry.hash.bucket(self.records);
        entries.chunk_by(|a, b| bucket(a) == bucket(b)).all(|entries| {
            let bytes: usize = entries.iter().map(Entry::bytes).sum();
            Bucket::COUNT_BYTES + bytes <= self.payload_bytes
        })
    }
}

/// What a delta costs a client, in bytes that cross the network. A hint lasts until the next delta, which changes a
/// part of it: it counts for ten look-ups. Bytes that the server reads count at the rate of a scan against a network.
fn client_cost(protocol: &ProtocolParams) -> f64 {
    let Sizes { query_bytes, answer_bytes, hint_bytes, .. } = protocol.sizes();
    let read = protocol.matrix_bytes() + protocol.server_bytes();
    (query_bytes + answer_bytes) as f64 + hint_bytes as f64 / 10.0 + read as f64 / 1700.0
}

struct Entry {
    hash: KeyHash,
    value: Vec<u8>,
}

impl Entry {
    fn bytes(&self) -> usize {
        entry_bytes(self.value.len())
    }
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
    let proving = Proving::of(&base.manifest().table);
    let shape = Shape::choose(&base.manifest().protocol, proving, before, &salt, &entries)?;
    let mut table = Table {
        kind: TableKind::Keyword,
        entries: entries.len() as u64,
        records: shape.records,
        payload_bytes: shape.payload_bytes,
        salt,
        fields: base.manifest().table.fields.clone(),
        proofs: proving.blank(shape.records),
    };
    table.validate()?;
    let protocol =
        base.manifest().protocol.of_delta(delta::seed(&version), table.records, table.record_bytes())?;
    let payloads = |take: &mut Taker<'_>| {
        let mut filler = BucketFiller::new(shape.records);
        for entry in &entries {
            filler.push(&entry.hash, &entry.value, take)?;
        }
        filler.finish(take)
    };
    let tree = prove(&mut table, progress, payloads)?;
    let matrix = folder.join(MATRIX_FILE);
    let mut sink = Sink::create(&table, tree.as_ref(), protocol.stored(), &matrix, progress)?;
    payloads(&mut |payload| sink.push(payload))?;
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
