//! Turns rows into sealed records, in three steps: read, plan, encode.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use spirea_protocols::keyword::{Bucket, Copies, EntryPlace, KeyHash, TAG_BYTES, entry_bytes};
use spirea_protocols::layout::{Cut, Framing, Lengths, Loads, SPARSE, Shape, rows_per_record};
use spirea_protocols::parameters::Stored;
use spirea_protocols::proof::Tree;
use spirea_protocols::rows::{push_row, row_bytes};
use spirea_protocols::table::{Boundaries, CHECKSUM_BYTES};
use spirea_protocols::{PlaceSalt, Salt, Table, TableKind};

use super::draws::Draws;
use super::options::{BuildOptions, Duplicates, ValueLimit};
use super::prove::{Batch, Proving, Taker, prove};
use super::schema::Schema;
use super::spool::{IndexSpool, IndexValues, KeyedEntries, KeyedSpool, Partition, Pick};
use super::test::Samples;
use super::writer::RecordWriter;
use crate::ingest::{Row, RowSource};
use crate::manifest::WithoutLongest;
use crate::progress::go_on;
use crate::{Location, Phase, Progress, RepeatedKey, Statistics, StoreError};

/// Rows between two reports of progress.
const REPORT_ROWS: u64 = 1 << 13;
/// Divisor of the number of values: the build reports the cost of the longest `1 / LONGEST_SHARE`
/// of the values to the operator.
const LONGEST_SHARE: u64 = 100;

enum Spool {
    Keyed(KeyedSpool),
    Indexed(IndexSpool),
}

enum Spooled {
    Keyed(KeyedEntries),
    Indexed(IndexValues),
}

impl Spooled {
    /// Returns the loads of at most `units` equal parts. For keyed rows, the range of places is
    /// divided; otherwise, the row numbers are divided.
    fn loads(
        &mut self,
        units: u64,
        places: &PlaceSalt,
        copies: Copies,
        rows: u64,
    ) -> Result<Loads, StoreError> {
        match self {
            Self::Keyed(entries) => {
                let mut loads = Loads::new(units);
                entries.scan(|hash, bytes| {
                    EntryPlace::of_copies(places, &hash.tag, copies)
                        .for_each(|place| loads.add(place.part(units), entry_bytes(bytes)));
                })?;
                Ok(loads)
            }
            Self::Indexed(values) => {
                let units = units.min(rows);
                let mut loads = Loads::new(units);
                values.rewind()?;
                let mut value = Vec::new();
                for row in 0..rows {
                    let bytes = values.next(&mut value)?.map(<[u8]>::len);
                    loads.add(row * units / rows, row_bytes(bytes));
                }
                Ok(loads)
            }
        }
    }

    /// Sorts the rows into the order of their records.
    fn order(self, places: PlaceSalt, copies: Copies, layout: &Layout) -> Result<Ordered, StoreError> {
        Ok(match (self, layout) {
            (Self::Keyed(entries), _) => Ordered::Keyed(entries.place(places, copies)?),
            (Self::Indexed(values), Layout::Rows { in_record: 1, .. }) => Ordered::Rows(values),
            (Self::Indexed(values), _) => Ordered::BucketsOfRows(values),
        })
    }
}

/// Rows in the order of their records.
enum Ordered {
    Keyed(Vec<Partition>),
    /// Rows of a table in which each record has one row.
    Rows(IndexValues),
    BucketsOfRows(IndexValues),
}

