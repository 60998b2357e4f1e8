//! The spool: rows of the input on disk between the first pass and the second.
//!
//! Entries with keys stay in the order of the input until all have been read, since their places
//! are drawn only then. They are in two files. The first has headers of 24 bytes each, which
//! suffice for planning; the second has the values. Then the entries are partitioned by the upper
//! bits of their places. A partition has two such files too, and can be sorted in memory. It is a
//! contiguous range of buckets, whatever the number of buckets turns out to be.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};

use rayon::slice::ParallelSliceMut;
use spirea_protocols::PlaceSalt;
use spirea_protocols::keyword::{Copies, EntryPlace, KeyHash, TAG_BYTES};

use crate::StoreError;
use crate::error::IoContext;

const HEADER_BYTES: usize = TAG_BYTES + 8 + 4;
/// Target size of a partition, in bytes.
const PARTITION_BYTES: u64 = 16 << 20;
/// Bounds the number of partitions, each of which has two open files.
const MAX_PARTITION_BITS: u32 = 6;

/// A file being written, with its path for messages.
struct Output {
    file: BufWriter<File>,
    path: PathBuf,
}

impl Output {
    fn create(path: PathBuf, capacity: usize) -> Result<Self, StoreError> {
        let file = BufWriter::with_capacity(capacity, File::create(&path).at("create", &path)?);
        Ok(Self { file, path })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.file.write_all(bytes).at("write", &self.path)
    }

    fn finish(mut self) -> Result<PathBuf, StoreError> {
        self.file.flush().at("write", &self.path)?;
        Ok(self.path)
    }
}

/// Header of an entry: everything except its value.
struct Header {
    hash: KeyHash,
    row: u64,
    value_bytes: u32,
}

impl Header {
    fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        header[..12].copy_from_slice(&self.hash.tag);
        header[12..20].copy_from_slice(&self.row.to_le_bytes());
        header[20..].copy_from_slice(&self.value_bytes.to_le_bytes());
        header
    }

    fn from_bytes(header: &[u8; HEADER_BYTES]) -> Self {
        Self {
            hash: KeyHash { tag: header[..12].try_into().expect("12 bytes") },
            row: u64::from_le_bytes(header[12..20].try_into().expect("8 bytes")),
            value_bytes: u32::from_le_bytes(header[20..].try_into().expect("4 bytes")),
        }
    }
}

/// Two files of entries being written.
struct EntryWriter {
    headers: Output,
    values: Output,
}

impl EntryWriter {
    fn create(folder: &Path, name: &str) -> Result<Self, StoreError> {
        let headers = Output::create(folder.join(format!("{name}.headers")), 1 << 13)?;
        Ok(Self { headers, values: Output::create(folder.join(format!("{name}.values")), 1 << 16)? })
    }

    fn push(&mut self, header: &Header, value: &[u8]) -> Result<(), StoreError> {
        self.headers.write(&header.to_bytes())?;
        self.values.write(value)
    }

    fn finish(self) -> Result<EntryFiles, StoreError> {
        Ok(EntryFiles { headers: self.headers.finish()?, values: self.values.finish()? })
    }
}

/// Two files of entries.
struct EntryFiles {
    headers: PathBuf,
    values: PathBuf,
}

impl EntryFiles {
    fn remove(&self) -> Result<(), StoreError> {
        [&self.headers, &self.values]
            .into_iter()
            .try_for_each(|path| std::fs::remove_file(path).at("remove", path))
    }
}

/// Collects entries with keys.
pub(super) struct KeyedSpool {
    folder: PathBuf,
    entries: EntryWriter,
}

impl KeyedSpool {
    /// Creates a spool in `folder`.
    pub(super) fn create(folder: &Path) -> Result<Self, StoreError> {
        Ok(Self { folder: folder.into(), entries: EntryWriter::create(folder, "all")? })
    }

    pub(super) fn push(&mut self, hash: &KeyHash, row: u64, value: &[u8]) -> Result<(), StoreError> {
        let value_bytes = u32::try_from(value.len()).expect("values are bounded");
        self.entries.push(&Header { hash: *hash, row, value_bytes }, value)
    }

