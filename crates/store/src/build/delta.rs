//! Builds a delta from changes: a small keyword table beside its base.

use std::path::Path;
use std::sync::Arc;

use spirea_backend::{ProtocolBackend, Residence};
use spirea_math::random::Seed;
use spirea_protocols::keyword::{Bucket, Copies, EntryPlace, KeyHash, TAG_BYTES, entry_bytes};
use spirea_protocols::layout::{self, Cut, Framing, Lengths, Loads, SPARSE, Widths};
use spirea_protocols::registry::ProtocolParams;
use spirea_protocols::table::CHECKSUM_BYTES;
use spirea_protocols::{PlaceSalt, ProtocolError, Responder, Sizes, Table, TableKind, delta};

use super::draft::Draft;
use super::draws::Draws;
use super::prove::{Proving, Taker, prove};
use super::records::{BucketFiller, Sink};
use crate::files::write_entry;
use crate::manifest::{CHANGES_FILE, MATRIX_FILE};
use crate::{Changes, Progress, Snapshot, Statistics, StoreError, time};

/// Number of a delta's records, bytes of their payloads, and the seed of its entries' places.
///
/// If clients keep keys or a hint, sizes only grow while the base stays, by powers of two, and
/// entries keep their places while they fit, so that these keys and hints outlive most deltas.
/// Otherwise, every delta is cut for its own entries ([`Buckets::cut`]).
///
/// Contributors of keys know the places of the last delta. Keys aimed at one of its buckets do no
/// harm while they fit; once they do not fit, the next delta has fresh places for all keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    records: u64,
    payload_bytes: usize,
    places: PlaceSalt,
}

impl Shape {
    /// Returns the shape of an existing delta.
    pub(crate) fn of(delta: &Snapshot) -> Option<Self> {
        let Table { records, payload_bytes, places, .. } = delta.manifest().table;
        Some(Self { records, payload_bytes, places: places? })
    }

    /// Minimum capacity, in bytes, even of the first delta, so that later deltas need not grow.
    const ROOM_BYTES: u64 = 128 << 10;

    /// Chooses the shape of a delta with these entries. Keeps `before` if the entries fit;
    /// otherwise keeps its size if they fit at fresh places. Otherwise chooses, among the shapes
    /// that are no smaller, the shape with the lowest cost for clients of the base's protocol. This
    /// shape has room for at least twice the number of entries.
    ///
    /// # Errors
    /// The protocol's error if it has no such shape.
    fn choose(
        protocol: &ProtocolParams,
        proving: Proving,
        before: Option<Self>,
        entries: &[Entry],
    ) -> Result<Self, StoreError> {
        if let Some(before) = before.filter(|before| before.holds(entries)) {
            return Ok(before);
        }
        let places = Draws::System.places()?;
        let elsewhere = before.map(|before| Self { places, ..before });
        if let Some(elsewhere) = elsewhere.filter(|elsewhere| elsewhere.holds(entries)) {
            return Ok(elsewhere);
        }
        let mut sizes: Vec<_> = entries.iter().map(|entry| (entry.place(&places), entry.bytes())).collect();
        let bytes: u64 = sizes.iter().map(|&(_, bytes)| bytes as u64).sum();
        let mean = bytes / sizes.len() as u64;
        let others = (Self::ROOM_BYTES.saturating_sub(bytes) / mean).max(sizes.len() as u64);
        sizes.extend((0..others).map(|i| (place_of_another(&places, i), mean as usize)));
        let least = before.unwrap_or(Self { records: 1, payload_bytes: 1, places });
        // Up to four times as many buckets as entries: smaller buckets reduce every cost that grows
        // with the bucket size.
        let candidates = (0..=sizes.len().ilog2() + 2).map(|power| {
            let records = (1 << power).max(least.records);
            least.grown(proving, records, fullest(records, sizes.iter().copied()), places)
        });
        cheapest(candidates, |shape| client_cost(protocol, shape.records, shape.record_bytes(proving)))
    }

    /// Returns the smallest shape of `records` records, no smaller than this one, in which a bucket
    /// of `fullest` bytes fits. A longer proof takes room from a record's payload, so that the
    /// proof does not double the record size.
    fn grown(self, proving: Proving, records: u64, fullest: usize, places: PlaceSalt) -> Self {
        let needed = Self { records, payload_bytes: fullest, places }.record_bytes(proving);
        let record_bytes = needed.max(self.record_bytes(proving)).next_power_of_two();
        Self { records, payload_bytes: record_bytes - beside(proving, records), places }
    }

    /// Returns the bytes of a record.
    fn record_bytes(&self, proving: Proving) -> usize {
        self.payload_bytes + beside(proving, self.records)
    }