impl Ordered {
    /// Passes the payloads of `records` records to `take`, in order. With few buckets, a bucket may
    /// span partitions.
    fn payloads(
        &mut self,
        boundaries: &Boundaries,
        records: u64,
        take: &mut Taker<'_>,
    ) -> Result<(), StoreError> {
        match self {
            Self::Keyed(partitions) => {
                let mut filler = BucketFiller::new(boundaries, records);
                for partition in partitions {
                    let (entries, values) = (partition.entries()?, partition.values()?);
                    for entry in entries {
                        filler.push(entry.place, &entry.hash.tag, &values[entry.value], take)?;
                    }
                }
                filler.finish(take)
            }
            Self::Rows(values) => {
                values.rewind()?;
                let mut value = Vec::new();
                for _ in 0..records {
                    let payload = values.next(&mut value)?.map(Table::index_payload);
                    take(payload.unwrap_or_else(Table::absent_payload))?;
                }
                Ok(())
            }
            Self::BucketsOfRows(values) => {
                values.rewind()?;
                let mut value = Vec::new();
                for record in 0..records {
                    let mut payload = Vec::new();
                    for _ in boundaries.rows(record) {
                        push_row(&mut payload, values.next(&mut value)?);
                    }
                    take(payload)?;
                }
                Ok(())
            }
        }
    }
}

/// Layout of entries in records.
enum Layout {
    /// Each record has the same number of rows.
    Rows {
        in_record: u32,
        payload_bytes: usize,
    },
    Buckets(Shape),
}

impl Layout {
    /// Chooses the layout for values of these lengths.
    fn choose(kind: TableKind, lengths: &Lengths, proving: Proving, copies: Copies) -> Self {
        let framing = framing(kind, proving, copies);
        let lengths = &lengths.repeated(copies.number() as u64);
        let bytes: u64 = lengths.iter().map(|(bytes, count)| framing.entry(bytes) as u64 * count).sum();
        let longest = framing.entry(lengths.longest());
        let padded = lengths.values() as f64 * longest as f64;
        match kind {
            TableKind::Index if padded <= SPARSE * bytes as f64 => {
                Self::rows(lengths.values(), longest, proving, &framing)
            }
            _ => Self::Buckets(Shape::choose(lengths, &framing)),
        }
    }

    fn rows(rows: u64, longest: usize, proving: Proving, framing: &Framing) -> Self {
        // In a bucket, a deleted row takes 2 bytes.
        let row_bytes = longest.max(row_bytes(None));
        let in_record = match proving {
            Proving::Omit => 1,
            Proving::Include => rows_per_record(rows, row_bytes, framing),
        };
        let payload_bytes = if in_record == 1 { longest } else { in_record as usize * row_bytes };
        Self::Rows { in_record, payload_bytes }
    }

    /// Returns the number of records for `rows` rows, and the bytes of each.
    fn records(&self, rows: u64, proving: Proving) -> (u64, usize) {
        match *self {
            Self::Rows { in_record, payload_bytes } => {
                let records = rows.div_ceil(in_record.into());
                (records, payload_bytes + proving.bytes_of()(records) + CHECKSUM_BYTES)
            }
            Self::Buckets(Shape { buckets, record_bytes, .. }) => (buckets, record_bytes),
        }
    }
}

/// Returns the overhead of buckets of a table of this kind.
fn framing(kind: TableKind, proving: Proving, copies: Copies) -> Framing {
    match kind {
        TableKind::Keyword => Framing::copied(copies, proving.bytes_of()),
        TableKind::Index => Framing::of_rows(proving.bytes_of()),
    }
}

/// Summary of rows: their statistics and the properties of their table.
struct Summary {
    kind: TableKind,
    statistics: Statistics,
    lengths: Lengths,
    limit: ValueLimit,
    input: PathBuf,
    salt: Salt,
    schema: Schema,
}

/// Collects rows on disk and counts them.
pub(super) struct Collector {
    spool: Spool,
    summary: Summary,
}

