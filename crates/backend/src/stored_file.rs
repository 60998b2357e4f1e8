//! Files that remain the same between their verification and their use.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// File that is opened once, at its first use. Content verified through this value is the content
/// that is read and mapped through it later, even if the path names another file by then. Clones
/// share the opened file.
///
/// Another process can still write into the opened file, but files of a snapshot are never written
/// again once they have their final name.
#[derive(Clone, Debug)]
pub struct StoredFile {
    path: PathBuf,
    opened: Arc<OnceLock<File>>,
}

impl StoredFile {
    /// Returns the file at a path. The file need not exist before its first use.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), opened: Arc::default() }
    }

    /// Returns the path by which the file is opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the opened file. All clones share its position, so read by offsets.
    ///
    /// # Errors
    /// Fails if the file cannot be opened; the next use tries again.
    pub fn file(&self) -> io::Result<&File> {
        if let Some(file) = self.opened.get() {
            return Ok(file);
        }
        let file = File::open(&self.path)?;
        Ok(self.opened.get_or_init(|| file))
    }

    /// Returns the file's length in bytes.
    ///
    /// # Errors
    /// Fails if the file cannot be opened.
    pub fn bytes(&self) -> io::Result<u64> {
        Ok(self.file()?.metadata()?.len())
    }

    /// Fills `bytes` with the content from `offset` on; any number of threads may call this at
    /// once.
    ///
    /// # Errors
    /// Fails if the file cannot be opened or read, or ends too early.
    pub fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        read_exact_at(self.file()?, bytes, offset)
    }
}

impl AsRef<Path> for StoredFile {
    fn as_ref(&self) -> &Path {
        &self.path
    }
}

#[cfg(unix)]
fn read_exact_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, offset)
}

#[cfg(windows)]
fn read_exact_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match std::os::windows::fs::FileExt::seek_read(file, &mut bytes[done..], offset + done as u64)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => done += read,
        }
    }
    Ok(())
}

/// Browsers have no files.
#[cfg(not(any(unix, windows)))]
fn read_exact_at(_: &File, _: &mut [u8], _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
