//! The operations a PIR server needs, as a trait over buffers that the backend owns.
//!
//! A backend supplies coarse operations on whole batches; the control flow of a protocol lives in the
//! protocol, once. The database is uploaded once and stays where the backend wants it. Every backend
//! gives the same bytes for the same input: the arithmetic is exact, modulo 2^32 in [`Backend`], modulo a
//! ring's primes in [`RingBackend`], and in the shares' group in [`ShareBackend`].

mod composed;
mod file_rows;
mod fixed;
mod layout;
pub mod naive;
mod observed;
mod operation;
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
pub use file_rows::{FileLayout, FileRows, Residence};
pub use fixed::FixedPacking;
pub use layout::{MAX_MATRIX_BYTES, PANEL_ROWS, PanelLayout, QUAD, QUAD_BYTES};
pub use naive::{NaiveBackend, NaiveMatrix};
pub use observed::{Observed, Observer, StepTimes, Timed};
pub use operation::Operation;
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

/// Why a backend refused or failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackendError {
    /// Shapes that do not fit together, or are out of range.
    #[error("shape: {0}")]
    Shape(String),
    /// A matrix file could not be read.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The backend cannot run here, and what to do about it.
    #[error("{0}")]
    Unavailable(String),
    /// A device failed while it worked.
    #[error("{0}")]
    Device(String),
}

/// Tells the backends of this process apart: what one of them holds is of no use to another one. Clones of a backend,
/// which hold the same, have the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BackendId(u64);

impl BackendId {
    /// A number that no other backend has.
    pub fn unique() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// What a protocol may need of a backend: all of it.
pub trait ProtocolBackend: RingBackend + ShareBackend {}

impl<B: RingBackend + ShareBackend> ProtocolBackend for B {}

/// The public matrix A of a hint in ring form: `block_rows` x `rank` polynomials of degree below
/// [`RING_DEGREE`] with coefficients modulo 2^32, row-major, coefficient 0 first.
///
/// Block (i, j) with polynomial a stands for the 256 x 256 matrix M of multiplication by a:
/// `M[k][l] = a[k - l]` for k >= l and `-a[256 + k - l]` for k < l, so that `M s` is the product a s.
#[derive(Clone, Copy, Debug)]
pub struct RingMatrix<'a> {
    /// Polynomials, `block_rows * rank * 256` coefficients.
    pub coefficients: &'a [u32],
    /// Rows of blocks; block row i meets the database's columns 256 i to 256 i + 255.
    pub block_rows: usize,
    /// Columns of blocks.
    pub rank: usize,
}

impl RingMatrix<'_> {
    /// Checks that this matrix meets the columns of `layout`.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if it does not, or its polynomials are not as many as it says.
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

/// Checks that answers of `words` words in all are as long for each of `queries` queries.
///
/// # Errors
/// [`BackendError::Shape`] if they are not.
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
    /// A database matrix where this backend wants it.
    type Matrix: Send + Sync;
    /// The answers of a fold, where this backend left them.
    type Folded: Send + Sync;

    /// Name for reports, such as `cpu-avx2`.
    fn name(&self) -> String;

    /// Which backend it is: evaluation keys that were prepared by one are good for all that have the same number.
    fn id(&self) -> BackendId;

    /// Takes a matrix from memory: `bytes` in the order of `layout`.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if the length is not `layout.bytes()`.
    fn upload(&self, layout: PanelLayout, bytes: &[u8]) -> Result<Self::Matrix, BackendError>;

    /// Takes rows of a matrix, whole panels, from a file. What it gives is a matrix of these rows alone, and nothing else
    /// of the file is read.
    ///
    /// # Errors
    /// [`BackendError::Io`] if it cannot be read, [`BackendError::Shape`] if its length differs or as
    /// [`FileLayout::part`].
    fn open(&self, stored: FileRows<'_, PanelLayout>) -> Result<Self::Matrix, BackendError>;

    /// The layout of a matrix.
    fn layout(&self, matrix: &Self::Matrix) -> PanelLayout;

    /// Step `scalar_fold` (VIPIR section 4.1): the database times a batch of query columns.
    ///
    /// `queries` holds B = 1 to [`MAX_BATCH`] queries one after another, each `layout.columns()` words;
    /// the result holds B answers one after another, each `layout.rows()` words:
    /// `answer[b][r] = sum over c of matrix[r][c] * queries[b][c] mod 2^32`.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if `queries` is not a whole number of queries within the bounds.
    fn scalar_fold(&self, matrix: &Self::Matrix, queries: &[u32]) -> Result<Self::Folded, BackendError>;

    /// The words of answers, for whoever needs them beside the backend.
    ///
    /// # Errors
    /// [`BackendError::Device`] if what computed them failed.
    fn words(&self, folded: Self::Folded) -> Result<Vec<u32>, BackendError>;

    /// Answers of these words, as many for each of `queries` queries: what [`Backend::words`] gives, of matrices here or
    /// elsewhere, where this backend goes on with it.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if the words are not as many for each query.
    fn folded(&self, queries: usize, words: Vec<u32>) -> Result<Self::Folded, BackendError>;

    /// Step `scalar_fold` against a structured public matrix: the database times A, through
    /// number-theoretic transforms. The result is row-major, `layout.rows()` x (`a.rank` * 256).
    ///
    /// # Errors
    /// [`BackendError::Shape`] if the columns are not `a.block_rows * 256`.
    fn module_fold(&self, matrix: &Self::Matrix, a: RingMatrix<'_>) -> Result<Vec<u32>, BackendError>;
}