impl Collector {
    /// Creates a spool in `folder` for a table of this kind; messages call its input `input`.
    pub(super) fn create(
        kind: TableKind,
        folder: &Path,
        input: &Path,
        salt: Salt,
        schema: Schema,
        limit: ValueLimit,
    ) -> Result<Self, StoreError> {
        let spool = match kind {
            TableKind::Keyword => Spool::Keyed(KeyedSpool::create(folder)?),
            TableKind::Index => Spool::Indexed(IndexSpool::create(folder)?),
        };
        let statistics = Summary::NOTHING;
        let (lengths, input) = (Lengths::default(), input.into());
        Ok(Self { spool, summary: Summary { kind, statistics, lengths, limit, input, salt, schema } })
    }

    /// Adds a row: the hash of its key, if the table has keys, and its value, if it has one.
    pub(super) fn push(
        &mut self,
        hash: Option<&KeyHash>,
        value: Option<&[u8]>,
        place: impl Fn() -> Location,
    ) -> Result<(), StoreError> {
        let bytes = value.map_or(0, <[u8]>::len);
        let most = self.summary.limit.most();
        if bytes > most {
            return Err(StoreError::Oversize { place: place(), what: "the value".into(), bytes, most });
        }
        let row = self.rows() + 1;
        self.summary.add(row, bytes);
        match (&mut self.spool, hash) {
            (Spool::Keyed(spool), Some(hash)) => spool.push(hash, row, value.unwrap_or_default()),
            (Spool::Indexed(spool), None) => spool.push(value),
            _ => unreachable!("rows have keys if and only if the table has"),
        }
    }

    /// Returns the number of rows added.
    pub(super) fn rows(&self) -> u64 {
        self.summary.statistics.rows
    }

