//! Rows of a database that lie in a file.

use std::ops::Range;

use crate::{BackendError, StoredFile};

/// How a database's rows lie one after another.
pub trait FileLayout: Copy + Send + Sync {
    /// All rows.
    fn all(&self) -> Range<usize>;

    /// The layout of some of the rows by themselves.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if there are none, they are not of this layout, or not whole units of it.
    fn part(&self, rows: &Range<usize>) -> Result<Self, BackendError>;

    /// Where these rows lie, in the order in which their own layout has them: as few ranges as can be.
    fn ranges(&self, rows: &Range<usize>) -> Vec<Range<usize>>;

    /// Checks that a database in this layout has `bytes` bytes.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if it has not.
    fn check_length(&self, bytes: u64) -> Result<(), BackendError>;
}

/// How a backend holds what lies in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Residence {
    /// Copied into memory the backend owns, in huge pages where the system has them: the fastest scan.
    #[default]
    Copied,
    /// Mapped: starts at once and shares the page cache; a scan pays for small pages.
    Mapped,
}

/// Some rows of a file whose whole content is a database, and how they are wanted.
#[derive(Clone, Debug)]
pub struct FileRows<'a, L> {
    /// The file's layout.
    pub layout: L,
    /// Which rows.
    pub rows: Range<usize>,
    /// The file.
    pub file: &'a StoredFile,
    /// Whether a backend whose memory is the host's copies them.
    pub residence: Residence,
}

impl<'a, L: FileLayout> FileRows<'a, L> {
    /// All rows of a file.
    pub fn all(layout: L, file: &'a StoredFile, residence: Residence) -> Self {
        Self { layout, rows: layout.all(), file, residence }
    }

    /// Some of these rows, counted from their first.
    #[must_use]
    pub fn some(&self, rows: Range<usize>) -> Self {
        Self { rows: self.rows.start + rows.start..self.rows.start + rows.end, ..*self }
    }

    /// The layout of these rows by themselves.
    ///
    /// # Errors
    /// As [`FileLayout::part`].
    pub fn part(&self) -> Result<L, BackendError> {
        self.layout.part(&self.rows)
    }

    /// Checks that the file has the layout's length.
    ///
    /// # Errors
    /// [`BackendError::Io`] if it cannot be opened, and those of [`FileLayout::check_length`].
    pub fn check_length(&self) -> Result<(), BackendError> {
        self.layout.check_length(self.file.bytes().map_err(|source| self.failed(source))?)
    }

    /// The error of a file that cannot be read.
    pub fn failed(&self, source: std::io::Error) -> BackendError {
        BackendError::Io { path: self.file.path().into(), source }
    }

    /// Where in the file they lie.
    pub fn ranges(&self) -> Vec<Range<usize>> {
        self.layout.ranges(&self.rows)
    }
}
