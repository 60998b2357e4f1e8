//! Files to a device.

use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use rayon::prelude::*;
use spirea_backend::BackendError;

use crate::driver::{Buffer, Device, Pinned, Stream, View};

/// Bytes of a chunk: long enough that what it takes to start a copy is nothing beside it.
const CHUNK: usize = 32 << 20;
/// Bytes that a thread reads at a time.
const PIECE: usize = 4 << 20;

/// The bytes of a file.
///
/// # Errors
/// [`BackendError::Io`] with what the system said.
pub(crate) fn file_length(path: &Path) -> Result<u64, BackendError> {
    std::fs::metadata(path).map(|data| data.len()).map_err(|source| io_error(path, source))
}

/// Copies ranges of a file, one after another, to the front of a buffer, and returns when they are there: one chunk is
/// read, by all threads, while the one before is copied.
///
/// # Errors
/// [`BackendError::Io`] if it cannot be read, or is shorter.
///
/// # Panics
/// If the buffer is shorter.
pub(crate) fn upload_file(
    device: &Arc<Device>,
    path: &Path,
    ranges: &[Range<usize>],
    buffer: &Buffer<u8>,
) -> Result<(), BackendError> {
    let file = File::open(path).map_err(|source| io_error(path, source))?;
    let longest = ranges.iter().map(Range::len).max().unwrap_or(0).min(CHUNK);
    let mut places = [Place::new(device, longest)?, Place::new(device, longest)?];
    let chunks = ranges
        .iter()
        .flat_map(|range| range.clone().step_by(CHUNK).map(|start| start..range.end.min(start + CHUNK)));
    let mut end = 0;
    let copied = chunks.enumerate().try_for_each(|(i, chunk)| {
        let start = end;
        end += chunk.len();
        places[i % 2].copy(&file, path, chunk, &buffer.range(start..end))
    });
    // Whatever came of it: the places stay until their copies have run.
    let ended = places.iter().try_for_each(|place| place.stream.synchronize());
    copied?;
    Ok(ended?)
}

/// Where a chunk lies while it is copied.
struct Place {
    stream: Stream,
    bytes: Arc<Pinned<u8>>,
}

impl Place {
    fn new(device: &Arc<Device>, length: usize) -> Result<Self, BackendError> {
        let stream = device.stream()?;
        // The buffer belongs to the main stream.
        stream.after(&device.main())?;
        Ok(Self { stream, bytes: Arc::new(Pinned::new(device, length)?) })
    }

    /// Reads a range of the file and queues its copy.
    fn copy(
        &mut self,
        file: &File,
        path: &Path,
        range: Range<usize>,
        to: &View<'_, u8>,
    ) -> Result<(), BackendError> {
        self.stream.synchronize()?;
        let bytes = Arc::get_mut(&mut self.bytes).expect("nobody else has it");
        let length = range.len();
        bytes[..length]
            .par_chunks_mut(PIECE)
            .enumerate()
            .try_for_each(|(i, piece)| read_exact_at(file, piece, (range.start + i * PIECE) as u64))
            .map_err(|source| io_error(path, source))?;
        Ok(self.stream.upload_pinned(&self.bytes, 0..length, to)?)
    }
}

fn io_error(path: &Path, source: std::io::Error) -> BackendError {
    BackendError::Io { path: path.into(), source }
}

#[cfg(unix)]
fn read_exact_at(file: &File, piece: &mut [u8], offset: u64) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, piece, offset)
}

#[cfg(not(unix))]
fn read_exact_at(file: &File, piece: &mut [u8], offset: u64) -> std::io::Result<()> {
    // Reads at its own offset, wherever the handle's position is.
    let mut done = 0;
    while done < piece.len() {
        match std::os::windows::fs::FileExt::seek_read(file, &mut piece[done..], offset + done as u64)? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            read => done += read,
        }
    }
    Ok(())
}
