//! The operations a PIR server needs, as a trait over buffers that the backend owns.
//!
//! A backend supplies coarse operations on whole batches; the control flow of a protocol lives in
//! the protocol, once. The database is uploaded once and stays where the backend wants it. Every
//! backend gives the same bytes for the same input, because the arithmetic is exact. It is modulo
//! 2^32 in [`Backend`], modulo a ring's primes in [`RingBackend`] and [`ResidueBackend`], and in
//! the shares' group in [`ShareBackend`].

mod composed;
mod each;
mod file_rows;
mod fixed;
mod layout;
pub mod naive;
mod observed;
mod operation;
mod query_words;
mod residues;
mod ring;
mod rows;
mod shares;
mod split;
mod stored_file;
mod strategy;
mod whole;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

pub use composed::Composed;
pub use each::map_each;
pub use file_rows::{FileLayout, FileRows, Residence};
pub use fixed::FixedPacking;
pub use layout::{MAX_MATRIX_BYTES, PANEL_ROWS, PanelLayout, QUAD, QUAD_BYTES};
pub use naive::{NaiveBackend, NaiveMatrix};
pub use observed::{Observed, Observer, StepTimes, Timed};
pub use operation::Operation;
pub use query_words::{GROUP_WORDS, QueryWords};
pub use residues::{
    CIPHERTEXT_POLYNOMIALS, EXTENSION_PRIMES, PRODUCT_PRIMES, ProductRings, ResidueBackend, SwitchKey,
};
pub use ring::{
    Bodies, EvaluationKeys, FillPolynomial, FoldedBlocks, PackedEnds, RingBackend, SwitchedBits, centred,
    check_batches, check_ciphertexts, check_rotations,
};
pub use rows::{Batch, MAX_KEYS, MetRows, RowLayout, ShareBackend, ShareFold, partial_folds};
pub use shares::Share;
pub use split::Split;
pub use stored_file::StoredFile;
pub use strategy::{Demand, Division, Links, Strategy};
pub use whole::WholeHalves;

/// Degree of the ring Z_q\[X\]/(X^256 + 1) over which the public matrix is structured.
pub const RING_DEGREE: usize = 256;

/// The largest number of query columns that one call of [`Backend::scalar_fold`] takes.
pub const MAX_BATCH: usize = 256;

/// Error of a backend.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackendError {
    /// Shapes that do not fit together or are out of range.
    #[error("shape: {0}")]
    Shape(String),
    /// A matrix file could not be read.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The backend cannot run here; the text says what to do about it.
    #[error("{0}")]
    Unavailable(String),
    /// A device failed during its work.
    #[error("{0}")]
    Device(String),
}

/// Identifier of a backend within this process: values that belong to one backend are useless to
/// another. Clones of a backend share its values and its identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BackendId(u64);

impl BackendId {
    /// Returns an identifier that no other backend has.
    pub fn unique() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// All operations that a protocol may need of a backend.
pub trait ProtocolBackend: RingBackend + ShareBackend {}

impl<B: RingBackend + ShareBackend> ProtocolBackend for B {}

/// Public matrix A of a hint in ring form: `block_rows` x `rank` polynomials of degree below
/// [`RING_DEGREE`] with coefficients modulo 2^32, row-major, coefficient 0 first.
///
/// Block (i, j) with polynomial `a` stands for the 256 x 256 matrix M such that `M s` is the
/// product `a s`. It has `M[k][l] = a[k - l]` for k >= l and `-a[256 + k - l]` for k < l.
#[derive(Clone, Copy, Debug)]
pub struct RingMatrix<'a> {
    /// Polynomials, `block_rows * rank * 256` coefficients.
    pub coefficients: &'a [u32],
    /// Rows of blocks; block row i is multiplied by the database's columns 256 i to 256 i + 255.
    pub block_rows: usize,
    /// Columns of blocks.
    pub rank: usize,
}

impl RingMatrix<'_> {
    /// Checks that this matrix has a row for each column of `layout`.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if it does not, or if the number of coefficients does not fit its
    /// shape.
    pub fn check(&self, layout: PanelLayout) -> Result<(), BackendError> {
        let (columns, rows) = (layout.columns(), self.block_rows);
        if self.coefficients.len() != rows * self.rank * RING_DEGREE {
            return Err(BackendError::Shape("the public matrix is not as large as it says".into()));
        }
        if rows * RING_DEGREE != columns {
            return Err(BackendError::Shape(format!(
                "a public matrix of {rows} blocks for {columns} columns"
            )));
        }
        Ok(())
    }
}

