//! The spool: rows of the input on disk between the first pass and the second.
//!
//! Entries with keys are partitioned by the upper bits of their place, so that a partition is a contiguous
//! range of buckets, whatever their number turns out to be, and can be sorted in memory. A partition is two
//! files: headers of 32 bytes, which planning reads alone, and values.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use rayon::slice::ParallelSliceMut;
use spirea_protocols::keyword::{KeyHash, TAG_BYTES};

use crate::StoreError;
use crate::error::IoContext;

const HEADER_BYTES: usize = 8 + TAG_BYTES + 8 + 4;
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
        let partition = (hash.place >> 1) >> (63 - self.bits);
        let (headers, values) = &mut self.partitions[partition as usize];
        let mut header = [0; HEADER_BYTES];
        header[..8].copy_from_slice(&hash.place.to_le_bytes());
        header[8..20].copy_from_slice(&hash.tag);
        header[20..28].copy_from_slice(&row.to_le_bytes());
        header[28..].copy_from_slice(&u32::try_from(value.len()).expect("values are bounded").to_le_bytes());
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
            let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
            let length = u32::from_le_bytes(header[28..].try_into().expect("4 bytes")) as usize;
            let value = start..start + length;
            start = value.end;
            let tag = header[8..20].try_into().expect("12 bytes");
            Entry { hash: KeyHash { place: number(&header[..8]), tag }, row: number(&header[20..28]), value }
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

/// Collects values without keys, in order.
pub(super) struct PlainSpool(Output);

impl PlainSpool {
    pub(super) fn create(folder: &Path) -> Result<Self, StoreError> {
        Ok(Self(Output::create(folder.join("values"), 1 << 18)?))
    }

    pub(super) fn push(&mut self, value: &[u8]) -> Result<(), StoreError> {
        self.0.write(&u32::try_from(value.len()).expect("values are bounded").to_le_bytes())?;
        self.0.write(value)
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
    /// Reads the next value; there are as many as were pushed.
    pub(super) fn next(&mut self, value: &mut Vec<u8>) -> Result<(), StoreError> {
        let mut length = [0; 4];
        self.file.read_exact(&mut length).at("read", &self.path)?;
        value.resize(u32::from_le_bytes(length) as usize, 0);
        self.file.read_exact(value).at("read", &self.path)
    }
}
