//! Number and size of a table's buckets.

use std::iter::successors;

use spirea_lattice::RingSet;

use super::{Lengths, MAX_WIDTHS};
use crate::keyword::{Bucket, Copies, entry_bytes};
use crate::table::{CHECKSUM_BYTES, MAX_ROWS_PER_RECORD, Table};

/// Maximum growth of a table by padding, if any shape meets it: bytes of records over bytes of
/// entries.
pub const SPARSE: f64 = 1.5;

/// Fraction of a bucket that stays free: one byte in `ROOM`. New entries then fit their buckets,
/// and compaction changes them in place. In each of 20 trials, 1% more entries fit among a million
/// rows of 64 bytes (`room_is_left_for_one_percent_of_changes`).
const ROOM: usize = 8;

/// Maximum growth of a table by inclusion proofs before a record takes more rows.
const PROOF_GROWTH: f64 = 1.08;

/// Average width of a bucket, in units. With fewer units, the boundary of a bucket is further from
/// the point at which the bucket is full. With more units, one byte could not hold the widths of
/// buckets that are wider than the average.
const MEAN_WIDTH: u64 = 96;

/// Costs of buckets, in bytes that a server scans.
#[derive(Clone, Copy)]
struct Costs {
    /// Cost of a bucket's byte.
    byte: f64,
    /// Cost of a width: each client downloads it once for each version.
    width: f64,
    /// Maximum number of buckets.
    most_buckets: usize,
    /// Bytes that a record of this size takes.
    stored: fn(usize) -> usize,
    /// Each candidate has 1/`step` more entries in a bucket than the one before, at least one more.
    step: usize,
}

/// Costs in tables whose queries bring one bucket. Decoding a byte reads 5 KiB of a client's hint,
/// and a client's memory counts four times. 2^16 widths keep a description below 100 KiB.
const ONE_BUCKET: Costs =
    Costs { byte: 4.0 * 5120.0, width: 7000.0, most_buckets: 1 << 16, stored: Shape::unit_bytes, step: 2 };

/// Costs in tables whose queries bring a bucket of each of some 64 bins. A server packs 4096 rows
/// in the time in which it scans 100 MiB. Small buckets are worth more widths.
const BUCKET_OF_EACH_BIN: Costs = Costs {
    byte: 64.0 * (100 << 20) as f64 / 4096.0,
    width: 2000.0,
    most_buckets: MAX_WIDTHS,
    stored: |record_bytes| record_bytes,
    step: 16,
};

/// Bytes of a unit if units are the coefficients of a ring's polynomials. Protocols with such units
/// cannot use the remainder of a unit that records do not fill.
const UNIT: usize = RingSet::DEGREE;

/// Overhead of a bucket.
#[derive(Clone, Copy)]
pub struct Framing {
    head: usize,
    entry: fn(usize) -> usize,
    proof: fn(u64) -> usize,
    /// One byte in this number stays free; `None` if a bucket may be full.
    room: Option<usize>,
    costs: Costs,
}

impl Framing {
    /// Returns the framing of buckets of keyed entries. `proof` maps the number of records to the
    /// bytes of a proof.
    pub fn keyed(proof: fn(u64) -> usize) -> Self {
        Self { head: Bucket::COUNT_BYTES, entry: entry_bytes, proof, room: Some(ROOM), costs: ONE_BUCKET }
    }

    /// Returns the framing of buckets of keyed entries without free space, in as few buckets as
    /// possible. It is for tables that are built anew for every change.
    pub fn full(proof: fn(u64) -> usize) -> Self {
        Self { room: None, ..Self::keyed(proof) }
    }

    /// Returns the framing of buckets of keyed entries with this number of copies. Several copies
    /// are for tables in bins.
    pub fn copied(copies: Copies, proof: fn(u64) -> usize) -> Self {
        let costs = match copies {
            Copies::One => ONE_BUCKET,
            Copies::Three => BUCKET_OF_EACH_BIN,
        };
        Self { costs, ..Self::keyed(proof) }
    }

