//! From rows to sealed records, in three steps: read, plan, encode.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use spirea_protocols::keyword::{
    self, Bucket, BucketPlan, BucketPlanner, KeyHash, MAX_PADDING, Overpadded, TAG_BYTES, entry_bytes,
};
use spirea_protocols::parameters::Stored;
use spirea_protocols::proof::Tree;
use spirea_protocols::table::MAX_VALUE_BYTES;
use spirea_protocols::{Table, TableKind};

use super::draws::Draws;
use super::options::BuildOptions;
use super::prove::{Batch, Proving, Taker, prove};
use super::spool::{IndexSpool, IndexValues, KeyedEntries, KeyedSpool, Partition};
use super::test::Samples;
use super::writer::RecordWriter;
use crate::ingest::{Row, RowSource};
use crate::{Location, Phase, Progress, RepeatedKey, Statistics, StoreError};

/// Bytes of all records up to which a table by position is small however it is padded: an answer is at least
/// of this order.
const SMALL_TABLE_BYTES: u64 = 64 << 10;
/// Rows between two reports of progress.
const REPORT_ROWS: u64 = 1 << 13;
/// Draws of where entries lie, of which the one is kept whose buckets cost a look-up least. They differ in how full the
/// fullest bucket is: the best of four costs 0.82 to 0.90 of the average one for a thousand to 100,000 entries, 0.97 for
/// a million. Each draw costs a hash for every entry.
const DRAWS: u32 = 4;

enum Spool {
    Keyed(KeyedSpool),
    Indexed(IndexSpool),
}

enum Spooled {
    Keyed(KeyedEntries),
    Indexed(IndexValues),
}

/// Rows in the order of their records.
enum Ordered {
    Keyed(Vec<Partition>),
    Indexed(IndexValues),
}

impl Ordered {
    /// Gives the payloads of so many records in order. A bucket may span partitions if there are few.
    fn payloads(&mut self, records: u64, take: &mut Taker<'_>) -> Result<(), StoreError> {
        match self {
            Self::Keyed(partitions) => {
                let mut filler = BucketFiller::new(records);
                for partition in partitions {
                    let (entries, values) = (partition.entries()?, partition.values()?);
                    for entry in entries {
                        filler.push(entry.place, &entry.hash.tag, &values[entry.value], take)?;
                    }
                }
                filler.finish(take)
            }
            Self::Indexed(values) => {
                values.rewind()?;
                let mut value = Vec::new();
                for _ in 0..records {
                    let payload = values.next(&mut value)?.map(Table::index_payload);
                    take(payload.unwrap_or_else(Table::absent_payload))?;
                }
                Ok(())
            }
        }
    }
}

/// What is known of rows beside themselves.
struct Summary {
    statistics: Statistics,
    longest: Location,
    input: PathBuf,
    salt: [u8; 32],
    fields: Vec<String>,
}

/// Collects rows on disk, and counts.
pub(super) struct Collector {
    spool: Spool,
    summary: Summary,
}

impl Collector {
    /// A spool in `folder` for a table of this kind, whose input is called `input` in messages.
    pub(super) fn create(
        kind: TableKind,
        folder: &Path,
        input: &Path,
        salt: [u8; 32],
        fields: Vec<String>,
    ) -> Result<Self, StoreError> {
        let spool = match kind {
            TableKind::Keyword => Spool::Keyed(KeyedSpool::create(folder)?),
            TableKind::Index => Spool::Indexed(IndexSpool::create(folder)?),
        };
        let statistics = Statistics {
            rows: 0,
            value_bytes: 0,
            entry_bytes: 0,
            longest_value_bytes: 0,
            longest_value_row: None,
        };
        let longest = Location::File(input.into());
        Ok(Self { spool, summary: Summary { statistics, longest, input: input.into(), salt, fields } })
    }

    /// Adds a row: its key's hash, if the table has keys, and its value, if it has one.
    pub(super) fn push(
        &mut self,
        hash: Option<&KeyHash>,
        value: Option<&[u8]>,
        place: impl Fn() -> Location,
    ) -> Result<(), StoreError> {
        let Summary { statistics, longest, .. } = &mut self.summary;
        let bytes = value.map_or(0, <[u8]>::len);
        if bytes > MAX_VALUE_BYTES {
            return Err(StoreError::Oversize { place: place(), bytes });
        }
        statistics.rows += 1;
        statistics.value_bytes += bytes as u64;
        if bytes as u64 > statistics.longest_value_bytes || statistics.rows == 1 {
            statistics.longest_value_bytes = bytes as u64;
            statistics.longest_value_row = Some(statistics.rows);
            *longest = place();
        }
        match (&mut self.spool, hash) {
            (Spool::Keyed(spool), Some(hash)) => {
                statistics.entry_bytes += entry_bytes(bytes) as u64;
                spool.push(hash, statistics.rows, value.unwrap_or_default())
            }
            (Spool::Indexed(spool), None) => {
                statistics.entry_bytes += Table::index_payload_bytes(bytes) as u64;
                spool.push(value)
            }
            _ => unreachable!("rows have keys if and only if the table has"),
        }
    }

