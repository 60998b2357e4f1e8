//! From rows to sealed records, in three steps: read, plan, encode.

use std::path::{Path, PathBuf};

use rayon::iter::{IndexedParallelIterator, IntoParallelRefIterator, ParallelIterator};
use spirea_protocols::keyword::{Bucket, BucketPlanner, KeyHash, MAX_PADDING, Overpadded, entry_bytes};
use spirea_protocols::parameters::Stored;
use spirea_protocols::table::{MAX_VALUE_BYTES, join_fields};
use spirea_protocols::{Table, TableKind};

use super::BuildOptions;
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
        let input = options.input.clone();
        let mut spool = match options.selection.key {
            Some(_) => Spool::Keyed(KeyedSpool::create(folder, input_bytes)?),
            None => Spool::Plain(PlainSpool::create(folder)?),
        };
        let mut statistics = Statistics {
            rows: 0,
            value_bytes: 0,
            entry_bytes: 0,
            longest_value_bytes: 0,
            longest_value_row: 1,
        };
        let mut longest = Place::File(input.clone());
        let mut row = Row::default();
        let mut fields = Vec::new();
        while source.next(&mut row)? {
            if statistics.rows.is_multiple_of(REPORT_ROWS) {
                let (done, total) = source.progress();
                progress.update(Phase::Read, done, total);
            }
            fields.clear();
            fields.extend(row.fields().map(<[u8]>::to_vec));
            let value = join_fields(&fields.iter().map(Vec::as_slice).collect::<Vec<_>>());
            if value.len() > MAX_VALUE_BYTES {
                return Err(StoreError::Oversize { place: source.place(), bytes: value.len() });
            }
            statistics.rows += 1;
            statistics.value_bytes += value.len() as u64;
            if value.len() as u64 > statistics.longest_value_bytes || statistics.rows == 1 {
                statistics.longest_value_bytes = value.len() as u64;
                statistics.longest_value_row = statistics.rows;
                longest = source.place();
            }
            match (&mut spool, row.key()) {
                (Spool::Keyed(spool), Some(key)) => {
                    statistics.entry_bytes += entry_bytes(value.len()) as u64;
                    spool.push(&KeyHash::new(&salt, key), statistics.rows, &value)?;
                }
                (Spool::Plain(spool), _) => {
                    statistics.entry_bytes += Table::index_payload_bytes(value.len()) as u64;
                    spool.push(&value)?;
                }
                (Spool::Keyed(_), None) => unreachable!("a source with a key column gives keys"),
            }
        }
        if statistics.rows == 0 {
            return Err(StoreError::Empty { path: input });
        }
        let (_, total) = source.progress();
        progress.update(Phase::Read, total, total);
        let spooled = match spool {
            Spool::Keyed(spool) => Spooled::Keyed(spool.finish()?),
            Spool::Plain(spool) => Spooled::Plain(spool.finish()?),
        };
        let fields = options.selection.fields();
        Ok(Self { spooled, statistics, longest, input, salt, fields })
    }

    /// Chooses records and their size, and refuses duplicate keys and outliers.
    pub(super) fn plan(self, progress: &dyn Progress) -> Result<Planned, StoreError> {
        let (kind, records, payload_bytes) = match &self.spooled {
            Spooled::Keyed(partitions) => {
                let (buckets, payload_bytes) = self.plan_buckets(partitions, progress)?;
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
        let table = Table { kind, entries, records, payload_bytes, salt, fields };
        table.validate()?;
        Ok(Planned { rows: self, table })
    }

    /// Number of buckets and bytes of their payloads.
    fn plan_buckets(
        &self,
        partitions: &[Partition],
        progress: &dyn Progress,
    ) -> Result<(u64, usize), StoreError> {
        let rows = self.statistics.rows;
        let mut planner = BucketPlanner::new(rows);
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
            row: self.statistics.longest_value_row,
            longest_bytes: self.statistics.longest_value_bytes,
            padding,
        }
    }
}

/// Rows whose records have a shape.
pub(super) struct Planned {
    rows: Rows,
    table: Table,
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
        let mut sink = Sink {
            table: &self.table,
            writer: RecordWriter::create(stored, matrix)?,
            samples: Samples::choose(self.table.records)?,
            pending: Vec::new(),
            pending_bytes: 0,
            sealed: 0,
            progress,
        };
        match self.rows.spooled {
            Spooled::Keyed(partitions) => encode_buckets(&partitions, self.table.records, &mut sink)?,
            Spooled::Plain(mut values) => {
                let mut value = Vec::new();
                for _ in 0..self.table.records {
                    values.next(&mut value)?;
                    sink.push(Table::index_payload(&value))?;
                }
            }
        }
        sink.seal()?;
        sink.writer.finish()?;
        Ok((self.rows.statistics, sink.samples))
    }
}

/// Fills all buckets in order. A bucket may span partitions if there are few.
fn encode_buckets(partitions: &[Partition], buckets: u64, sink: &mut Sink<'_>) -> Result<(), StoreError> {
    let (mut bucket, mut current) = (Bucket::default(), 0);
    for partition in partitions {
        let (entries, values) = (partition.entries()?, partition.values()?);
        for entry in entries {
            while current < entry.hash.bucket(buckets) {
                sink.push(bucket.payload())?;
                bucket.clear();
                current += 1;
            }
            bucket.push(&entry.hash.tag, &values[entry.value]);
        }
    }
    while current < buckets {
        sink.push(bucket.payload())?;
        bucket.clear();
        current += 1;
    }
    Ok(())
}

/// Seals payloads, many at a time on all cores, and writes them.
struct Sink<'a> {
    table: &'a Table,
    writer: RecordWriter,
    samples: Samples,
    pending: Vec<Vec<u8>>,
    pending_bytes: usize,
    sealed: u64,
    progress: &'a dyn Progress,
}

impl Sink<'_> {
    /// Bytes of records that are sealed at once.
    const BATCH_BYTES: usize = 1 << 20;

    fn push(&mut self, payload: Vec<u8>) -> Result<(), StoreError> {
        self.pending.push(payload);
        self.pending_bytes += self.table.record_bytes();
        if self.pending_bytes >= Self::BATCH_BYTES {
            self.seal()?;
        }
        Ok(())
    }

    fn seal(&mut self) -> Result<(), StoreError> {
        let (table, first) = (self.table, self.sealed);
        let records: Vec<_> = self
            .pending
            .par_iter()
            .enumerate()
            .with_min_len(64)
            .map(|(i, payload)| table.seal(first + i as u64, payload))
            .collect();
        for (i, record) in records.iter().enumerate() {
            self.samples.offer(first + i as u64, record);
            self.writer.push(record)?;
        }
        self.sealed += records.len() as u64;
        self.pending.clear();
        self.pending_bytes = 0;
        self.progress.update(Phase::Encode, self.sealed, table.records);
        Ok(())
    }
}