    /// True if the entries fit.
    fn holds(&self, entries: &[Entry]) -> bool {
        let sizes = entries.iter().map(|entry| (entry.place(&self.places), entry.bytes()));
        fullest(self.records, sizes) <= self.payload_bytes
    }
}

/// Buckets of a delta.
struct Buckets {
    shape: Shape,
    /// Widths of the buckets; `None` if the buckets are equal.
    widths: Option<Widths>,
}

impl Buckets {
    /// Network bytes of a width, which every client downloads once for each version: base64.
    const WIDTH_BYTES: f64 = 4.0 / 3.0;

    /// Chooses the buckets of a delta with these entries.
    ///
    /// # Errors
    /// The protocol's error if it has no such shape.
    fn choose(
        protocol: &ProtocolParams,
        proving: Proving,
        before: Option<Shape>,
        entries: &[Entry],
    ) -> Result<Self, StoreError> {
        if protocol.clients_keep() {
            let shape = Shape::choose(protocol, proving, before, entries)?;
            return Ok(Self { shape, widths: None });
        }
        Self::cut(protocol, proving, entries)
    }

    /// Cuts full buckets for these entries alone, like those of a base, at fresh places. Among the
    /// sizes of buckets that pad the entries at most [`SPARSE`] times, chooses the size with the
    /// lowest cost for clients of the base's protocol; padding also costs the publisher time.
    /// Contributors of keys cannot aim keys at a bucket, because nobody knows the places before the
    /// entries are fixed.
    ///
    /// # Errors
    /// The protocol's error if it has no such shape.
    fn cut(protocol: &ProtocolParams, proving: Proving, entries: &[Entry]) -> Result<Self, StoreError> {
        let framing = Framing::full(proving.bytes_of());
        let lengths: Lengths = entries.iter().map(|entry| entry.value.len()).collect();
        let cost = |shape: &layout::Shape| {
            let widths = shape.buckets as f64 * Self::WIDTH_BYTES;
            let cost = client_cost(protocol, shape.buckets, shape.record_bytes)?;
            Ok((shape.growth > SPARSE, cost + widths))
        };
        let shape = cheapest(layout::Shape::candidates(&lengths, &framing), cost)?;
        let places = Draws::System.places()?;
        let mut loads = Loads::new(shape.units());
        for entry in entries {
            loads.add(entry.place(&places).part(shape.units()), entry.bytes());
        }
        let Cut { payload_bytes, widths } = loads.cut(&shape, &framing);
        let shape = Shape { records: widths.count() as u64, payload_bytes, places };
        Ok(Self { shape, widths: Some(widths) })
    }
}

/// Returns the candidate with the lowest cost; the first of equal ones.
///
/// # Errors
/// The last error of `cost` if it refuses all candidates.
fn cheapest<C, O: PartialOrd>(
    candidates: impl IntoIterator<Item = C>,
    cost: impl Fn(&C) -> Result<O, ProtocolError>,
) -> Result<C, StoreError> {
    let (mut cheapest, mut refusal) = (None::<(O, C)>, None);
    for candidate in candidates {
        match cost(&candidate) {
            Err(error) => refusal = Some(error),
            Ok(cost) => {
                if cheapest.as_ref().is_none_or(|(least, _)| cost < *least) {
                    cheapest = Some((cost, candidate));
                }
            }
        }
    }
    match (cheapest, refusal) {
        (Some((_, candidate)), _) => Ok(candidate),
        (None, Some(error)) => Err(error.into()),
        (None, None) => unreachable!("there is a candidate, taken or refused"),
    }
}

/// Returns the number of bytes in a record besides its payload: the proof and the checksum.
fn beside(proving: Proving, records: u64) -> usize {
    proving.bytes_of()(records) + CHECKSUM_BYTES
}

/// Returns the bytes of the fullest of `records` buckets, for entries with these places and sizes.
fn fullest(records: u64, sizes: impl Iterator<Item = (EntryPlace, usize)>) -> usize {
    let mut loads = vec![Bucket::COUNT_BYTES; records as usize];
    for (place, bytes) in sizes {
        loads[place.part(records) as usize] += bytes;
    }
    loads.into_iter().max().unwrap_or_default()
}

/// Returns the place of the `i`-th hypothetical further entry.
fn place_of_another(places: &PlaceSalt, i: u64) -> EntryPlace {
    let mut tag = [0; TAG_BYTES];
    tag[..8].copy_from_slice(&i.to_le_bytes());
    EntryPlace::new(places, &tag)
}

