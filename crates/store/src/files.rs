//! Files: hashing, syncing.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::StoreError;
use crate::error::IoContext;

/// Bytes that are read and hashed at once: enough for all cores to share.
const PIECE: usize = 8 << 20;

/// BLAKE3 of a file, on all cores; `progress` is told the bytes done. Reads rather than maps, so that a file
/// that shrinks meanwhile is an error and not a signal.
pub(crate) fn hash_file(path: &Path, progress: &mut dyn FnMut(u64)) -> Result<[u8; 32], StoreError> {
    let mut file = File::open(path).at("open", path)?;
    let mut hasher = blake3::Hasher::new();
    let (mut now, mut next) = (Vec::with_capacity(PIECE), Vec::with_capacity(PIECE));
    let read = |file: &mut File, piece: &mut Vec<u8>| {
        piece.clear();
        file.take(PIECE as u64).read_to_end(piece)
    };
    read(&mut file, &mut now).at("read", path)?;
    while !now.is_empty() {
        let (_, more) = rayon::join(|| hasher.update_rayon(&now), || read(&mut file, &mut next));
        more.at("read", path)?;
        progress(hasher.count());
        std::mem::swap(&mut now, &mut next);
    }
    Ok(*hasher.finalize().as_bytes())
}