    /// Returns the framing of buckets of rows. `proof` maps the number of records to the bytes of a
    /// proof.
    pub fn of_rows(proof: fn(u64) -> usize) -> Self {
        Self { head: 0, entry: Table::index_payload_bytes, ..Self::keyed(proof) }
    }

    /// Returns the maximum number of buckets with widths.
    pub fn most_buckets(&self) -> usize {
        self.costs.most_buckets
    }

    /// Returns the number of bytes of a bucket outside its entries.
    pub fn head(&self) -> usize {
        self.head
    }

    /// Returns the number of bytes of an entry with a value of `value_bytes` bytes.
    pub fn entry(&self, value_bytes: usize) -> usize {
        (self.entry)(value_bytes)
    }

    /// Returns the number of bytes of a payload whose entries have `fill` bytes.
    fn payload(&self, fill: usize) -> usize {
        self.head + fill + self.room.map_or(0, |room| fill.div_ceil(room - 1))
    }

    /// Returns the maximum bytes of entries whose [`payload`](Self::payload) has at most
    /// `payload_bytes` bytes.
    fn filled(&self, payload_bytes: usize) -> usize {
        let bytes = payload_bytes.saturating_sub(self.head);
        self.room.map_or(bytes, |room| bytes * (room - 1) / room)
    }

    /// Returns the minimum number of buckets of a table of this shape. Fewer
    /// buckets would leave less free space than the room.
    pub(super) fn least_buckets(&self, shape: &Shape) -> usize {
        self.room.map_or(1, |_| shape.buckets as usize)
    }

    /// Returns the number of bytes of a record outside its payload, in a table of `records`
    /// records.
    fn beside(&self, records: u64) -> usize {
        (self.proof)(records) + CHECKSUM_BYTES
    }
}

/// Returns the number of rows that share a record and its proof, for `rows` rows of `row_bytes`
/// bytes. It is the smallest number for which the table takes at most 1.08 times the bytes of
/// single-row records without proofs. If there is no such number, it is the number for which the
/// table takes the fewest bytes.
pub fn rows_per_record(rows: u64, row_bytes: usize, framing: &Framing) -> u32 {
    let stored = |count: u32, beside: fn(&Framing, u64) -> usize| {
        let records = rows.div_ceil(count.into());
        records * Shape::unit_bytes(count as usize * row_bytes + beside(framing, records)) as u64
    };
    let proven = |count: u32| stored(count, Framing::beside);
    let enough = stored(1, |_, _| CHECKSUM_BYTES) as f64 * PROOF_GROWTH;
    let most = (UNIT / row_bytes.max(1)).clamp(1, MAX_ROWS_PER_RECORD as usize) as u32;
    let fewest = (1..=most).find(|&count| proven(count) as f64 <= enough);
    fewest.or_else(|| (1..=most).min_by_key(|&count| proven(count))).unwrap_or(1)
}

/// Number and size of buckets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// Number of buckets with which each bucket has its free room.
    pub buckets: u64,
    /// Bytes of a bucket's payload.
    pub payload_bytes: usize,
    /// Bytes of a record: the payload, its proof and its checksum.
    pub record_bytes: usize,
    /// Bytes of all records over bytes of all entries.
    pub growth: f64,
    cost: f64,
}

impl Shape {
    /// Chooses the shape for values of these lengths, at least one. It minimises the cost of a
    /// look-up among the shapes that pad the table at most [`SPARSE`] times. If there are none, it
    /// minimises the growth by padding.
    ///
    /// Without copies, the same shape serves every protocol. The cost favours small records, and
    /// records that fill units of 4096 bytes. Every size has a candidate that fills its unit.
    pub fn choose(lengths: &Lengths, framing: &Framing) -> Self {
        let candidates = Self::candidates(lengths, framing).into_iter();
        let better = |best: Self, shape: Self| if shape.is_better(&best) { shape } else { best };
        candidates.reduce(better).expect("everything in one bucket is a shape")
    }

