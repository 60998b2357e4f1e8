//! The LWE hint: the product of the matrix and the public A. SimplePIR's clients download it; if
//! the server packs, the server keeps it.
//!
//! If a byte in column c changes by d, its row of the hint changes by d times row c of A: n
//! products. So a hint that clients hold is updated under the same A when the database changes, and
//! clients fetch only the differences.

use std::io::Write;
use std::ops::Range;
use std::path::Path;

use spirea_backend::{
    Backend, FileRows, MAX_BATCH, PanelLayout, RING_DEGREE, Residence, RingMatrix, StoredFile,
};
use spirea_lattice::lwe::PublicRows;
use spirea_lattice::{LweSet, PublicMatrix, Structure};

use super::changes::Difference;
use crate::ProtocolError;
use crate::bytes::{extend_words, words_to_bytes};
use crate::files::{File, read_exact};

/// Maximum number of changed bytes in memory.
const CHANGED_AT_ONCE: usize = 1 << 20;

/// A row of n words, the degree of the LWE set, for each row of a matrix.
pub struct LweHint {
    words: Vec<u32>,
    degree: usize,
}

impl LweHint {
    /// Parses a hint under `set` from little-endian words. The caller verifies their hash.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] if the bytes are not `rows` rows.
    pub fn from_bytes(set: LweSet, rows: usize, bytes: &[u8]) -> Result<Self, ProtocolError> {
        let degree = set.degree();
        let expected = rows as u128 * degree as u128 * 4;
        if bytes.len() as u128 != expected {
            let detail = format!("it has {} bytes where the parameters say {expected}", bytes.len());
            return Err(ProtocolError::malformed("hint", detail));
        }
        let mut words = Vec::with_capacity(bytes.len() / 4);
        extend_words(&mut words, bytes);
        Ok(Self { words, degree })
    }

    /// Reads the hint under `set` of a matrix of `rows` rows from a file.
    ///
    /// # Errors
    /// [`ProtocolError::Backend`] if the file cannot be read or has another length.
    pub(crate) fn read(set: LweSet, rows: usize, file: &StoredFile) -> Result<Self, ProtocolError> {
        let bytes = read_exact(file, rows as u64 * row_bytes(set) as u64)?;
        Self::from_bytes(set, rows, &bytes)
    }

    /// Computes the hint of a matrix in a file with [`LweHint::compute`].
    ///
    /// # Errors
    /// Those of the backend.
    pub(crate) fn of_file<B: Backend>(
        backend: &B,
        layout: PanelLayout,
        public: &PublicMatrix,
        matrix: &StoredFile,
        progress: impl FnMut(f64),
    ) -> Result<Self, ProtocolError> {
        Self::compute(
            backend,
            public,
            &backend.open(FileRows::all(layout, matrix, Residence::Mapped))?,
            progress,
        )
    }

    /// Computes the hint of a matrix: the product of the matrix and `public`. Reports the completed
    /// fraction to `progress`.
    ///
    /// A structured A is multiplied by transforms (step `module_fold`). The n columns of a uniform
    /// A pass through `scalar_fold` like queries.
    ///
    /// # Errors
    /// Those of the backend.
    pub fn compute<B: Backend>(
        backend: &B,
        public: &PublicMatrix,
        matrix: &B::Matrix,
        mut progress: impl FnMut(f64),
    ) -> Result<Self, ProtocolError> {
        let (stream, degree) = (public.stream(), public.set().degree());
        match public.set().structure() {
            Structure::Module => {
                let rank = public.set().rank();
                let a = RingMatrix { coefficients: &stream, block_rows: public.stream_rows(), rank };
                let words = backend.module_fold(matrix, a)?;
                progress(1.0);
                Ok(Self { words, degree })
            }
            Structure::Uniform => {
                let (rows, columns) = (backend.layout(matrix).rows(), public.columns());
                let mut words = vec![0; rows * degree];
                for first in (0..degree).step_by(MAX_BATCH) {
                    let batch = MAX_BATCH.min(degree - first);
                    let mut queries = Vec::with_capacity(batch * columns);
                    for column in first..first + batch {
                        queries.extend(stream.iter().skip(column).step_by(degree));
                    }
                    let products = backend.words(backend.scalar_fold(matrix, &queries)?)?;
                    for (i, product) in products.chunks_exact(rows).enumerate() {
                        for (row, &word) in product.iter().enumerate() {
                            words[row * degree + first + i] = word;
                        }
                    }
                    progress((first + batch) as f64 / degree as f64);
                }
                Ok(Self { words, degree })
            }
        }
    }

    /// Writes the hint as little-endian words.
    ///
    /// # Errors
    /// [`ProtocolError::Write`].
    pub fn write(&self, out: &mut dyn Write) -> Result<(), ProtocolError> {
        for words in self.words.chunks(1 << 16) {
            out.write_all(&words_to_bytes(words)).map_err(ProtocolError::Write)?;
        }
        Ok(())
    }

    pub(crate) fn row(&self, row: usize) -> &[u32] {
        &self.words[row * self.degree..][..self.degree]
    }

    /// Returns the entries of some rows as a function of (row relative to the range, k).
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] if the hint has fewer rows.
    pub(crate) fn rows(
        &self,
        rows: Range<usize>,
    ) -> Result<impl Fn(usize, usize) -> u32 + Sync, ProtocolError> {
        let degree = self.degree;
        let words = self.words.get(rows.start * degree..rows.end * degree);
        let words =
            words.ok_or_else(|| ProtocolError::malformed("hint", "it belongs to other parameters"))?;
        Ok(move |row: usize, k: usize| words[row * degree + k])
    }
}

fn row_bytes(set: LweSet) -> usize {
    set.degree() * 4
}

/// Adds the effect of a matrix's changes to its hint of `rows` rows, in a file.
///
/// # Errors
/// [`ProtocolError::Backend`] if the file cannot be read or has another length,
/// [`ProtocolError::Write`] if it cannot be written.
pub(crate) fn patch_hint(
    path: &Path,
    rows: usize,
    public: PublicMatrix,
    differences: impl Iterator<Item = Difference>,
) -> Result<(), ProtocolError> {
    let row_bytes = row_bytes(public.set());
    let file = File::open(path, rows as u64 * row_bytes as u64)?;
    let mut public = PublicRows::new(public);
    let mut differences = differences.peekable();
    let (mut bytes, mut words) = (vec![0; row_bytes], Vec::new());
    while differences.peek().is_some() {
        let mut some: Vec<_> = differences.by_ref().take(CHANGED_AT_ONCE).collect();
        some.sort_unstable_by_key(|difference| (difference.row, difference.column));
        for of_row in some.chunk_by(|a, b| a.row == b.row) {
            let offset = of_row[0].row as u64 * row_bytes as u64;
            file.read(offset, &mut bytes)?;
            words.clear();
            extend_words(&mut words, &bytes);
            for difference in of_row {
                let pieces = words.chunks_exact_mut(RING_DEGREE).zip(public.row(difference.column));
                for (words, entries) in pieces {
                    for (word, entry) in words.iter_mut().zip(entries) {
                        *word = word.wrapping_add(difference.by.wrapping_mul(*entry));
                    }
                }
            }
            file.write(offset, &words_to_bytes(&words))?;
        }
    }
    Ok(())
}
