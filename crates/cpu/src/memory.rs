//! Memory for databases: huge pages if the system has them, or a mapped file.
#![allow(unsafe_code)]

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use memmap2::{Mmap, MmapMut, MmapOptions};
use rayon::prelude::*;
use spirea_backend::{BackendError, FileLayout, FileRows, MAX_MATRIX_BYTES, Residence};

/// Size of a huge page in bytes.
const HUGE_PAGE: usize = 2 << 20;
/// Bytes that one task copies or reads at a time.
const PIECE: usize = 4 << 20;

/// Bytes of a database, in allocated memory or mapped.
#[derive(Debug)]
pub(crate) enum Bytes {
    Owned(HugeBuffer),
    Mapped(Mmap),
}

impl Bytes {
    /// Copies `bytes`.
    pub(crate) fn copy_of(bytes: &[u8]) -> Result<Self, BackendError> {
        let mut buffer = HugeBuffer::zeroed(bytes.len()).map_err(no_memory)?;
        let pieces = buffer.bytes_mut().par_chunks_mut(PIECE).zip(bytes.par_chunks(PIECE));
        pieces.for_each(|(to, from)| to.copy_from_slice(from));
        Ok(Self::Owned(buffer))
    }

    /// Opens rows of a file. A single range can be mapped; several ranges are not contiguous and
    /// are copied.
    pub(crate) fn open<L: FileLayout>(stored: &FileRows<'_, L>) -> Result<Self, BackendError> {
        let failed = |source| stored.failed(source);
        stored.check_length()?;
        match (stored.residence, &stored.ranges()[..]) {
            (Residence::Mapped, [range]) => {
                let file = stored.file.file().map_err(failed)?;
                // SAFETY: the mapping is read-only and private to this value. If another process
                // shortened the file, a read would end this process by a signal. If another process
                // wrote to the file, answers would be wrong. Files of a snapshot are never written
                // again once they have their final name.
                let map = unsafe { MmapOptions::new().offset(range.start as u64).len(range.len()).map(file) };
                let map = map.map_err(failed)?;
                #[cfg(unix)]
                {
                    // This is only advice. If the file system cannot follow it, the scan still
                    // works.
                    let _ = map.advise(memmap2::Advice::Sequential);
                    let _ = map.advise(memmap2::Advice::WillNeed);
                }
                Ok(Self::Mapped(map))
            }
            (_, ranges) => {
                let length = ranges.iter().map(Range::len).sum();
                let mut buffer = HugeBuffer::zeroed(length).map_err(no_memory)?;
                let mut rest = buffer.bytes_mut();
                for range in ranges {
                    let (bytes, others) = rest.split_at_mut(range.len());
                    let pieces = bytes.par_chunks_mut(PIECE).enumerate();
                    pieces
                        .try_for_each(|(i, piece)| {
                            stored.file.read_exact_at(piece, (range.start + i * PIECE) as u64)
                        })
                        .map_err(failed)?;
                    rest = others;
                }
                Ok(Self::Owned(buffer))
            }
        }
    }

    /// Returns all bytes.
    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Self::Owned(buffer) => buffer.bytes(),
            Self::Mapped(map) => map,
        }
    }
}

fn no_memory(error: io::Error) -> BackendError {
    BackendError::Unavailable(format!(
        "no memory for the database ({error}): free some, or map the file instead"
    ))
}

/// Zeroed memory that begins at a huge page's boundary and requests huge pages.
///
/// With pages of 4 KiB a scan misses the translation cache every 4 KiB, and the prefetchers of the
/// hardware stop at the end of each page.
#[derive(Debug)]
pub(crate) struct HugeBuffer {
    map: MmapMut,
    start: usize,
    length: usize,
}

impl HugeBuffer {
    /// Allocates `length` bytes, at least 1. Pages appear at their first write, so filling the
    /// buffer in parallel also spreads the page faults.
    pub(crate) fn zeroed(length: usize) -> io::Result<Self> {
        // A small matrix is not aligned, because the alignment would waste most of a huge page.
        let slack = if length >= HUGE_PAGE { HUGE_PAGE } else { 0 };
        let map = MmapOptions::new().len(length + slack).map_anon()?;
        let start = if slack > 0 { map.as_ptr().align_offset(HUGE_PAGE) } else { 0 };
        #[cfg(target_os = "linux")]
        if slack > 0 {
            // This is only advice. Without huge pages the scan is slower but correct.
            let _ = map.advise(memmap2::Advice::HugePage);
        }
        Ok(Self { map, start, length })
    }

    /// Allocates `count` words for `what`; fails if `count` is `None` or too large.
    ///
    /// Kernels read the same places of many such buffers in turn. If all buffers began at a huge
    /// page's boundary, these places would fall into the same few sets of a cache. Each buffer
    /// therefore begins at a different page.
    pub(crate) fn words(count: Option<usize>, what: &str) -> Result<Self, BackendError> {
        static BUFFERS: AtomicUsize = AtomicUsize::new(0);
        const PAGE: usize = 4096;
        const PLACES: usize = 16;
        let bytes = count.and_then(|count| count.checked_mul(size_of::<u32>()));
        let bytes = bytes.filter(|&bytes| bytes as u64 <= MAX_MATRIX_BYTES);
        let buffer = bytes.ok_or(io::Error::from(io::ErrorKind::OutOfMemory)).and_then(|bytes| {
            let skipped = BUFFERS.fetch_add(1, Ordering::Relaxed) % PLACES * PAGE;
            let buffer = Self::zeroed(bytes + skipped)?;
            Ok(Self { start: buffer.start + skipped, length: bytes, ..buffer })
        });
        buffer.map_err(|error| BackendError::Unavailable(format!("no memory for {what}: {error}")))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.map[self.start..self.start + self.length]
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.map[self.start..self.start + self.length]
    }

    pub(crate) fn as_words(&self) -> &[u32] {
        // SAFETY: every bit pattern is a word.
        let (before, words, _) = unsafe { self.bytes().align_to() };
        assert!(before.is_empty(), "maps begin at a page's boundary");
        words
    }

    pub(crate) fn as_words_mut(&mut self) -> &mut [u32] {
        // SAFETY: every bit pattern is a word, and every word is valid as bytes.
        let (before, words, _) = unsafe { self.bytes_mut().align_to_mut() };
        assert!(before.is_empty(), "maps begin at a page's boundary");
        words
    }
}