    /// Returns shapes for values of these lengths, at least one, from many small buckets to a
    /// single one.
    ///
    /// Buckets are filled in order, and a bucket ends when the next unit does not fit. The average
    /// loss at its end is half of the load of the unit in which a random byte lies: half of the
    /// loads' mean square over their mean.
    pub fn candidates(lengths: &Lengths, framing: &Framing) -> Vec<Self> {
        let sum = |of: fn(f64) -> f64| -> f64 {
            lengths.iter().map(|(bytes, count)| count as f64 * of(framing.entry(bytes) as f64)).sum()
        };
        let (total, squares) = (sum(|bytes| bytes), sum(|bytes| bytes * bytes));
        let longest = framing.entry(lengths.longest());
        // Tries fills that are multiples of the longest entry, because entries of one length leave
        // no smaller gaps to fill.
        let step = framing.costs.step;
        let fills = successors(Some(1usize), |&entries| Some(entries + (entries / step).max(1)))
            .map(|entries| (entries * longest) as f64);
        let of_fill = |fill: f64| {
            let lost = (squares / total + fill / MEAN_WIDTH as f64) / 2.0;
            let (fill, buckets) =
                if fill < total { (fill, (total / (fill - lost)).ceil()) } else { (total, 1.0) };
            Self::new(fill as usize, buckets as u64, total, framing)
        };
        let fills_its_unit = |shape: &Self| {
            let room = (framing.costs.stored)(shape.record_bytes) - shape.record_bytes + shape.payload_bytes;
            of_fill((framing.filled(room) / longest * longest) as f64)
        };
        // A fill may turn out worse than on average, so some widths are reserved.
        let fits = |shape: &Self| (shape.buckets as f64) < framing.most_buckets() as f64 * 0.9;
        let mut candidates = Vec::new();
        for shape in fills.map(of_fill) {
            candidates.extend([shape, fills_its_unit(&shape)].into_iter().filter(fits));
            if shape.buckets == 1 {
                break;
            }
        }
        candidates
    }

    fn new(fill: usize, buckets: u64, total: f64, framing: &Framing) -> Self {
        let payload_bytes = framing.payload(fill);
        let record_bytes = payload_bytes + framing.beside(buckets);
        let (records, bytes) = (buckets as f64, record_bytes as f64);
        let Costs { byte, width, stored, .. } = framing.costs;
        let cost = (records + byte) * stored(record_bytes) as f64 + records * width;
        Self { buckets, payload_bytes, record_bytes, growth: records * bytes / total, cost }
    }

    /// Returns the number of bytes of units that a record takes: an equal part of one unit, or
    /// several units.
    fn unit_bytes(record_bytes: usize) -> usize {
        match UNIT / record_bytes {
            0 => record_bytes.next_multiple_of(UNIT),
            records => UNIT / records,
        }
    }

    fn is_better(&self, other: &Self) -> bool {
        match [self, other].map(|shape| shape.growth <= SPARSE) {
            [true, true] => self.cost < other.cost,
            [false, false] => self.growth < other.growth,
            [fits, _] => fits,
        }
    }

    /// Returns the number of units for the widths of these buckets.
    pub fn units(&self) -> u64 {
        self.buckets * MEAN_WIDTH
    }
}

#[cfg(test)]
mod tests {
    use spirea_math::random::Seed;

    use super::*;
    use crate::choice::Choice;
    use crate::keyword::{EntryPlace, TAG_BYTES};
    use crate::layout::{Cut, Loads};
    use crate::proof::Proofs;
    use crate::registry::{NAMES, ProtocolParams};
    use crate::{PlaceSalt, Salt};

    fn shape(lengths: impl IntoIterator<Item = usize>) -> Shape {
        Shape::choose(&lengths.into_iter().collect(), &Framing::keyed(|_| 0))
    }

    #[test]
    fn tables_of_even_lengths_are_padded_little() {
        for (entries, bytes) in [(100, 10), (1000, 1), (100_000, 32), (3000, 1 << 16), (300, 1 << 20)] {
            let shape = shape(std::iter::repeat_n(bytes, entries));
            assert!(shape.growth <= SPARSE, "{entries} of {bytes}: {shape:?}");
            assert!(shape.record_bytes < (1 << 17).max(5 * bytes), "{entries} of {bytes}: {shape:?}");
        }
    }

