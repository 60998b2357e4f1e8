//! The files of a database, as protocols read and write them.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use spirea_backend::BackendError;

use crate::ProtocolError;
use crate::parameters::Stored;

/// The files of a database that its server opens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The database.
    pub matrix: PathBuf,
    /// What was computed of it for the server.
    pub server: PathBuf,
}

/// What is computed of a database beforehand: from what, and where it goes.
pub struct Precomputation<'a> {
    /// The database.
    pub matrix: &'a Path,
    /// Takes what is for clients.
    pub hint: &'a mut dyn Write,
    /// Takes what is for the server.
    pub server: &'a mut dyn Write,
    /// Is told the share that is done.
    pub progress: &'a mut dyn FnMut(f64),
}

/// A record before and after it changed, sealed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedRecord {
    /// Which.
    pub index: u64,
    /// Its bytes as they were.
    pub old: Vec<u8>,
    /// Its bytes as they are, as many.
    pub new: Vec<u8>,
}

/// The files of a database whose records have changed.
#[derive(Clone, Copy, Debug)]
pub struct PatchedFiles<'a> {
    /// The database, with the changes.
    pub matrix: &'a Path,
    /// The hint, to be changed.
    pub hint: &'a Path,
    /// What is kept for the server, to be changed.
    pub server: &'a Path,
}

/// A file that is read and written where one says.
pub(crate) struct File {
    path: PathBuf,
    file: positioned::File,
}

impl File {
    /// Opens a file to be read, if it has this length.
    ///
    /// # Errors
    /// [`ProtocolError::Backend`].
    pub fn open(path: &Path, bytes: u64) -> Result<Self, ProtocolError> {
        Self::open_with(OpenOptions::new().read(true), path, bytes)
    }

    /// Opens a file to be read and written, if it has this length.
    ///
    /// # Errors
    /// [`ProtocolError::Backend`].
    pub fn open_to_change(path: &Path, bytes: u64) -> Result<Self, ProtocolError> {
        Self::open_with(OpenOptions::new().read(true).write(true), path, bytes)
    }

    fn open_with(options: &OpenOptions, path: &Path, bytes: u64) -> Result<Self, ProtocolError> {
        let opened = options.open(path).and_then(|file| Ok((file.metadata()?.len(), file)));
        let (found, file) = opened.map_err(|source| unreadable(path, source))?;
        check_length(path, found, bytes)?;
        Ok(Self { path: path.into(), file: positioned::File::new(file) })
    }

    /// Fills `bytes` with those from `offset` on.
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

/// Reads a whole file, if it has this length.
///
/// # Errors
/// [`ProtocolError::Backend`].
pub(crate) fn read_exact(path: &Path, bytes: u64) -> Result<Vec<u8>, ProtocolError> {
    let content = std::fs::read(path).map_err(|source| unreadable(path, source))?;
    check_length(path, content.len() as u64, bytes)?;
    Ok(content)
}

fn check_length(path: &Path, found: u64, expected: u64) -> Result<(), ProtocolError> {
    if found == expected {
        return Ok(());
    }
    let path = path.display();
    Err(BackendError::Shape(format!("{path}: {found} bytes where the parameters say {expected}")).into())
}

/// The error of a file that cannot be read.
fn unreadable(path: &Path, source: std::io::Error) -> ProtocolError {
    BackendError::Io { path: path.into(), source }.into()
}

/// The file of a database of units, read in the middle of a step that has no errors of files.
pub(crate) struct Units {
    file: File,
    failure: Mutex<Option<ProtocolError>>,
}

impl Units {
    /// Opens the file of a database that lies as `stored` says.
    ///
    /// # Errors
    /// [`ProtocolError::Backend`] if it cannot be read or has another length.
    pub fn open(path: &Path, stored: Stored) -> Result<Self, ProtocolError> {
        Ok(Self { file: File::open(path, stored.bytes())?, failure: Mutex::default() })
    }

    /// Reads a unit. [`Units::check`] tells whether it could.
    pub fn read(&self, unit: usize, bytes: &mut [u8]) {
        if let Err(failure) = self.file.read(unit as u64 * bytes.len() as u64, bytes) {
            *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
        }
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// [`ProtocolError::Backend`] if a unit could not be read.
    pub fn check(self) -> Result<(), ProtocolError> {
        self.failure.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }
}

/// Several threads read one file at once, each where it wants.
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

/// Several threads read one file, one after another: where files have one position only.
#[cfg(not(unix))]
mod positioned {
    use std::io::{self, Read, Seek, SeekFrom, Write};
    use std::sync::{Mutex, MutexGuard, PoisonError};

    pub(super) struct File(Mutex<std::fs::File>);

    impl File {
        pub fn new(file: std::fs::File) -> Self {
            Self(Mutex::new(file))
        }

        fn at(&self, offset: u64) -> io::Result<MutexGuard<'_, std::fs::File>> {
            let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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