    /// Rows that were added.
    pub(super) fn rows(&self) -> u64 {
        self.summary.statistics.rows
    }

    /// Ends the spool.
    pub(super) fn finish(self) -> Result<Rows, StoreError> {
        let Self { spool, summary } = self;
        if summary.statistics.rows == 0 {
            return Err(StoreError::Empty { path: summary.input });
        }
        let spooled = match spool {
            Spool::Keyed(spool) => Spooled::Keyed(spool.finish()?),
            Spool::Indexed(spool) => Spooled::Indexed(spool.finish()?),
        };
        Ok(Rows { spooled, summary })
    }
}

/// Rows on disk.
pub(super) struct Rows {
    spooled: Spooled,
    summary: Summary,
}

impl Rows {
    /// Reads the input into a spool.
    pub(super) fn read(
        source: &mut dyn RowSource,
        options: &BuildOptions,
        folder: &Path,
        salt: [u8; 32],
        progress: &dyn Progress,
    ) -> Result<Self, StoreError> {
        let kind = if options.selection.key.is_some() { TableKind::Keyword } else { TableKind::Index };
        let fields = options.selection.fields();
        let mut collector = Collector::create(kind, folder, &options.input_name(), salt, fields)?;
        let mut row = Row::default();
        while source.next(&mut row)? {
            if collector.rows().is_multiple_of(REPORT_ROWS) {
                let (done, total) = source.progress();
                progress.update(Phase::Read, done, total);
            }
            let hash = row.key().map(|key| KeyHash::new(&salt, key));
            collector.push(hash.as_ref(), Some(&row.value()), || source.place())?;
        }
        let (_, total) = source.progress();
        progress.update(Phase::Read, total, total);
        collector.finish()
    }

    /// Chooses records and their size, and refuses duplicate keys and outliers; hashes them if they are to carry proofs.
    pub(super) fn plan(
        self,
        proving: Proving,
        draws: &Draws,
        progress: &dyn Progress,
    ) -> Result<Planned, StoreError> {
        let Self { spooled, summary } = self;
        let (entries, salt, fields) = (summary.statistics.rows, summary.salt, summary.fields.clone());
        let (mut ordered, mut table) = match spooled {
            Spooled::Keyed(keyed) => {
                let (places, planned) = summary.draw_places(&keyed, proving, draws, progress)?;
                let partitions = keyed.place(places)?;
                // Before an uneven plan is refused: many rows of one key may be why it is.
                summary.refuse_duplicates(&partitions)?;
                let BucketPlan { buckets: records, payload_bytes, .. } =
                    planned.map_err(|Overpadded(plan)| summary.outliers(plan.padding))?;
                let (kind, places, proofs) = (TableKind::Keyword, Some(places), proving.blank(records));
                let table = Table { kind, entries, records, payload_bytes, salt, places, fields, proofs };
                (Ordered::Keyed(partitions), table)
            }
            Spooled::Indexed(values) => {
                let (kind, records) = (TableKind::Index, entries);
                let payload_bytes = summary.row_bytes()?;
                let (places, proofs) = (None, proving.blank(records));
                let table = Table { kind, entries, records, payload_bytes, salt, places, fields, proofs };
                (Ordered::Indexed(values), table)
            }
        };
        table.validate()?;
        let records = table.records;
        let tree = prove(&mut table, progress, |take| ordered.payloads(records, take))?;
        Ok(Planned { ordered, statistics: summary.statistics, table, tree })
    }
}

impl Summary {
    /// Where entries lie, and the number and size of buckets that this makes best.
    fn draw_places(
        &self,
        entries: &KeyedEntries,
        proving: Proving,
        draws: &Draws,
        progress: &dyn Progress,
    ) -> Result<([u8; 32], Result<BucketPlan, Overpadded>), StoreError> {
        let rows = self.statistics.rows;
        let cost = |planned: &Result<BucketPlan, Overpadded>| planned.map_or(f64::INFINITY, |plan| plan.cost);
        let mut best = None;
        for number in 0..DRAWS {
            progress.update(Phase::Plan, u64::from(number) * rows, u64::from(DRAWS) * rows);
            let places = draws.places(number)?;
            let mut planner = BucketPlanner::new(rows, proving.bytes_of());
            entries.scan(|hash, bytes| {
                planner.add(keyword::EntryPlace::new(&places, &hash.tag), entry_bytes(bytes))
            })?;
            let planned = planner.choose();
            if best.as_ref().is_none_or(|(_, best)| cost(&planned) < cost(best)) {
                best = Some((places, planned));
            }
        }
        progress.update(Phase::Plan, rows, rows);
        Ok(best.expect("there are draws"))
    }