    #[test]
    fn an_entry_alone_has_one_bucket() {
        let one = std::iter::once(100).collect();
        let candidates = Shape::candidates(&one, &Framing::keyed(|_| 0));
        assert!(
            !candidates.is_empty() && candidates.iter().all(|shape| shape.buckets == 1),
            "{candidates:?}"
        );
    }

    #[test]
    fn a_few_long_values_are_laid_out_with_many_short_ones() {
        for long in [1, 10, 1000] {
            let shape = shape((0..100_000).map(|i| if i < long { 1 << 20 } else { 10 }));
            assert!(shape.growth <= SPARSE, "{long}: {shape:?}");
            assert!(shape.record_bytes < 5 << 20, "{long}: {shape:?}");
        }
    }

    #[test]
    fn a_million_rows_of_64_bytes_have_some_16384_buckets() {
        let shape = shape(std::iter::repeat_n(64, 1_000_000));
        assert!((1 << 13..1 << 15).contains(&shape.buckets), "{shape:?}");
    }

    #[test]
    fn short_rows_share_a_proof_and_grow_little() {
        let framing = Framing::of_rows(Proofs::bytes_of);
        for (rows, value_bytes, most, shared) in [
            // 1 GiB of 256-byte values.
            (1 << 22, 256, 1.08, true),
            (1 << 18, 256, 1.08, true),
            (1 << 20, 1024, 1.08, false),
            (1 << 17, 5000, 1.0, false),
            (1000, 64, 1.08, true),
            (1 << 30, 32, 1.08, true),
            (1 << 24, 0, 1.08, true),
            (1, 10, 1.0, false),
        ] {
            let row_bytes = framing.entry(value_bytes).max(2);
            let count = rows_per_record(rows, row_bytes, &framing);
            let records = rows.div_ceil(count.into());
            let bytes = count as usize * row_bytes + framing.beside(records);
            let growth = (records * Shape::unit_bytes(bytes) as u64) as f64
                / (rows * Shape::unit_bytes(row_bytes + CHECKSUM_BYTES) as u64) as f64;
            assert!(growth <= most, "{rows} rows of {value_bytes}: {count} in a record, {growth}");
            assert_eq!(count > 1, shared, "{rows} rows of {value_bytes}: {count} in a record");
        }
    }

    /// Number of values of 1 GiB, and their length.
    const GIBIBYTE: (u64, usize) = (1 << 22, 256);

    /// Returns the number of records and the bytes of each that a build writes for an index table
    /// of [`GIBIBYTE`].
    fn records_of_rows(proof: fn(u64) -> usize) -> (u64, usize) {
        let framing = Framing::of_rows(proof);
        let (rows, row_bytes) = (GIBIBYTE.0, framing.entry(GIBIBYTE.1));
        // Without proofs, each row is a record.
        let in_record = if proof(rows) == 0 { 1 } else { rows_per_record(rows, row_bytes, &framing) };
        let records = rows.div_ceil(in_record.into());
        (records, in_record as usize * row_bytes + framing.beside(records))
    }

    /// Returns the number of records and the bytes of each for a keyed table, whose buckets follow
    /// from the places of its entries.
    fn records_of_buckets(proof: fn(u64) -> usize) -> (u64, usize) {
        let framing = Framing::keyed(proof);
        let shape = Shape::choose(&std::iter::repeat_n(GIBIBYTE.1, GIBIBYTE.0 as usize).collect(), &framing);
        let mut loads = Loads::new(shape.units());
        for i in 0..GIBIBYTE.0 {
            let mut tag = [0; TAG_BYTES];
            tag[..8].copy_from_slice(&i.to_le_bytes());
            loads.add(
                EntryPlace::new(&PlaceSalt::new([5; 32]), &tag).part(loads.units()),
                framing.entry(GIBIBYTE.1),
            );
        }
        let Cut { payload_bytes, widths } = loads.cut(&shape, &framing);
        let records = widths.count() as u64;
        (records, payload_bytes + framing.beside(records))
    }