    pub(super) fn finish(self) -> Result<KeyedEntries, StoreError> {
        Ok(KeyedEntries { folder: self.folder, files: self.entries.finish()? })
    }
}

/// The entries of a [`KeyedSpool`], before their places are drawn.
pub(super) struct KeyedEntries {
    folder: PathBuf,
    files: EntryFiles,
}

impl KeyedEntries {
    /// Passes the hash and the value's length of each entry to `take`.
    pub(super) fn scan(&self, mut take: impl FnMut(&KeyHash, usize)) -> Result<(), StoreError> {
        self.headers(|header| {
            take(&header.hash, header.value_bytes as usize);
            Ok(())
        })
    }

    /// Passes the row number and the value's length of each entry to `take`.
    pub(super) fn rows(&self, mut take: impl FnMut(u64, usize)) -> Result<(), StoreError> {
        self.headers(|header| {
            take(header.row, header.value_bytes as usize);
            Ok(())
        })
    }

    /// Keeps, for each hash, the entry that `pick` selects among all entries with this hash, in the
    /// order of their rows. `places` only divides the work; the result does not depend on it.
    pub(super) fn without_duplicates(self, pick: Pick, places: PlaceSalt) -> Result<Self, StoreError> {
        let folder = self.folder.join("kept");
        std::fs::create_dir(&folder).at("create", &folder)?;
        let mut kept = KeyedSpool::create(&folder)?;
        for partition in self.place(places, Copies::One)? {
            let (entries, values) = (partition.entries()?, partition.values()?);
            for same in entries.chunk_by(|a, b| a.hash == b.hash) {
                let entry = pick(same).expect("a chunk has an entry");
                kept.push(&entry.hash, entry.row, &values[entry.value.clone()])?;
            }
            partition.remove()?;
        }
        kept.finish()
    }

    /// Partitions the entries by the places of their copies. A spool that fits one partition stays
    /// unchanged.
    pub(super) fn place(self, places: PlaceSalt, copies: Copies) -> Result<Vec<Partition>, StoreError> {
        let bytes = [&self.files.headers, &self.files.values]
            .map(|path| std::fs::metadata(path).at("read", path).map(|file| file.len()));
        let [headers, values] = bytes;
        let bytes = (headers? + values?) * copies.number() as u64;
        let bits = (bytes / PARTITION_BYTES + 1).ilog2().min(MAX_PARTITION_BITS);
        let (count, places) = (1 << bits, CopyPlaces { places, copies });
        if count == 1 {
            return Ok(vec![Partition { files: self.files, places, number: 0, count }]);
        }
        let mut partitions = (0..count)
            .map(|i| EntryWriter::create(&self.folder, &i.to_string()))
            .collect::<Result<Vec<_>, _>>()?;
        let path = &self.files.values;
        let mut values = BufReader::with_capacity(1 << 18, File::open(path).at("read", path)?);
        let mut value = Vec::new();
        self.headers(|header| {
            value.resize(header.value_bytes as usize, 0);
            values.read_exact(&mut value).at("read", path)?;
            let mut own: Vec<u64> = places.of(&header.hash).map(|(_, place)| place.part(count)).collect();
            own.sort_unstable();
            own.dedup();
            own.into_iter().try_for_each(|partition| partitions[partition as usize].push(&header, &value))
        })?;
        self.files.remove()?;
        let partition = |(number, files): (u64, EntryWriter)| {
            Ok(Partition { files: files.finish()?, places: places.clone(), number, count })
        };
        (0..).zip(partitions).map(partition).collect()
    }

    fn headers(&self, mut take: impl FnMut(Header) -> Result<(), StoreError>) -> Result<(), StoreError> {
        let path = &self.files.headers;
        let file = File::open(path).at("read", path)?;
        let entries = file.metadata().at("read", path)?.len() / HEADER_BYTES as u64;
        let mut file = BufReader::with_capacity(1 << 18, file);
        let mut header = [0; HEADER_BYTES];
        for _ in 0..entries {
            file.read_exact(&mut header).at("read", path)?;
            take(Header::from_bytes(&header))?;
        }
        Ok(())
    }
}

/// The places of entries' copies.
#[derive(Clone)]
struct CopyPlaces {
    places: PlaceSalt,
    copies: Copies,
}

