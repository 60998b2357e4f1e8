//! The spool: rows of the input on disk between the first pass and the second.
//!
//! Entries with keys are partitioned by the upper bits of their place, so that a partition is a contiguous
//! range of buckets, whatever their number turns out to be, and can be sorted in memory. A partition is two
//! files: headers of 24 bytes, which planning reads alone, and values.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};

use rayon::slice::ParallelSliceMut;
use spirea_protocols::keyword::{KeyHash, TAG_BYTES};

use crate::StoreError;
use crate::error::IoContext;

const HEADER_BYTES: usize = TAG_BYTES + 8 + 4;
/// Bytes of input that one partition aims at.
const PARTITION_BYTES: u64 = 16 << 20;
/// The most partitions: two open files for each.
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

/// Collects entries with keys.
pub(super) struct KeyedSpool {
    partitions: Vec<(Output, Output)>,
    bits: u32,
}

impl KeyedSpool {
    /// A spool in `folder` for an input of about `input_bytes` bytes.
    pub(super) fn create(folder: &Path, input_bytes: u64) -> Result<Self, StoreError> {
        let bits = (input_bytes / PARTITION_BYTES + 1).ilog2().min(MAX_PARTITION_BITS);
        let partitions = (0..1 << bits).map(|i| {
            let headers = Output::create(folder.join(format!("{i}.headers")), 1 << 13)?;
            Ok((headers, Output::create(folder.join(format!("{i}.values")), 1 << 16)?))
        });
        Ok(Self { partitions: partitions.collect::<Result<_, StoreError>>()?, bits })
    }

    pub(super) fn push(&mut self, hash: &KeyHash, row: u64, value: &[u8]) -> Result<(), StoreError> {
        // In two steps: a shift by all 64 bits is none.
        let partition = (hash.place() >> 1) >> (63 - self.bits);
        let (headers, values) = &mut self.partitions[partition as usize];
        let mut header = [0; HEADER_BYTES];
        header[..12].copy_from_slice(&hash.tag);
        header[12..20].copy_from_slice(&row.to_le_bytes());
        header[20..].copy_from_slice(&u32::try_from(value.len()).expect("values are bounded").to_le_bytes());
        headers.write(&header)?;
        values.write(value)
    }

    pub(super) fn finish(self) -> Result<Vec<Partition>, StoreError> {
        let finish = |(headers, values): (Output, Output)| {
            Ok(Partition { headers: headers.finish()?, values: values.finish()? })
        };
        self.partitions.into_iter().map(finish).collect()
    }
}

/// Entries of a contiguous range of places.
pub(super) struct Partition {
    headers: PathBuf,
    values: PathBuf,
}

/// An entry without its value.
pub(super) struct Entry {
    pub(super) hash: KeyHash,
    pub(super) row: u64,
    /// Where its value lies in [`Partition::values`].
    pub(super) value: std::ops::Range<usize>,
}

impl Partition {
    /// The entries in the order of their hashes; those of one hash in the order of their rows.
    pub(super) fn entries(&self) -> Result<Vec<Entry>, StoreError> {
        let bytes = std::fs::read(&self.headers).at("read", &self.headers)?;
        let mut start = 0;
        let entry = |header: &[u8]| {
            let length = u32::from_le_bytes(header[20..].try_into().expect("4 bytes")) as usize;
            let value = start..start + length;
            start = value.end;
            let tag = header[..12].try_into().expect("12 bytes");
            let row = u64::from_le_bytes(header[12..20].try_into().expect("8 bytes"));
            Entry { hash: KeyHash { tag }, row, value }
        };
        let mut entries: Vec<_> = bytes.chunks_exact(HEADER_BYTES).map(entry).collect();
        drop(bytes);
        entries.par_sort_unstable_by_key(|entry| (entry.hash, entry.row));
        Ok(entries)
    }

    /// All values, one after another.
    pub(super) fn values(&self) -> Result<Vec<u8>, StoreError> {
        std::fs::read(&self.values).at("read", &self.values)
    }
}

/// Stands for the length of a value where there is none.
const NO_VALUE: u32 = u32::MAX;

/// Collects values without keys, in order.
pub(super) struct PlainSpool(Output);

impl PlainSpool {
    pub(super) fn create(folder: &Path) -> Result<Self, StoreError> {
        Ok(Self(Output::create(folder.join("values"), 1 << 18)?))
    }

    /// Adds a value, or a row that has none.
    pub(super) fn push(&mut self, value: Option<&[u8]>) -> Result<(), StoreError> {
        let length = value.map_or(NO_VALUE, |value| u32::try_from(value.len()).expect("values are bounded"));
        self.0.write(&length.to_le_bytes())?;
        self.0.write(value.unwrap_or_default())
    }

    pub(super) fn finish(self) -> Result<PlainValues, StoreError> {
        let path = self.0.finish()?;
        let file = BufReader::with_capacity(1 << 18, File::open(&path).at("read", &path)?);
        Ok(PlainValues { file, path })
    }
}

/// The values of a [`PlainSpool`].
pub(super) struct PlainValues {
    file: BufReader<File>,
    path: PathBuf,
}

impl PlainValues {
    /// Goes back to the first value.
    pub(super) fn rewind(&mut self) -> Result<(), StoreError> {
        self.file.rewind().at("read", &self.path)
    }

    /// Reads the next value, or `None` for a row without one; there are as many as were pushed.
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