    /// Returns the bytes that a build under `protocol` stores: matrix, precomputed data and the
    /// clients' hint; `None` if the protocol refuses records of this size.
    fn stored_bytes(protocol: &str, (records, record_bytes): (u64, usize)) -> Option<u64> {
        let choice = Choice { protocol: protocol.into(), ..Choice::default() };
        let params = ProtocolParams::choose(&choice, Seed::new([7; 32]), records, record_bytes).ok()?;
        Some(params.matrix_bytes() + params.server_bytes + params.sizes.hint_bytes)
    }

    /// Growth of the stored bytes by inclusion proofs, in percent, for index tables of [`GIBIBYTE`]
    /// (docs/updates.md).
    const GROWTH: [(&str, f64); 9] = [
        ("simple", 7.5),
        ("double", 51.2),
        ("exppack-simple", 10.7),
        ("exppack-double", 48.2),
        ("double-pack", 6.7),
        ("hybrid", 6.5),
        ("onion", 8.9),
        ("dpf-xor", 7.7),
        ("dpf-sum", 7.0),
    ];

    /// Computes the sizes without building tables. Counts 43 bytes for each root: a root stands in
    /// the table and in the manifest.
    #[test]
    fn proofs_of_a_gibibyte_of_short_values_take_what_is_documented() {
        let [without, with]: [fn(u64) -> usize; 2] = [|_| 0, Proofs::bytes_of];
        let growth = |protocol: &str, [without, with]: [(u64, usize); 2]| {
            let roots = Proofs::blank(with.0, Salt::new([0; 32])).roots.len() as u64 * 43;
            let [bare, proven] = [without, with].map(|records| stored_bytes(protocol, records));
            Some(((proven? + roots) as f64 / bare? as f64 - 1.0) * 100.0)
        };
        assert_eq!(GROWTH.map(|(protocol, _)| protocol), NAMES);
        let rows = [without, with].map(records_of_rows);
        for (protocol, documented) in GROWTH {
            let found = growth(protocol, rows).unwrap();
            assert!((found - documented).abs() < 0.11, "index, {protocol}: {found:.2}%, not {documented}%");
        }
        let buckets = [without, with].map(records_of_buckets);
        for protocol in NAMES {
            let found = growth(protocol, buckets);
            // Records of 32 KiB are too long for this protocol.
            assert_eq!(found.is_none(), protocol == "double");
            assert!(found.is_none_or(|found| (0.0..0.7).contains(&found)), "keyed, {protocol}: {found:?}%");
        }
    }

    #[test]
    fn buckets_with_proofs_are_fewer_and_no_table_has_more_than_its_description_holds() {
        let lengths: Lengths = std::iter::repeat_n(4, 1 << 16).collect();
        let [without, with]: [fn(u64) -> usize; 2] = [|_| 0, Proofs::bytes_of];
        let [without, with] = [without, with].map(|proof| Shape::choose(&lengths, &Framing::keyed(proof)));
        assert!(with.buckets < without.buckets, "{with:?} and {without:?}");
        let large = shape(std::iter::repeat_n(64, 100_000_000));
        assert!(large.buckets < 1 << 16 && large.growth < 1.3, "{large:?}");
    }

    #[test]
    fn tables_with_copies_have_many_small_buckets() {
        // Three copies of 1 GiB of values.
        let lengths = std::iter::repeat_n(256, 1 << 22).collect::<Lengths>().repeated(3);
        let framing = Framing::copied(Copies::Three, |_| 0);
        let shape = Shape::choose(&lengths, &framing);
        assert!((1 << 20..1 << 21).contains(&shape.buckets), "{shape:?}");
        assert!((1500..2500).contains(&shape.record_bytes) && shape.growth < 1.35, "{shape:?}");
    }

    #[test]
    fn a_table_of_a_few_entries_is_one_bucket() {
        for lengths in [vec![0], vec![20, 20], vec![0, 1 << 20]] {
            assert_eq!(shape(lengths.clone()).buckets, 1, "{lengths:?}");
        }
    }
}