impl CopyPlaces {
    /// Returns the copies of an entry, numbered, with their places.
    fn of(&self, hash: &KeyHash) -> impl Iterator<Item = (usize, EntryPlace)> + use<> {
        EntryPlace::of_copies(&self.places, &hash.tag, self.copies).enumerate()
    }
}

/// Entries with copies in a contiguous range of places: part `number` of `count` equal ones.
pub(super) struct Partition {
    files: EntryFiles,
    places: CopyPlaces,
    number: u64,
    count: u64,
}

/// Selects one of several entries.
pub(super) type Pick = fn(&[Entry]) -> Option<&Entry>;

/// A copy of an entry, without its value.
pub(super) struct Entry {
    pub(super) place: EntryPlace,
    /// Number of the copy, from 0.
    pub(super) copy: usize,
    pub(super) hash: KeyHash,
    pub(super) row: u64,
    /// Range of its value in [`Partition::values`].
    pub(super) value: std::ops::Range<usize>,
}

impl Partition {
    /// Returns the copies in the range in the order of their places; entries with the same hash in
    /// the order of their rows.
    pub(super) fn entries(&self) -> Result<Vec<Entry>, StoreError> {
        let path = &self.files.headers;
        let bytes = std::fs::read(path).at("read", path)?;
        let mut start = 0;
        let mut entries = Vec::new();
        for header in bytes.as_chunks().0 {
            let Header { hash, row, value_bytes } = Header::from_bytes(header);
            let value = start..start + value_bytes as usize;
            start = value.end;
            let own = self.places.of(&hash).filter(|(_, place)| place.part(self.count) == self.number);
            entries.extend(own.map(|(copy, place)| Entry { place, copy, hash, row, value: value.clone() }));
        }
        drop(bytes);
        entries.par_sort_unstable_by_key(|entry| (entry.place, entry.hash, entry.row));
        Ok(entries)
    }

    /// Removes the partition's files.
    fn remove(self) -> Result<(), StoreError> {
        self.files.remove()
    }

    /// Returns all values, one after another.
    pub(super) fn values(&self) -> Result<Vec<u8>, StoreError> {
        std::fs::read(&self.files.values).at("read", &self.files.values)
    }
}

/// Length that marks a row without a value.
const NO_VALUE: u32 = u32::MAX;

/// Collects values without keys, in order.
pub(super) struct IndexSpool(Output);

impl IndexSpool {
    pub(super) fn create(folder: &Path) -> Result<Self, StoreError> {
        Ok(Self(Output::create(folder.join("values"), 1 << 18)?))
    }

    /// Adds a value, or a row without one.
    pub(super) fn push(&mut self, value: Option<&[u8]>) -> Result<(), StoreError> {
        let length = value.map_or(NO_VALUE, |value| u32::try_from(value.len()).expect("values are bounded"));
        self.0.write(&length.to_le_bytes())?;
        self.0.write(value.unwrap_or_default())
    }

    pub(super) fn finish(self) -> Result<IndexValues, StoreError> {
        let path = self.0.finish()?;
        let file = BufReader::with_capacity(1 << 18, File::open(&path).at("read", &path)?);
        Ok(IndexValues { file, path })
    }
}

/// The values of a [`IndexSpool`].
pub(super) struct IndexValues {
    file: BufReader<File>,
    path: PathBuf,
}

impl IndexValues {
    /// Returns to the first value.
    pub(super) fn rewind(&mut self) -> Result<(), StoreError> {
        self.file.rewind().at("read", &self.path)
    }

    /// Reads the next value, or `None` for a row without one; must not be called more often than
    /// rows were pushed.
    pub(super) fn next<'v>(&mut self, value: &'v mut Vec<u8>) -> Result<Option<&'v [u8]>, StoreError> {
        let mut length = [0; 4];
        self.file.read_exact(&mut length).at("read", &self.path)?;
        let length = u32::from_le_bytes(length);
        if length == NO_VALUE {
            return Ok(None);
        }
        value.resize(length as usize, 0);
        self.file.read_exact(value).at("read", &self.path)?;
        Ok(Some(value))
    }
}
