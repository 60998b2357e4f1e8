//! The public matrix A.

use std::collections::HashMap;

use spirea_math::random::public_row;

use super::{LweSet, RING_DEGREE, Seed, Structure};

/// The public matrix A, `columns` x n modulo 2^32 with the set's n ([`LweSet::degree`]): one row
/// for each column of the database. It is derived from a seed, so that hint, client and server use
/// the same matrix.
///
/// The key of the public stream is a hash of the seed. A server that chooses the seed therefore
/// cannot choose the key: if some keys of the cipher were special, it would have to find a preimage
/// of such a key. The hash includes the fold's name, so that each fold has a separate matrix and
/// both folds may use the same secret.
///
/// Row i of the public stream ([`public_row`]) is n words. Under [`Structure::Uniform`] they are
/// row i of A. Under [`Structure::Module`] they are the polynomials, coefficient 0 first, of block
/// row i: polynomial j stands for the 256 x 256 matrix of multiplication by it, at rows 256 i and
/// columns 256 j of A.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublicMatrix {
    set: LweSet,
    key: Seed,
    columns: usize,
}

/// Name for deriving the key of the first fold's matrix.
const FIRST: &str = "spirea v2: public matrix of the first fold";
/// Name for deriving the key of the second fold's matrix.
const SECOND: &str = "spirea v2: public matrix of the second fold";
/// Name for deriving the keys of the first fold's matrices for all bins but the first.
const BIN: &str = "spirea v2: public matrix of a bin";

impl PublicMatrix {
    /// Returns the matrix of a first fold, from the parameters' `seed`, for a database of `columns`
    /// columns.
    ///
    /// # Panics
    /// If `columns` is zero or not a multiple of 256; validated parameters exclude this.
    pub fn new(set: LweSet, seed: Seed, columns: usize) -> Self {
        Self::named(FIRST, set, seed.as_bytes(), columns)
    }

    /// Returns the matrix of a second fold over `columns` columns, from the same parameters'
    /// `seed`.
    ///
    /// # Panics
    /// If `columns` is zero or not a multiple of 256.
    pub fn of_second_fold(set: LweSet, seed: Seed, columns: usize) -> Self {
        Self::named(SECOND, set, seed.as_bytes(), columns)
    }

    /// Returns the matrix of a first fold over the columns of bin `bin`, from the same parameters'
    /// `seed`. The matrix of bin 0 is [`PublicMatrix::new`].
    ///
    /// # Panics
    /// If `columns` is zero or not a multiple of 256.
    pub fn of_bin(set: LweSet, seed: Seed, bin: u64, columns: usize) -> Self {
        match bin {
            0 => Self::new(set, seed, columns),
            _ => Self::named(BIN, set, &[&seed.as_bytes()[..], &bin.to_le_bytes()].concat(), columns),
        }
    }

    fn named(name: &str, set: LweSet, seed: &[u8], columns: usize) -> Self {
        assert!(columns > 0 && columns.is_multiple_of(RING_DEGREE), "columns come in blocks of 256");
        Self { set, key: blake3::derive_key(name, seed).into(), columns }
    }

    /// Returns its parameter set.
    pub fn set(&self) -> LweSet {
        self.set
    }

    /// Returns the number of rows of A, which is the number of the database's columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Returns the number of rows of the public stream: one for each column, or one for each block
    /// of 256 columns.
    pub fn stream_rows(&self) -> usize {
        match self.set.structure() {
            Structure::Module => self.columns / RING_DEGREE,
            Structure::Uniform => self.columns,
        }
    }

    /// Fills `words` with row `row` of the public stream, n words.
    pub fn stream_row(&self, row: usize, words: &mut [u32]) {
        assert_eq!(words.len(), self.set.degree());
        public_row(&self.key, row as u64, words);
    }

    /// Returns all rows of the public stream, concatenated: A itself, or its polynomials.
    pub fn stream(&self) -> Vec<u32> {
        let degree = self.set.degree();
        let mut words = vec![0; self.stream_rows() * degree];
        words.chunks_exact_mut(degree).enumerate().for_each(|(row, words)| self.stream_row(row, words));
        words
    }

    /// Returns A by definition, `columns` x n, row-major: the oracle, 5 or 6 KiB for each column.
    pub fn entries(&self) -> Vec<u32> {
        let (stream, degree) = (self.stream(), self.set.degree());
        if self.set.structure() == Structure::Uniform {
            return stream;
        }
        let mut entries = vec![0; self.columns * degree];
        for (k, row) in entries.chunks_exact_mut(degree).enumerate() {
            let (block, k) = (k / RING_DEGREE, k % RING_DEGREE);
            for (l, entry) in row.iter_mut().enumerate() {
                let polynomial = &stream[block * degree + l / RING_DEGREE * RING_DEGREE..][..RING_DEGREE];
                let l = l % RING_DEGREE;
                *entry =
                    if k >= l { polynomial[k - l] } else { polynomial[RING_DEGREE + k - l].wrapping_neg() };
            }
        }
        entries
    }
}

