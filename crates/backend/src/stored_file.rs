//! Files that stay the same ones between their check and their use.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// A file that is opened once, at its first use. What was verified through it is what is read and mapped through it later, although
/// another file may have the path by then. Clones share the opened file.
///
/// Another process can still write into the opened file: files of a snapshot are never written again once they have their name.
#[derive(Clone, Debug)]
pub struct StoredFile {
    path: PathBuf,
    opened: Arc<OnceLock<File>>,
}

impl StoredFile {
    /// The file at a path. It need not be there before its first use.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), opened: Arc::default() }
    }

    /// The path by which it is opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The opened file. Its position is shared by all who have it: read by offsets.
    ///
    /// # Errors
    /// If it cannot be opened; the next use tries again.
    pub fn file(&self) -> io::Result<&File> {
        if let Some(file) = self.opened.get() {
            return Ok(file);
        }
        let file = File::open(&self.path)?;
        Ok(self.opened.get_or_init(|| file))
    }

    /// Its length in bytes.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn bytes(&self) -> io::Result<u64> {
        Ok(self.file()?.metadata()?.len())
    }

    /// Fills `bytes` with those from `offset` on, from any number of threads at once.
    ///
    /// # Errors
    /// If it cannot be opened or read, or ends before.
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

/// A browser has no files.
#[cfg(not(any(unix, windows)))]
fn read_exact_at(_: &File, _: &mut [u8], _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