    fn refuse_duplicates(&self, partitions: &[Partition]) -> Result<(), StoreError> {
        // In the order of the second rows, so that the message does not depend on the salt.
        let (mut repeated, mut count) = (BTreeMap::new(), 0);
        for partition in partitions {
            for same in partition.entries()?.chunk_by(|a, b| a.hash == b.hash) {
                if let [_, second, ..] = same {
                    count += 1;
                    let rows = same.iter().map(|entry| entry.row).take(RepeatedKey::NAMED).collect();
                    repeated.insert(second.row, RepeatedKey { rows, ..RepeatedKey::default() });
                    if repeated.len() > RepeatedKey::NAMED {
                        repeated.pop_last();
                    }
                }
            }
        }
        if count == 0 {
            return Ok(());
        }
        let (path, others) = (self.input.clone(), count - repeated.len() as u64);
        Err(StoreError::DuplicateKeys { path, keys: repeated.into_values().collect(), others })
    }

    /// Bytes of the payloads of rows by position.
    fn row_bytes(&self) -> Result<usize, StoreError> {
        let payload_bytes = Table::index_payload_bytes(self.statistics.longest_value_bytes as usize);
        let stored = u128::from(self.statistics.rows) * payload_bytes as u128;
        let padding = stored as f64 / self.statistics.entry_bytes as f64;
        match padding > MAX_PADDING && stored > u128::from(SMALL_TABLE_BYTES) {
            true => Err(self.outliers(padding)),
            false => Ok(payload_bytes),
        }
    }

    fn outliers(&self, padding: f64) -> StoreError {
        StoreError::Outliers {
            place: self.longest.clone(),
            row: self.statistics.longest_value_row.unwrap_or_default(),
            longest_bytes: self.statistics.longest_value_bytes,
            padding,
        }
    }
}

/// Rows whose records have a shape.
pub(super) struct Planned {
    ordered: Ordered,
    statistics: Statistics,
    table: Table,
    tree: Option<Tree>,
}

impl Planned {
    /// The table.
    pub(super) fn table(&self) -> &Table {
        &self.table
    }

    /// Seals the records and writes the matrix.
    pub(super) fn encode(
        self,
        stored: Stored,
        matrix: &Path,
        progress: &dyn Progress,
    ) -> Result<(Statistics, Samples), StoreError> {
        let Self { mut ordered, statistics, table, tree } = self;
        let mut sink = Sink::create(&table, tree.as_ref(), stored, matrix, progress)?;
        ordered.payloads(table.records, &mut |payload| sink.push(payload))?;
        Ok((statistics, sink.finish()?))
    }
}

/// Fills buckets from entries in the order of their places.
pub(super) struct BucketFiller {
    bucket: Bucket,
    current: u64,
    buckets: u64,
}

impl BucketFiller {
    /// For so many buckets.
    pub(super) fn new(buckets: u64) -> Self {
        Self { bucket: Bucket::default(), current: 0, buckets }
    }

    /// Adds the next entry, after the buckets before its own.
    pub(super) fn push(
        &mut self,
        place: keyword::EntryPlace,
        tag: &[u8; TAG_BYTES],
        value: &[u8],
        take: &mut Taker<'_>,
    ) -> Result<(), StoreError> {
        self.advance(place.bucket(self.buckets), take)?;
        self.bucket.push(tag, value);
        Ok(())
    }

    /// Adds what is left.
    pub(super) fn finish(mut self, take: &mut Taker<'_>) -> Result<(), StoreError> {
        self.advance(self.buckets, take)
    }

    fn advance(&mut self, to: u64, take: &mut Taker<'_>) -> Result<(), StoreError> {
        while self.current < to {
            take(self.bucket.payload())?;
            self.bucket.clear();
            self.current += 1;
        }
        Ok(())
    }
}

/// Seals payloads, many at a time on all cores, and writes them.
pub(super) struct Sink<'a> {
    table: &'a Table,
    tree: Option<&'a Tree>,
    writer: RecordWriter,
    samples: Samples,
    batch: Batch,
    sealed: u64,
    progress: &'a dyn Progress,
}

impl<'a> Sink<'a> {
    /// The records of `table`, with the proofs of `tree` if it has any, in a new file at `matrix`.
    pub(super) fn create(
        table: &'a Table,
        tree: Option<&'a Tree>,
        stored: Stored,
        matrix: &Path,
        progress: &'a dyn Progress,
    ) -> Result<Self, StoreError> {
        Ok(Self {
            table,
            tree,
            writer: RecordWriter::create(stored, matrix)?,
            samples: Samples::choose(table.records)?,
            batch: Batch::default(),
            sealed: 0,
            progress,
        })
    }

    /// Writes what is left.
    pub(super) fn finish(mut self) -> Result<Samples, StoreError> {
        self.seal()?;
        self.writer.finish()?;
        Ok(self.samples)
    }

    /// Adds the payload of the next record.
    pub(super) fn push(&mut self, payload: Vec<u8>) -> Result<(), StoreError> {
        if self.batch.push(payload) {
            self.seal()?;
        }
        Ok(())
    }

    fn seal(&mut self) -> Result<(), StoreError> {
        let (table, tree) = (self.table, self.tree);
        let records = self.batch.take(|index, payload| match tree {
            Some(tree) => table.seal_proven(index, payload, tree),
            None => table.seal(index, payload),
        });
        for record in &records {
            self.samples.offer(self.sealed, record);
            self.writer.push(record)?;
            self.sealed += 1;
        }
        self.progress.update(Phase::Encode, self.sealed, table.records);
        Ok(())
    }
}