/// Returns the cost of a delta of these records for a client, in bytes over the network. A hint
/// lasts until the next delta, which changes a part of it, so it is amortised over ten look-ups.
/// Bytes that the server reads are weighted by the rate of a scan relative to a network.
///
/// # Errors
/// The error of [`ProtocolParams::of_delta`].
fn client_cost(base: &ProtocolParams, records: u64, record_bytes: usize) -> Result<f64, ProtocolError> {
    let protocol = base.of_delta(Seed::default(), records, record_bytes)?;
    let Sizes { query_bytes, answer_bytes, hint_bytes, .. } = protocol.sizes;
    let read = protocol.matrix_bytes() + protocol.server_bytes;
    Ok((query_bytes + answer_bytes) as f64 + hint_bytes as f64 / 10.0 + read as f64 / 1700.0)
}

struct Entry {
    hash: KeyHash,
    value: Vec<u8>,
}

impl Entry {
    fn place(&self, places: &PlaceSalt) -> EntryPlace {
        EntryPlace::new(places, &self.hash.tag)
    }

    fn bytes(&self) -> usize {
        entry_bytes(self.value.len())
    }
}

/// Builds the delta of `base` with these changes into `folder`, which exists and is empty. Returns
/// its server halves, one for each of the protocol's servers. With `kept`, they are kept to answer,
/// with the database in this residence, and the build prepares them only once.
///
/// # Errors
/// See [`StoreError`].
pub(crate) fn build_delta<B: ProtocolBackend>(
    base: &Snapshot,
    before: Option<Shape>,
    changes: &Changes,
    folder: &Path,
    backend: &Arc<B>,
    kept: Option<Residence>,
    progress: &dyn Progress,
) -> Result<Vec<Box<dyn Responder>>, StoreError> {
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
    let of_base = &base.manifest().protocol;
    let Buckets { shape, widths } = Buckets::choose(of_base, proving, before, &entries)?;
    let placed = |entry: Entry| (entry.place(&shape.places), entry);
    let mut entries: Vec<_> = entries.into_iter().map(placed).collect();
    entries.sort_unstable_by_key(|(place, entry)| (*place, entry.hash));
    let mut table = Table {
        kind: TableKind::Keyword,
        entries: entries.len() as u64,
        records: shape.records,
        payload_bytes: shape.payload_bytes,
        salt,
        places: Some(shape.places),
        copies: Copies::One,
        widths,
        rows_per_record: None,
        max_value_bytes: None,
        fields: base.manifest().table.fields.clone(),
        types: base.manifest().table.types.clone(),
        key_form: base.manifest().table.key_form.clone(),
        key_queries: base.manifest().table.key_queries,
        proofs: proving.blank(shape.records, &Draws::System)?,
    };
    table.validate()?;
    // If clients hold a hint, the hints of successive deltas must differ only where their changes
    // differ. If clients hold no hint, the matrix must be unknown until the changes are fixed.
    let seed = match of_base.hint_lasts() {
        true => delta::seed(&version),
        false => Draws::System.seed()?,
    };
    let protocol = of_base.of_delta(seed, table.records, table.record_bytes())?;
    let boundaries = table.boundaries();
    let payloads = |take: &mut Taker<'_>| {
        let mut filler = BucketFiller::new(&boundaries, shape.records);
        for (place, entry) in &entries {
            filler.push(*place, &entry.hash.tag, &entry.value, take)?;
        }
        filler.finish(take)
    };
    let tree = prove(&mut table, progress, payloads)?;
    let matrix = folder.join(MATRIX_FILE);
    let mut sink = Sink::create(&table, tree.as_ref(), protocol.stored, &matrix, progress)?;
    payloads(&mut |payload| sink.push(payload))?;
    let samples = sink.finish()?;
    let lengths = || entries.iter().map(|(_, entry)| entry.value.len());
    let statistics = Statistics {
        rows: entries.len() as u64,
        value_bytes: lengths().sum::<usize>() as u64,
        entry_bytes: lengths().map(entry_bytes).sum::<usize>() as u64,
        longest_value_bytes: lengths().max().unwrap_or_default() as u64,
        longest_value_row: None,
        without_longest: None,
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
        apple: None,
        kept,
    };
    let computed = draft.compute(folder, backend, progress)?;
    draft.complete(folder, computed, backend, progress)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_do_not_double_for_the_sake_of_longer_proofs() {
        for proving in [Proving::Omit, Proving::Include] {
            let payload_bytes = 4096 - beside(proving, 64);
            let before = Shape { records: 64, payload_bytes, places: PlaceSalt::new([1; 32]) };
            for records in (6..20).map(|power| 1 << power) {
                let grown = before.grown(proving, records, 2000, PlaceSalt::new([2; 32]));
                assert_eq!((grown.records, grown.record_bytes(proving)), (records, 4096));
                assert!(grown.payload_bytes >= 2000);
            }
            let fuller = before.grown(proving, 512, 4096, PlaceSalt::new([2; 32]));
            assert_eq!(fuller.record_bytes(proving), 8192);
        }
    }
}