/// Checks that `words`, the words of all answers, divide evenly among `queries` queries.
///
/// # Errors
/// [`BackendError::Shape`] if they do not.
pub fn check_answers(queries: usize, words: usize) -> Result<(), BackendError> {
    if queries > 0 && words.is_multiple_of(queries) {
        return Ok(());
    }
    Err(BackendError::Shape(format!("{words} words of answers to {queries} queries")))
}

/// The operations of a PIR server on matrices it owns.
///
/// All results are exact modulo 2^32 and the same on every backend, bit for bit.
pub trait Backend: Send + Sync + 'static {
    /// Database matrix in the form that this backend uses.
    type Matrix: Send + Sync;
    /// Answers of a fold, in memory of the backend's choice.
    type Folded: Send + Sync;

    /// Returns the name for reports, such as `cpu-avx2`.
    fn name(&self) -> String;

    /// Returns the backend's identifier. Evaluation keys prepared by one backend are valid for all
    /// backends with the same identifier.
    fn id(&self) -> BackendId;

    /// Calls `work` with every number below `count`, on the host's threads that this backend uses.
    /// Returns once all calls have returned. Their order is undefined.
    ///
    /// # Panics
    /// If a call panics.
    fn each(&self, count: usize, work: &(dyn Fn(usize) + Sync));

    /// Uploads a matrix from memory: `bytes` in the order of `layout`.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if the length is not `layout.bytes()`.
    fn upload(&self, layout: PanelLayout, bytes: &[u8]) -> Result<Self::Matrix, BackendError>;

    /// Opens rows of a matrix in a file, in whole panels. The result is a matrix of these rows
    /// alone; nothing else of the file is read.
    ///
    /// # Errors
    /// [`BackendError::Io`] if the file cannot be read, [`BackendError::Shape`] if its length
    /// differs, and errors of [`FileLayout::part`].
    fn open(&self, stored: FileRows<'_, PanelLayout>) -> Result<Self::Matrix, BackendError>;

    /// Returns the layout of a matrix.
    fn layout(&self, matrix: &Self::Matrix) -> PanelLayout;

    /// Step `scalar_fold` (VIPIR section 4.1): multiplies the database by a batch of query columns.
    ///
    /// `queries` holds B = 1 to [`MAX_BATCH`] queries one after another, each `layout.columns()`
    /// words. The result holds B answers one after another, each `layout.rows()` words:
    /// `answer[b][r] = sum over c of matrix[r][c] * queries[b][c] mod 2^32`.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if `queries` is not a whole number of queries within the bounds.
    fn scalar_fold(&self, matrix: &Self::Matrix, queries: &[u32]) -> Result<Self::Folded, BackendError>;

    /// Runs [`Backend::scalar_fold`] for queries whose words a source writes. For a device, the
    /// source writes to the memory that is copied to the device.
    ///
    /// # Errors
    /// Those of [`Backend::scalar_fold`].
    fn scalar_fold_from(
        &self,
        matrix: &Self::Matrix,
        queries: &dyn QueryWords,
    ) -> Result<Self::Folded, BackendError> {
        self.scalar_fold(matrix, &query_words::written(self, queries))
    }

    /// Returns the words of answers, for use outside the backend.
    ///
    /// # Errors
    /// [`BackendError::Device`] if their computation failed.
    fn words(&self, folded: Self::Folded) -> Result<Vec<u32>, BackendError>;

    /// Passes the words of answers to `read` and returns its result. For a device, `read` gets the
    /// memory to which the device copied the words. `read` must call no operation of this backend
    /// but [`Backend::each`].
    ///
    /// # Errors
    /// Those of [`Backend::words`].
    fn read_words<T>(&self, folded: Self::Folded, read: impl FnOnce(&[u32]) -> T) -> Result<T, BackendError> {
        Ok(read(&self.words(folded)?))
    }

    /// Returns answers made of `words`, an equal number for each of `queries` queries, so that this
    /// backend can continue with them. The words come from [`Backend::words`] of this or another
    /// backend.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if the words do not divide evenly among the queries.
    fn folded(&self, queries: usize, words: Vec<u32>) -> Result<Self::Folded, BackendError>;

    /// Step `scalar_fold` against a structured public matrix: multiplies the database by A, through
    /// number-theoretic transforms. The result is row-major, `layout.rows()` x (`a.rank` * 256).
    ///
    /// # Errors
    /// [`BackendError::Shape`] if the columns are not `a.block_rows * 256`.
    fn module_fold(&self, matrix: &Self::Matrix, a: RingMatrix<'_>) -> Result<Vec<u32>, BackendError>;
}
