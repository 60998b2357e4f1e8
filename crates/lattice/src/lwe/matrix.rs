//! The public matrix A.

use spirea_math::random::public_row;

use super::{DEGREE, LweSet, RING_DEGREE, Seed, Structure};

/// The public matrix A, `columns` x 1280 modulo 2^32, one row for each column of the database, made from
/// a seed: hint, client and server derive the same one.
///
/// Row i of the public stream ([`public_row`]) is 1280 words. Under [`Structure::Uniform`] it is row i of
/// A. Under [`Structure::Module`] it is five polynomials, coefficient 0 first, of block row i: polynomial j
/// stands for the 256 x 256 matrix of multiplication by it, at rows 256 i and columns 256 j of A.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublicMatrix {
    set: LweSet,
    seed: Seed,
    columns: usize,
}

impl PublicMatrix {
    /// The matrix of `seed` for a database of `columns` columns.
    ///
    /// # Panics
    /// If `columns` is zero or not a multiple of 256; a protocol's parameters see to it.
    pub fn new(set: LweSet, seed: Seed, columns: usize) -> Self {
        assert!(columns > 0 && columns.is_multiple_of(RING_DEGREE), "columns come in blocks of 256");
        Self { set, seed, columns }
    }

    /// Its parameters.
    pub fn set(&self) -> LweSet {
        self.set
    }

    /// Rows of A: the columns of the database.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Rows of the public stream that it takes: one for each column, or for each block of 256.
    pub fn stream_rows(&self) -> usize {
        match self.set.structure() {
            Structure::Module => self.columns / RING_DEGREE,
            Structure::Uniform => self.columns,
        }
    }

    /// Row `row` of the public stream, 1280 words.
    pub fn stream_row(&self, row: usize, words: &mut [u32]) {
        assert_eq!(words.len(), DEGREE);
        public_row(&self.seed, row as u64, words);
    }

    /// All rows of the public stream, one after another: A itself, or its polynomials.
    pub fn stream(&self) -> Vec<u32> {
        let mut words = vec![0; self.stream_rows() * DEGREE];
        words.chunks_exact_mut(DEGREE).enumerate().for_each(|(row, words)| self.stream_row(row, words));
        words
    }

    /// A by definition, `columns` x 1280, row-major: the oracle, 5 KiB for each column.
    pub fn entries(&self) -> Vec<u32> {
        let stream = self.stream();
        if self.set.structure() == Structure::Uniform {
            return stream;
        }
        let mut entries = vec![0; self.columns * DEGREE];
        for (k, row) in entries.chunks_exact_mut(DEGREE).enumerate() {
            let (block, k) = (k / RING_DEGREE, k % RING_DEGREE);
            for (l, entry) in row.iter_mut().enumerate() {
                let polynomial = &stream[block * DEGREE + l / RING_DEGREE * RING_DEGREE..][..RING_DEGREE];
                let l = l % RING_DEGREE;
                *entry =
                    if k >= l { polynomial[k - l] } else { polynomial[RING_DEGREE + k - l].wrapping_neg() };
            }
        }
        entries
    }
}