    /// Finishes the spool.
    pub(super) fn finish(self) -> Result<Rows, StoreError> {
        let Self { spool, summary } = self;
        if summary.statistics.rows == 0 && summary.kind == TableKind::Index {
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
        salt: Salt,
        progress: &dyn Progress,
    ) -> Result<Self, StoreError> {
        let own = source.own_columns();
        let selection = own.as_ref().unwrap_or(&options.selection);
        let kind = if selection.key.is_some() { TableKind::Keyword } else { TableKind::Index };
        let schema = Schema::new(options, selection, &*source)?;
        let limit = options.value_limit()?;
        let mut collector =
            Collector::create(kind, folder, &options.input_name(), salt, schema.clone(), limit)?;
        let mut row = Row::default();
        while source.next(&mut row)? {
            go_on(progress)?;
            if collector.rows().is_multiple_of(REPORT_ROWS) {
                let (done, total) = source.progress();
                progress.update(Phase::Read, done, total);
            }
            schema.check(&row).map_err(|detail| StoreError::malformed(source.place(), detail))?;
            let hash = match row.key() {
                None => None,
                Some(key) => {
                    let key =
                        schema.key(key).map_err(|detail| StoreError::malformed(source.place(), detail))?;
                    Some(KeyHash::new(&salt, &key))
                }
            };
            collector.push(hash.as_ref(), Some(&row.value()), || source.place())?;
        }
        let (_, total) = source.progress();
        progress.update(Phase::Read, total, total);
        let rows = collector.rows();
        if let Some(expected) = options.expected_rows.filter(|expected| !expected.admits(rows)) {
            return Err(StoreError::UnexpectedRows { path: options.input_name(), rows, expected });
        }
        let rows = collector.finish()?;
        match options.duplicates {
            Duplicates::Refuse => Ok(rows),
            Duplicates::First => rows.without_duplicates(<[_]>::first, progress),
            Duplicates::Last => rows.without_duplicates(<[_]>::last, progress),
        }
    }

    /// Keeps, for each key, the row that `pick` selects.
    fn without_duplicates(self, pick: Pick, progress: &dyn Progress) -> Result<Self, StoreError> {
        let Self { spooled, mut summary } = self;
        let Spooled::Keyed(entries) = spooled else { return Ok(Self { spooled, summary }) };
        // The places of these divide only the work, so they may have the same key as the tags.
        let places = PlaceSalt::new(*summary.salt.as_bytes());
        let entries = entries.without_duplicates(pick, places)?;
        let before = std::mem::replace(&mut summary.statistics, Summary::NOTHING);
        summary.lengths = Lengths::default();
        entries.rows(|row, bytes| summary.add(row, bytes))?;
        // Row numbers of the table now differ from those of the input.
        summary.statistics.longest_value_row = None;
        progress.left_out(before.rows - summary.statistics.rows);
        Ok(Self { spooled: Spooled::Keyed(entries), summary })
    }

    /// Returns the number and size of the records that [`Rows::plan`] would choose; the final
    /// number of buckets may be slightly higher.
    pub(super) fn records(&self, proving: Proving) -> (u64, usize) {
        self.summary.layout(&self.summary.lengths, proving).records(self.summary.statistics.rows, proving)
    }

    /// Chooses the records and their size, and refuses duplicate keys; hashes the records if they
    /// carry proofs.
    pub(super) fn plan(
        self,
        proving: Proving,
        draws: &Draws,
        progress: &dyn Progress,
    ) -> Result<Planned, StoreError> {
        let Self { mut spooled, mut summary } = self;
        let (kind, entries, copies) = (summary.kind, summary.statistics.rows, summary.schema.copies);
        summary.weigh_longest(proving);
        let layout = summary.layout(&summary.lengths, proving);
        progress.update(Phase::Plan, 0, entries);
        let places = draws.places()?;
        let (payload_bytes, widths) = match &layout {
            Layout::Rows { payload_bytes, .. } => (*payload_bytes, None),
            Layout::Buckets(shape) => {
                let loads = spooled.loads(shape.units(), &places, copies, entries)?;
                let Cut { payload_bytes, widths } = loads.cut(shape, &framing(kind, proving, copies));
                (payload_bytes, Some(widths))
            }
        };
        progress.update(Phase::Plan, entries, entries);
        let mut ordered = spooled.order(places, copies, &layout)?;
        if let Ordered::Keyed(partitions) = &ordered {
            summary.refuse_duplicates(partitions)?;
        }
        let rows_per_record = match layout {
            Layout::Rows { in_record, .. } if in_record > 1 => Some(in_record),
            _ => None,
        };
        let records = widths
            .as_ref()
            .map_or_else(|| layout.records(entries, proving).0, |widths| widths.count() as u64);
        let mut table = Table {
            kind,
            entries,
            records,
            payload_bytes,
            salt: summary.salt,
            places: (kind == TableKind::Keyword).then_some(places),
            copies,
            widths,
            rows_per_record,
            max_value_bytes: Some(summary.limit.of_table(summary.lengths.longest())),
            fields: summary.schema.fields.clone(),
            types: summary.schema.types.clone(),
            key_form: summary.schema.key_form.clone(),
            key_queries: summary.schema.key_queries,
            proofs: proving.blank(records, draws)?,
        };
        table.validate()?;
        let boundaries = table.boundaries();
        let payloads = |take: &mut Taker<'_>| ordered.payloads(&boundaries, records, take);
        let tree = prove(&mut table, progress, payloads)?;
        Ok(Planned { ordered, boundaries, statistics: summary.statistics, table, tree })
    }
}

impl Summary {
    /// Statistics of an empty table.
    const NOTHING: Statistics = Statistics {
        rows: 0,
        value_bytes: 0,
        entry_bytes: 0,
        longest_value_bytes: 0,
        longest_value_row: None,
        without_longest: None,
    };

    /// Counts the value of `bytes` bytes in row number `row`, from 1.
    fn add(&mut self, row: u64, bytes: usize) {
        let statistics = &mut self.statistics;
        self.lengths.add(bytes);
        statistics.rows += 1;
        statistics.value_bytes += bytes as u64;
        statistics.entry_bytes += match self.kind {
            TableKind::Keyword => entry_bytes(bytes),
            TableKind::Index => Table::index_payload_bytes(bytes),
        } as u64;
        let longest = (statistics.longest_value_bytes, std::cmp::Reverse(statistics.longest_value_row));
        if statistics.rows == 1 || (bytes as u64, std::cmp::Reverse(Some(row))) > longest {
            statistics.longest_value_bytes = bytes as u64;
            statistics.longest_value_row = Some(row);
        }
    }

