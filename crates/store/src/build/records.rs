//! From rows to sealed records, in three steps: read, plan, encode.

use std::path::{Path, PathBuf};

use spirea_protocols::keyword::{Bucket, BucketPlanner, KeyHash, MAX_PADDING, Overpadded, entry_bytes};
use spirea_protocols::parameters::Stored;
use spirea_protocols::proof::Tree;
use spirea_protocols::table::MAX_VALUE_BYTES;
use spirea_protocols::{Table, TableKind};

use super::BuildOptions;
use super::prove::{Batch, Proving, Taker, prove};
use super::spool::{KeyedSpool, Partition, PlainSpool, PlainValues};
use super::test::Samples;
use super::writer::RecordWriter;
use crate::ingest::{Row, RowSource};
use crate::{Phase, Place, Progress, Statistics, StoreError};

/// Bytes of all records up to which a table by position is small however it is padded: an answer is at least
/// of this order.
const SMALL_TABLE_BYTES: u64 = 64 << 10;
/// Rows between two reports of progress.
const REPORT_ROWS: u64 = 1 << 13;

enum Spool {
    Keyed(KeyedSpool),
    Plain(PlainSpool),
}

enum Spooled {
    Keyed(Vec<Partition>),
    Plain(PlainValues),
}

impl Spooled {
    /// Gives the payloads of so many records in order. A bucket may span partitions if there are few.
    fn payloads(&mut self, records: u64, take: &mut Taker<'_>) -> Result<(), StoreError> {
        match self {
            Self::Keyed(partitions) => {
                let mut filler = BucketFiller::new(records);
                for partition in partitions {
                    let (entries, values) = (partition.entries()?, partition.values()?);
                    for entry in entries {
                        filler.push(&entry.hash, &values[entry.value], take)?;
                    }
                }
                filler.finish(take)
            }
            Self::Plain(values) => {
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

/// Collects rows on disk, and counts.
pub(super) struct Collector {
    spool: Spool,
    statistics: Statistics,
    longest: Place,
    input: PathBuf,
    salt: [u8; 32],
    fields: Vec<String>,
}

impl Collector {
    /// A spool in `folder` for a table like `table`, whose input is called `input` in messages and has about
    /// `input_bytes` bytes.
    pub(super) fn create(
        kind: TableKind,
        folder: &Path,
        input: &Path,
        input_bytes: u64,
        salt: [u8; 32],
        fields: Vec<String>,
    ) -> Result<Self, StoreError> {
        let spool = match kind {
            TableKind::Keyword => Spool::Keyed(KeyedSpool::create(folder, input_bytes)?),
            TableKind::Index => Spool::Plain(PlainSpool::create(folder)?),
        };
        let statistics = Statistics {
            rows: 0,
            value_bytes: 0,
            entry_bytes: 0,
            longest_value_bytes: 0,
            longest_value_row: None,
        };
        Ok(Self { spool, statistics, longest: Place::File(input.into()), input: input.into(), salt, fields })
    }

    /// Adds a row: its key's hash, if the table has keys, and its value, if it has one.
    pub(super) fn push(
        &mut self,
        hash: Option<&KeyHash>,
        value: Option<&[u8]>,
        place: impl Fn() -> Place,
    ) -> Result<(), StoreError> {
        let (statistics, bytes) = (&mut self.statistics, value.map_or(0, <[u8]>::len));
        if bytes > MAX_VALUE_BYTES {
            return Err(StoreError::Oversize { place: place(), bytes });
        }
        statistics.rows += 1;
        statistics.value_bytes += bytes as u64;
        if bytes as u64 > statistics.longest_value_bytes || statistics.rows == 1 {
            statistics.longest_value_bytes = bytes as u64;
            statistics.longest_value_row = Some(statistics.rows);
            self.longest = place();
        }
        match (&mut self.spool, hash) {
            (Spool::Keyed(spool), Some(hash)) => {
                statistics.entry_bytes += entry_bytes(bytes) as u64;
                spool.push(hash, statistics.rows, value.unwrap_or_default())
            }
            (Spool::Plain(spool), None) => {
                statistics.entry_bytes += Table::index_payload_bytes(bytes) as u64;
                spool.push(value)
            }
            _ => unreachable!("rows have keys if and only if the table has"),
        }
    }

    /// Rows that were added.
    pub(super) fn rows(&self) -> u64 {
        self.statistics.rows
    }

    /// Ends the spool.
    pub(super) fn finish(self) -> Result<Rows, StoreError> {
        let Self { spool, statistics, longest, input, salt, fields } = self;
        if statistics.rows == 0 {
            return Err(StoreError::Empty { path: input });
        }
        let spooled = match spool {
            Spool::Keyed(spool) => Spooled::Keyed(spool.finish()?),
            Spool::Plain(spool) => Spooled::Plain(spool.finish()?),
        };
        Ok(Rows { spooled, statistics, longest, input, salt, fields })
    }
}

/// Rows on disk.
pub(super) struct Rows {
    spooled: Spooled,
    statistics: Statistics,
    longest: Place,
    input: PathBuf,
    salt: [u8; 32],
    fields: Vec<String>,
}

impl Rows {
    /// Reads the input into a spool.
    pub(super) fn read(
        source: &mut dyn RowSource,
        options: &BuildOptions,
        folder: &Path,
        input_bytes: u64,
        salt: [u8; 32],
        progress: &dyn Progress,
    ) -> Result<Self, StoreError> {
        let kind = if options.selection.key.is_some() { TableKind::Keyword } else { TableKind::Index };
        let fields = options.selection.fields();
        let mut collector = Collector::create(kind, folder, &options.input, input_bytes, salt, fields)?;
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
    pub(super) fn plan(mut self, proving: Proving, progress: &dyn Progress) -> Result<Planned, StoreError> {
        let (kind, records, payload_bytes) = match &self.spooled {
            Spooled::Keyed(partitions) => {
                let (buckets, payload_bytes) = self.plan_buckets(partitions, proving, progress)?;
                (TableKind::Keyword, buckets, payload_bytes)
            }
            Spooled::Plain(_) => {
                let rows = self.statistics.rows;
                let payload_bytes = Table::index_payload_bytes(self.statistics.longest_value_bytes as usize);
                let stored = u128::from(rows) * payload_bytes as u128;
                let padding = stored as f64 / self.statistics.entry_bytes as f64;
                if padding > MAX_PADDING && stored > u128::from(SMALL_TABLE_BYTES) {
                    return Err(self.outliers(padding));
                }
                (TableKind::Index, rows, payload_bytes)
            }
        };
        let entries = self.statistics.rows;
        let (salt, fields) = (self.salt, self.fields.clone());
        let proofs = proving.blank(records);
        let mut table = Table { kind, entries, records, payload_bytes, salt, fields, proofs };
        table.validate()?;
        let tree = prove(&mut table, progress, |take| self.spooled.payloads(records, take))?;
        Ok(Planned { rows: self, table, tree })
    }

    /// Number of buckets and bytes of their payloads.
    fn plan_buckets(
        &self,
        partitions: &[Partition],
        proving: Proving,
        progress: &dyn Progress,
    ) -> Result<(u64, usize), StoreError> {
        let rows = self.statistics.rows;
        let mut planner = BucketPlanner::new(rows, proving.bytes_of());
        // The pair whose second row comes first in the input, so that the message does not depend on the salt.
        let (mut pair, mut repeats, mut planned) = (None::<(u64, u64)>, 0, 0);
        for partition in partitions {
            let entries = partition.entries()?;
            for same in entries.chunk_by(|a, b| a.hash == b.hash) {
                if let [first, second, ..] = same {
                    repeats += same.len() as u64 - 1;
                    if pair.is_none_or(|(_, row)| second.row < row) {
                        pair = Some((first.row, second.row));
                    }
                }
            }
            for entry in &entries {
                planner.add(&entry.hash, entry_bytes(entry.value.len()));
            }
            planned += entries.len() as u64;
            progress.update(Phase::Plan, planned, rows);
        }
        if let Some((first, second)) = pair {
            let (path, others) = (self.input.clone(), repeats - 1);
            return Err(StoreError::DuplicateKey { path, first, second, others });
        }
        let plan = planner.choose().map_err(|Overpadded(plan)| self.outliers(plan.padding))?;
        Ok((plan.buckets, plan.payload_bytes))
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
    rows: Rows,
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
        let Self { rows: Rows { mut spooled, statistics, .. }, table, tree } = self;
        let mut sink = Sink::create(&table, tree.as_ref(), stored, matrix, progress)?;
        spooled.payloads(table.records, &mut |payload| sink.push(payload))?;
        Ok((statistics, sink.finish()?))
    }
}

/// Fills buckets from entries in the order of their hashes.
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
        hash: &KeyHash,
        value: &[u8],
        take: &mut Taker<'_>,
    ) -> Result<(), StoreError> {
        self.advance(hash.bucket(self.buckets), take)?;
        self.bucket.push(&hash.tag, value);
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