/// Single rows of A, for computations that need a few of them. Caches the parts of the public
/// stream that it has derived.
///
/// For a block of 256 rows under [`Structure::Module`], the cache holds the 511 words `-a[1], ...,
/// -a[255], a[0], ..., a[255]` of each polynomial a, in an order in which each row of the block is
/// a window.
pub struct PublicRows {
    matrix: PublicMatrix,
    kept: HashMap<usize, Vec<u32>>,
}

/// Cached words for each polynomial of a block.
const WINDOWS: usize = 2 * RING_DEGREE - 1;

impl PublicRows {
    /// Creates an empty cache for the rows of `matrix`.
    pub fn new(matrix: PublicMatrix) -> Self {
        Self { matrix, kept: HashMap::new() }
    }

    /// Returns row `row` of A, n words, in pieces of 256.
    ///
    /// # Panics
    /// If A has no such row.
    pub fn row(&mut self, row: usize) -> impl Iterator<Item = &[u32]> {
        assert!(row < self.matrix.columns(), "A has a row for each column of the database");
        let matrix = self.matrix;
        let (key, start, step) = match matrix.set.structure() {
            Structure::Uniform => (row, 0, RING_DEGREE),
            Structure::Module => (row / RING_DEGREE, RING_DEGREE - 1 - row % RING_DEGREE, WINDOWS),
        };
        let words: &[u32] = self.kept.entry(key).or_insert_with(|| {
            let mut stream = vec![0; matrix.set.degree()];
            matrix.stream_row(key, &mut stream);
            match matrix.set.structure() {
                Structure::Uniform => stream,
                Structure::Module => stream.chunks_exact(RING_DEGREE).flat_map(windows).collect(),
            }
        });
        (0..matrix.set.rank()).map(move |piece| &words[piece * step + start..][..RING_DEGREE])
    }
}

/// Returns the cached words of a polynomial. Entry l of row k is `a[k - l]` or `-a[256 + k - l]`,
/// so it depends on k - l only. The words are ordered by k - l, from 255 down to -255.
fn windows(polynomial: &[u32]) -> impl Iterator<Item = u32> + '_ {
    let wrapped = polynomial[1..].iter().rev().map(|word| word.wrapping_neg());
    polynomial.iter().rev().copied().chain(wrapped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_chooses_the_seed_does_not_choose_the_streams_key() {
        let (seed, columns) = ([0; 32], 512);
        let mut raw = vec![0; LweSet::Module1280.degree()];
        public_row(&Seed::new(seed), 0, &mut raw);
        let folds = [PublicMatrix::new, PublicMatrix::of_second_fold];
        let [first, second] = folds.map(|matrix| matrix(LweSet::Paper, Seed::new(seed), columns).stream());
        assert!(first[..raw.len()] != raw && second[..raw.len()] != raw);
        assert_ne!(
            first, second,
            "a secret that meets both folds' matrices is encrypted under different ones"
        );
        for (fold, name) in [(first, FIRST), (second, SECOND)] {
            public_row(&Seed::new(blake3::derive_key(name, &seed)), 0, &mut raw);
            assert_eq!(fold[..raw.len()], raw);
        }
    }

    #[test]
    fn each_bin_has_a_matrix_of_its_own() {
        let of_bin = |bin| PublicMatrix::of_bin(LweSet::Module1280, Seed::new([3; 32]), bin, 512);
        assert_eq!(of_bin(0), PublicMatrix::new(LweSet::Module1280, Seed::new([3; 32]), 512));
        let mut keys: Vec<_> = (0..300).map(|bin| of_bin(bin).key).collect();
        keys.push(PublicMatrix::of_second_fold(LweSet::Module1280, Seed::new([3; 32]), 512).key);
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 301);
    }

    #[test]
    fn rows_one_at_a_time_are_those_of_the_whole_matrix() {
        for set in LweSet::ALL {
            let matrix = PublicMatrix::new(set, Seed::new([5; 32]), 512);
            let (entries, degree) = (matrix.entries(), set.degree());
            let mut rows = PublicRows::new(matrix);
            for row in [511, 0, 1, 100, 255, 256, 257, 100] {
                assert!(rows.row(row).flatten().eq(&entries[row * degree..][..degree]), "{row}");
            }
        }
    }
}