    /// Chooses the layout of a table whose entries have values of these lengths.
    fn layout(&self, lengths: &Lengths, proving: Proving) -> Layout {
        Layout::choose(self.kind, lengths, proving, self.schema.copies)
    }

    /// Stores in the statistics the record size that the table would have without its longest
    /// values.
    fn weigh_longest(&mut self, proving: Proving) {
        let kept = self.lengths.without_longest(LONGEST_SHARE);
        let layout = self.layout(&kept, proving);
        self.statistics.without_longest = Some(WithoutLongest {
            longest_value_bytes: kept.longest() as u64,
            record_bytes: layout.records(kept.values(), proving).1 as u64,
        });
    }

    fn refuse_duplicates(&self, partitions: &[Partition]) -> Result<(), StoreError> {
        // The keys are ordered by their second rows, so that the message does not depend on the
        // salt.
        let (mut repeated, mut count) = (BTreeMap::new(), 0);
        for partition in partitions {
            let mut entries = partition.entries()?;
            // Each entry has one first copy, in one of the partitions.
            entries.retain(|entry| entry.copy == 0);
            for same in entries.chunk_by(|a, b| a.hash == b.hash) {
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
}

/// Rows with the shape of their records.
pub(super) struct Planned {
    ordered: Ordered,
    boundaries: Boundaries,
    statistics: Statistics,
    table: Table,
    tree: Option<Tree>,
}

impl Planned {
    /// Returns the table.
    pub(super) fn table(&self) -> &Table {
        &self.table
    }

    /// Returns the table and its statistics.
    pub(super) fn into_parts(self) -> (Table, Statistics) {
        (self.table, self.statistics)
    }

    /// Seals the records and writes the matrix.
    pub(super) fn encode(
        self,
        stored: Stored,
        matrix: &Path,
        progress: &dyn Progress,
    ) -> Result<(Statistics, Samples), StoreError> {
        let Self { mut ordered, boundaries, statistics, table, tree } = self;
        let mut sink = Sink::create(&table, tree.as_ref(), stored, matrix, progress)?;
        ordered.payloads(&boundaries, table.records, &mut |payload| sink.push(payload))?;
        Ok((statistics, sink.finish()?))
    }
}

/// Fills buckets from entries in the order of their places.
pub(super) struct BucketFiller<'b> {
    bucket: Bucket,
    current: u64,
    boundaries: &'b Boundaries,
    buckets: u64,
}

impl<'b> BucketFiller<'b> {
    /// Creates a filler for `buckets` buckets with these boundaries.
    pub(super) fn new(boundaries: &'b Boundaries, buckets: u64) -> Self {
        Self { bucket: Bucket::default(), current: 0, boundaries, buckets }
    }

    /// Adds the next copy of an entry, after completing the buckets before its own. A bucket takes
    /// one copy of each entry.
    pub(super) fn push(
        &mut self,
        place: EntryPlace,
        tag: &[u8; TAG_BYTES],
        value: &[u8],
        take: &mut Taker<'_>,
    ) -> Result<(), StoreError> {
        self.advance(self.boundaries.of_place(place), take)?;
        if self.boundaries.is_held(place, tag) {
            self.bucket.push(tag, value);
        }
        Ok(())
    }

    /// Completes the remaining buckets.
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

/// Seals payloads in batches on all cores, and writes them.
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
    /// Creates a sink for the records of `table`, with the proofs of `tree` if given, in a new file
    /// at `matrix`.
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

    /// Writes the last batch.
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
        go_on(self.progress)?;
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
