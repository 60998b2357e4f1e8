//! The files of a database, as protocols read and write them.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use spirea_backend::{BackendError, StoredFile};

use crate::ProtocolError;
use crate::parameters::Stored;

/// The files of a database that its server opens.
#[derive(Clone, Debug)]
pub struct Files {
    /// The database.
    pub matrix: StoredFile,
    /// Data precomputed from the database for the server.
    pub server: StoredFile,
}

impl Files {
    /// Returns the files at two paths. Neither file need exist before its first use.
    pub fn at(matrix: impl Into<PathBuf>, server: impl Into<PathBuf>) -> Self {
        Self { matrix: StoredFile::at(matrix), server: StoredFile::at(server) }
    }
}

/// Input and outputs of a database's precomputation.
pub struct Precomputation<'a> {
    /// The database.
    pub matrix: &'a StoredFile,
    /// Receives the data for clients.
    pub hint: &'a mut dyn Write,
    /// Receives the data for the server.
    pub server: &'a mut dyn Write,
    /// Receives the completed fraction.
    pub progress: &'a mut dyn FnMut(f64),
}

/// A sealed record before and after a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedRecord {
    /// Index of the record.
    pub index: u64,
    /// Old bytes.
    pub old: Vec<u8>,
    /// New bytes, of the same length.
    pub new: Vec<u8>,
}

/// The files of a database whose records have changed.
#[derive(Clone, Copy, Debug)]
pub struct PatchedFiles<'a> {
    /// The database, already changed.
    pub matrix: &'a Path,
    /// The hint, to be changed.
    pub hint: &'a Path,
    /// Precomputed data for the server, to be changed.
    pub server: &'a Path,
}

/// A file that is read and written at given offsets.
pub(crate) struct File {
    path: PathBuf,
    file: positioned::File,
}

impl File {
    /// Opens a file for reading and writing if it has `bytes` bytes.
    ///
    /// # Errors
    /// [`ProtocolError::Backend`].
    pub fn open(path: &Path, bytes: u64) -> Result<Self, ProtocolError> {
        let opened = OpenOptions::new().read(true).write(true).open(path);
        let opened = opened.and_then(|file| Ok((file.metadata()?.len(), file)));
        let (found, file) = opened.map_err(|source| unreadable(path, source))?;
        check_length(path, found, bytes)?;
        Ok(Self { path: path.into(), file: positioned::File::new(file) })
    }

    /// Fills `bytes` from `offset` on.
    ///
    /// # Errors
    /// [`ProtocolError::Backend`].
    pub fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), ProtocolError> {
        self.file.read_exact_at(bytes, offset).map_err(|source| unreadable(&self.path, source))
    }

    /// Writes `bytes` from `offset` on.
    ///
    /// # Errors
    /// [`ProtocolError::Write`].
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), ProtocolError> {
        self.file.write_all_at(bytes, offset).map_err(ProtocolError::Write)
    }
}

/// Reads a whole file if it has `bytes` bytes.
///
/// # Errors
/// [`ProtocolError::Backend`].
pub(crate) fn read_exact(file: &StoredFile, bytes: u64) -> Result<Vec<u8>, ProtocolError> {
    let unreadable = |source| unreadable(file.path(), source);
    check_length(file.path(), file.bytes().map_err(unreadable)?, bytes)?;
    let mut content = vec![0; bytes as usize];
    file.read_exact_at(&mut content, 0).map_err(unreadable)?;
    Ok(content)
}

fn check_length(path: &Path, found: u64, expected: u64) -> Result<(), ProtocolError> {
    if found == expected {
        return Ok(());
    }
    let path = path.display();
    Err(BackendError::Shape(format!("{path}: {found} bytes where the parameters say {expected}")).into())
}

fn unreadable(path: &Path, source: std::io::Error) -> ProtocolError {
    BackendError::Io { path: path.into(), source }.into()
}

/// File of a database of units, read within a step that cannot return errors of files.
pub(crate) struct Units {
    file: StoredFile,
    failure: Mutex<Option<ProtocolError>>,
}

impl Units {
    /// Opens the file of a database with layout `stored`.
    ///
    /// # Errors
    /// [`ProtocolError::Backend`] if it cannot be read or has another length.
    pub fn open(file: &StoredFile, stored: Stored) -> Result<Self, ProtocolError> {
        let found = file.bytes().map_err(|source| unreadable(file.path(), source))?;
        check_length(file.path(), found, stored.bytes())?;
        Ok(Self { file: file.clone(), failure: Mutex::default() })
    }

    /// Reads a unit. An error is kept for [`Units::check`].
    pub fn read(&self, unit: usize, bytes: &mut [u8]) {
        if let Err(source) = self.file.read_exact_at(bytes, unit as u64 * bytes.len() as u64) {
            let failure = unreadable(self.file.path(), source);
            *self.failure.lock() = Some(failure);
        }
    }

    /// Ends the reading and returns the last error, if any.
    ///
    /// # Errors
    /// [`ProtocolError::Backend`] if a unit could not be read.
    pub fn check(self) -> Result<(), ProtocolError> {
        self.failure.into_inner().map_or(Ok(()), Err)
    }
}

/// Lets several threads read one file concurrently, each at its own offset.
#[cfg(unix)]
mod positioned {
    use std::io;
    use std::os::unix::fs::FileExt;

    pub(super) struct File(std::fs::File);

    impl File {
        pub fn new(file: std::fs::File) -> Self {
            Self(file)
        }

        pub fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
            self.0.read_exact_at(bytes, offset)
        }

        pub fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
            self.0.write_all_at(bytes, offset)
        }
    }
}

/// Lets several threads read one file, one after another, on platforms where reads move the file's
/// position.
#[cfg(not(unix))]
mod positioned {
    use std::io::{self, Read, Seek, SeekFrom, Write};

    use parking_lot::{Mutex, MutexGuard};

    pub(super) struct File(Mutex<std::fs::File>);

    impl File {
        pub fn new(file: std::fs::File) -> Self {
            Self(Mutex::new(file))
        }

        fn at(&self, offset: u64) -> io::Result<MutexGuard<'_, std::fs::File>> {
            let mut file = self.0.lock();
            file.seek(SeekFrom::Start(offset))?;
            Ok(file)
        }

        pub fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
            self.at(offset)?.read_exact(bytes)
        }

        pub fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
            self.at(offset)?.write_all(bytes)
        }
    }
}
