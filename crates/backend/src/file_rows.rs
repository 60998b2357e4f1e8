//! Rows of a database in a file.

use std::ops::Range;

use crate::{BackendError, StoredFile};

/// Layout of a database's rows, one after another.
pub trait FileLayout: Copy + Send + Sync {
    /// Returns the range of all rows.
    fn all(&self) -> Range<usize>;

    /// Returns the layout of `rows` alone.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if `rows` is empty, is out of range, or does not consist of whole
    /// units of the layout.
    fn part(&self, rows: &Range<usize>) -> Result<Self, BackendError>;

    /// Returns the fewest byte ranges that hold `rows`, in the order of a layout with only these
    /// rows.
    fn ranges(&self, rows: &Range<usize>) -> Vec<Range<usize>>;

    /// Checks that a database in this layout has `bytes` bytes.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if the length differs.
    fn check_length(&self, bytes: u64) -> Result<(), BackendError>;
}

/// Form in which a backend holds the content of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Residence {
    /// Copied into memory that the backend owns, in huge pages if the system has them. Scans are
    /// fastest.
    #[default]
    Copied,
    /// Mapped. A database starts at once and shares the page cache, but scans are slower because of
    /// small pages.
    Mapped,
}

/// Some rows of a file whose whole content is a database, with the wanted residence.
#[derive(Clone, Debug)]
pub struct FileRows<'a, L> {
    /// The file's layout.
    pub layout: L,
    /// Range of rows.
    pub rows: Range<usize>,
    /// The file.
    pub file: &'a StoredFile,
    /// Residence, for a backend whose memory is the host's.
    pub residence: Residence,
}

impl<'a, L: FileLayout> FileRows<'a, L> {
    /// Selects all rows of a file.
    pub fn all(layout: L, file: &'a StoredFile, residence: Residence) -> Self {
        Self { layout, rows: layout.all(), file, residence }
    }

    /// Restricts the selection to `rows`, which are counted from the first selected row.
    #[must_use]
    pub fn some(&self, rows: Range<usize>) -> Self {
        Self { rows: self.rows.start + rows.start..self.rows.start + rows.end, ..*self }
    }

    /// Returns the layout of these rows alone.
    ///
    /// # Errors
    /// Errors of [`FileLayout::part`].
    pub fn part(&self) -> Result<L, BackendError> {
        self.layout.part(&self.rows)
    }

    /// Checks that the file has the layout's length.
    ///
    /// # Errors
    /// [`BackendError::Io`] if the file cannot be opened, and errors of
    /// [`FileLayout::check_length`].
    pub fn check_length(&self) -> Result<(), BackendError> {
        self.layout.check_length(self.file.bytes().map_err(|source| self.failed(source))?)
    }

    /// Returns the error for a file that cannot be read.
    pub fn failed(&self, source: std::io::Error) -> BackendError {
        BackendError::Io { path: self.file.path().into(), source }
    }

    /// Returns the ranges of these rows in the file.
    pub fn ranges(&self) -> Vec<Range<usize>> {
        self.layout.ranges(&self.rows)
    }
}
