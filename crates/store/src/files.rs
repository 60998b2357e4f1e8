//! Files: hashing, syncing, reserving space.

use std::fs::{self, File};
use std::io::{self, Read as _, Write};
use std::path::Path;

use spirea_backend::StoredFile;
use spirea_protocols::FileHash;

use crate::StoreError;
use crate::error::IoContext;
use crate::manifest::FileEntry;

/// Bytes that are read and hashed at once, enough for all cores to share.
const PIECE: usize = 8 << 20;

/// Computes the BLAKE3 hash of a file on all cores; `progress` receives the number of hashed bytes.
/// The file is read, not mapped, so that a file that shrinks meanwhile causes an error and not a
/// signal.
pub(crate) fn hash_file(file: &StoredFile, progress: &mut dyn FnMut(u64)) -> Result<FileHash, StoreError> {
    let path = file.path();
    let bytes = file.bytes().at("open", path)?;
    let mut hasher = blake3::Hasher::new();
    let (mut now, mut next) = (Vec::with_capacity(PIECE), Vec::with_capacity(PIECE));
    let read = |offset: u64, piece: &mut Vec<u8>| {
        piece.resize((bytes - offset).min(PIECE as u64) as usize, 0);
        file.read_exact_at(piece, offset)
    };
    read(0, &mut now).at("read", path)?;
    while !now.is_empty() {
        let end = hasher.count() + now.len() as u64;
        let (_, more) = rayon::join(|| hasher.update_rayon(&now), || read(end, &mut next));
        more.at("read", path)?;
        progress(end);
        std::mem::swap(&mut now, &mut next);
    }
    Ok(hasher.finalize().into())
}

/// Returns the entry of file `name` in a snapshot's folder, from its current content.
pub(crate) fn entry(
    folder: &Path,
    name: &str,
    progress: &mut dyn FnMut(u64),
) -> Result<FileEntry, StoreError> {
    let file = StoredFile::at(folder.join(name));
    let bytes = file.bytes().at("open", file.path())?;
    Ok(FileEntry { file: name.into(), bytes, blake3: hash_file(&file, progress)? })
}

/// Reads a file of at most `most` bytes. If the file is longer, it is damaged; then reads
/// `most + 1` bytes, so that the caller detects this.
pub(crate) fn read_at_most(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Writes a new file into a snapshot's folder.
pub(crate) fn write_entry(folder: &Path, name: &str, bytes: &[u8]) -> Result<FileEntry, StoreError> {
    let path = folder.join(name);
    fs::write(&path, bytes).at("write", &path)?;
    Ok(FileEntry { file: name.into(), bytes: bytes.len() as u64, blake3: blake3::hash(bytes).into() })
}

/// Writes a file that is on disk when this returns, except for its entry in the folder.
pub(crate) fn write_synced(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let mut file = File::create(path).at("create", path)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).at("write", path)
}

/// Creates or replaces a file in one step; the new content is on disk when this returns.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let temporary = path.with_extension(TEMPORARY);
    write_synced(&temporary, bytes)?;
    fs::rename(&temporary, path).at("rename", &temporary)?;
    sync_folder(path.parent().expect("a file has a folder"))
}

/// Extension of a file that is about to be moved to its final name.
pub(crate) const TEMPORARY: &str = "partial";

/// Syncs a file, or the entries of a folder.
pub(crate) fn sync(path: &Path) -> Result<(), StoreError> {
    File::open(path).and_then(|file| file.sync_all()).at("sync", path)
}

/// Syncs the entries of a folder.
pub(crate) fn sync_folder(path: &Path) -> Result<(), StoreError> {
    sync(if path == Path::new("") { Path::new(".") } else { path })
}

/// Makes the file `bytes` long, all zero, and reserves the space if the file system supports that.
/// So a full disk is detected before the work, and the file is contiguous although it is written in
/// many pieces.
pub(crate) fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    file.set_len(bytes)?;
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{FallocateFlags, fallocate};
        use rustix::io::Errno;
        let reserved = fallocate(file, FallocateFlags::empty(), 0, bytes);
        if let Err(error @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) = reserved {
            return Err(error.into());
        }
    }
    Ok(())
}
