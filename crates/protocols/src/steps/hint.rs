//! The LWE hint: the product of the matrix and the public A. SimplePIR's clients download it; if
//! the server packs, the server keeps it.
//!
//! If a byte in column c changes by d, its row of the hint changes by d times row c of A: n
//! products. So a hint that clients hold is updated under the same A when the database changes, and
//! clients fetch only the differences. A hint that is stored rounded cannot be updated by products:
//! the panels with a changed byte are folded again, so that roundings never add up.

use std::collections::BTreeSet;
use std::io::Write;
use std::ops::Range;
use std::path::Path;

use spirea_backend::{
    Backend, FileRows, MAX_BATCH, PANEL_ROWS, PanelLayout, RING_DEGREE, Residence, RingMatrix, StoredFile,
};
use spirea_lattice::lwe::PublicRows;
use spirea_lattice::noise::HintRounding;
use spirea_lattice::{LweSecret, LweSet, PublicMatrix, Structure};

use super::changes::Difference;
use crate::ProtocolError;
use crate::bytes::{extend_upper_bits, extend_words, words_of_upper_bits, words_to_bytes};
use crate::files::{File, Units, read_exact};
use crate::parameters::Stored;
use crate::table::hint_rows::HintRows;

/// Maximum number of changed bytes in memory.
const CHANGED_AT_ONCE: usize = 1 << 20;
/// Bytes of panels that are folded in one call.
const FOLDED_AT_ONCE: usize = 64 << 20;

/// LWE hint: for each row of a matrix, a row of n words, where n is the degree of the LWE set.
pub struct LweHint {
    words: Vec<u32>,
    degree: usize,
}

impl LweHint {
    /// Reads the hint under `set` of a matrix of `rows` rows from a file.
    ///
    /// # Errors
    /// [`ProtocolError::Backend`] if the file cannot be read or has another length.
    pub(crate) fn read(set: LweSet, rows: usize, file: &StoredFile) -> Result<Self, ProtocolError> {
        let bytes = read_exact(file, rows as u64 * row_bytes(set) as u64)?;
        let mut words = Vec::with_capacity(bytes.len() / 4);
        extend_words(&mut words, &bytes);
        Ok(Self { words, degree: set.degree() })
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

    /// Joins hints under one set.
    pub(crate) fn below_each_other(hints: Vec<Self>) -> Self {
        let degree = hints.first().map_or(0, |hint| hint.degree);
        Self { words: hints.into_iter().flat_map(|hint| hint.words).collect(), degree }
    }

    /// Writes the hint as little-endian words.
    ///
    /// # Errors
    /// [`ProtocolError::Write`].
    pub fn write(&self, out: &mut dyn Write) -> Result<(), ProtocolError> {
        self.write_rounded(HintRounding::EXACT_BITS, out)
    }

    /// Writes the upper `bits` bits of each word, rounded to the nearest: the hint as clients
    /// download it. The numbers follow each other without gaps, lowest bits first.
    ///
    /// # Errors
    /// [`ProtocolError::Write`].
    pub fn write_rounded(&self, bits: u32, out: &mut dyn Write) -> Result<(), ProtocolError> {
        let mut bytes = Vec::new();
        for words in self.words.chunks(1 << 16) {
            bytes.clear();
            extend_rounded(&mut bytes, words, bits);
            out.write_all(&bytes).map_err(ProtocolError::Write)?;
        }
        Ok(())
    }

    pub(crate) fn row(&self, row: usize) -> &[u32] {
        &self.words[row * self.degree..][..self.degree]
    }

    /// Returns the first `rows` rows.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] if the hint has fewer rows.
    pub(crate) fn first_rows(&self, rows: usize) -> Result<FirstRows<'_>, ProtocolError> {
        let words = self.words.get(..rows * self.degree);
        let words =
            words.ok_or_else(|| ProtocolError::malformed("hint", "it belongs to other parameters"))?;
        Ok(FirstRows { words, degree: self.degree })
    }
}

/// The first rows of a hint: LWE ciphertexts without their bodies.
#[derive(Clone, Copy)]
pub(crate) struct FirstRows<'a> {
    words: &'a [u32],
    degree: usize,
}

impl<'a> FirstRows<'a> {
    /// Returns a row's entries; `None` for a row after the last, whose entries count as 0.
    pub fn row(self, row: usize) -> Option<&'a [u32]> {
        self.words.get(row * self.degree..)?.get(..self.degree)
    }
}

/// Bits of a word that is not rounded: the default of parameters.
pub(crate) fn exact_bits() -> u32 {
    HintRounding::EXACT_BITS
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "what serde calls")]
pub(crate) fn is_exact(bits: &u32) -> bool {
    *bits == HintRounding::EXACT_BITS
}

/// Checks a number of bits of a hint's words read from untrusted bytes. The protocol's bound checks
/// whether they suffice.
///
/// # Errors
/// [`ProtocolError::Malformed`].
pub(crate) fn validate_bits(bits: u32) -> Result<(), ProtocolError> {
    let (least, most) = (HintRounding::LEAST_BITS, HintRounding::EXACT_BITS);
    if (least..=most).contains(&bits) {
        return Ok(());
    }
    Err(ProtocolError::malformed("parameters", format!("hint_bits must be from {least} to {most}")))
}

fn row_bytes(set: LweSet) -> usize {
    set.degree() * 4
}

/// Appends the upper `bits` bits of words, rounded to the nearest; halves go up.
fn extend_rounded(bytes: &mut Vec<u8>, words: &[u32], bits: u32) {
    let dropped = u32::BITS - bits;
    if dropped == 0 {
        return extend_upper_bits(bytes, words, 0);
    }
    let half = 1 << (dropped - 1);
    let rounded: Vec<u32> = words.iter().map(|word| word.wrapping_add(half) >> dropped << dropped).collect();
    extend_upper_bits(bytes, &rounded, dropped);
}

/// A hint as a client holds it: the upper bits of each word. It stays packed, so it takes no more
/// memory than its file.
pub(crate) struct ClientHint {
    bytes: Vec<u8>,
    row_bytes: usize,
    degree: usize,
    dropped: u32,
}

impl ClientHint {
    /// Parses a hint of `rows` rows under `set`, of `bits` bits a word. The caller verifies its
    /// hash.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] if the bytes are not `rows` rows.
    pub fn from_bytes(set: LweSet, bits: u32, rows: usize, bytes: &[u8]) -> Result<Self, ProtocolError> {
        let row_bytes = HintRows::of(set, bits).row_bytes();
        let expected = rows as u128 * row_bytes as u128;
        if bytes.len() as u128 != expected {
            let detail = format!("it has {} bytes where the parameters say {expected}", bytes.len());
            return Err(ProtocolError::malformed("hint", detail));
        }
        Ok(Self { bytes: bytes.to_vec(), row_bytes, degree: set.degree(), dropped: u32::BITS - bits })
    }

    /// Returns the products of rows `rows` with a secret, modulo 2^32.
    ///
    /// # Panics
    /// If the hint has fewer rows.
    pub fn products<'a>(&'a self, rows: Range<usize>, secret: &'a LweSecret) -> impl Iterator<Item = u32> {
        let bytes = &self.bytes[rows.start * self.row_bytes..rows.end * self.row_bytes];
        let mut words = vec![0; self.degree];
        bytes.chunks_exact(self.row_bytes).map(move |row| {
            words_of_upper_bits(&mut words, row, self.dropped);
            secret.inner_product(&words)
        })
    }
}

/// Rewrites, in a file with a rounded hint, the rows of all panels that have a changed byte. The
/// result equals a hint of the changed matrix that is computed anew.
///
/// # Errors
/// See [`refold`]; [`ProtocolError::Backend`] if the hint has another length,
/// [`ProtocolError::Write`] if it cannot be written.
pub(crate) fn patch_rounded_hint<B: Backend>(
    backend: &B,
    (path, bits): (&Path, u32),
    (matrix, stored): (&Path, Stored),
    public: &PublicMatrix,
    differences: impl Iterator<Item = Difference>,
) -> Result<(), ProtocolError> {
    let row_bytes = HintRows::of(public.set(), bits).row_bytes();
    let [rows, _] = stored.shape();
    let file = File::open(path, rows as u64 * row_bytes as u64)?;
    let mut bytes = Vec::with_capacity(row_bytes);
    refold(backend, (matrix, stored), public, differences, |row, words| {
        bytes.clear();
        extend_rounded(&mut bytes, words, bits);
        file.write(row as u64 * row_bytes as u64, &bytes)
    })
}

/// Folds the panels that have a changed byte, for a matrix in a file. Passes the hint's rows of
/// these panels to `put`, with their numbers.
///
/// # Errors
/// [`ProtocolError::Backend`] if the matrix cannot be read or has another length; those of the
/// backend and of `put`.
pub(crate) fn refold<B: Backend>(
    backend: &B,
    (matrix, stored): (&Path, Stored),
    public: &PublicMatrix,
    differences: impl Iterator<Item = Difference>,
    mut put: impl FnMut(usize, &[u32]) -> Result<(), ProtocolError>,
) -> Result<(), ProtocolError> {
    let [rows, columns] = stored.shape();
    let panel_bytes = PanelLayout::covering(rows, columns)?.panel_bytes();
    let panels: BTreeSet<usize> = differences.map(|difference| difference.row / PANEL_ROWS).collect();
    let panels: Vec<_> = panels.into_iter().collect();
    let matrix = Units::open(&StoredFile::at(matrix), stored)?;
    // Panels are read as the file's units here.
    for panels in panels.chunks((FOLDED_AT_ONCE / panel_bytes).max(1)) {
        let mut bytes = vec![0; panels.len() * panel_bytes];
        for (&panel, bytes) in panels.iter().zip(bytes.chunks_exact_mut(panel_bytes)) {
            matrix.read(panel, bytes);
        }
        let some = PanelLayout::covering(panels.len() * PANEL_ROWS, columns)?;
        let hint = LweHint::compute(backend, public, &backend.upload(some, &bytes)?, |_| ())?;
        for (i, &panel) in panels.iter().enumerate() {
            for row in 0..PANEL_ROWS {
                put(panel * PANEL_ROWS + row, hint.row(i * PANEL_ROWS + row))?;
            }
        }
    }
    matrix.check()
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use spirea_backend::NaiveBackend;
    use spirea_lattice::LweEncryptor;
    use spirea_math::random::{SecretRng, Seed};

    use super::*;

    const SET: LweSet = LweSet::Module1280;

    fn hint_of(words: Vec<u32>) -> LweHint {
        LweHint { words, degree: SET.degree() }
    }

    /// Returns random words, and among them the boundaries of rounding intervals, the smallest and
    /// the largest word.
    fn words(seed: u64, rows: usize) -> Vec<u32> {
        let mut rng = SecretRng::deterministic_for_tests(seed);
        let ends = [0, 1, 1 << 14, (1 << 14) - 1, (1 << 15) - 1, 1 << 15, u32::MAX, u32::MAX - (1 << 14)];
        (0..rows * SET.degree())
            .map(|i| if i % 9 == 0 { ends[i / 9 % ends.len()] } else { rng.next_u64() as u32 })
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        /// The client's products equal those with a hint whose words are rounded to the nearest
        /// multiples of 2^(32 - bits).
        #[test]
        fn clients_multiply_rounded_words(bits in 16u32..33, rows in 1usize..4, seed: u64) {
            let words = words(seed, rows);
            let mut bytes = Vec::new();
            hint_of(words.clone()).write_rounded(bits, &mut bytes).unwrap();
            prop_assert_eq!(bytes.len(), rows * HintRows::of(SET, bits).row_bytes());
            let step = 1u64 << (32 - bits);
            let nearest: Vec<u32> =
                words.iter().map(|&word| ((u64::from(word) + step / 2) / step * step) as u32).collect();
            for (&word, &nearest) in words.iter().zip(&nearest) {
                prop_assert!(u64::from((nearest.wrapping_sub(word) as i32).unsigned_abs()) * 2 <= step);
            }
            // The numbers in a row, bit by bit.
            let bit = |i: usize| u32::from(bytes[i / 8] >> (i % 8) & 1);
            for (i, &nearest) in nearest.iter().enumerate().step_by(97) {
                let packed = (0..bits as usize).fold(0, |sum, j| sum | bit(i * bits as usize + j) << j);
                prop_assert_eq!(u64::from(packed) * step, u64::from(nearest));
            }
            let client = ClientHint::from_bytes(SET, bits, rows, &bytes).unwrap();
            let encryptor = LweEncryptor::new(PublicMatrix::new(SET, Seed::new([1; 32]), 256));
            let (_, secret) = encryptor.encrypt_unit(0, &mut SecretRng::deterministic_for_tests(seed));
            let expected = nearest.chunks_exact(SET.degree()).map(|row| secret.inner_product(row));
            let expected: Vec<u32> = expected.collect();
            prop_assert_eq!(client.products(0..rows, &secret).collect::<Vec<_>>(), &expected[..]);
            prop_assert_eq!(client.products(1..rows, &secret).collect::<Vec<_>>(), &expected[1..]);
            for wrong in [&bytes[1..], &[&bytes[..], &[0]].concat()] {
                prop_assert!(ClientHint::from_bytes(SET, bits, rows, wrong).is_err());
            }
        }

        /// After several rounds of changes, the hint is that of the last matrix: roundings do not
        /// add up.
        #[test]
        fn rounded_hints_of_changed_matrices_are_those_computed_anew(
            changes in proptest::collection::vec(proptest::collection::vec((0usize..96, 0usize..256, any::<u8>()), 0..12), 1..5),
            bits in 16u32..32,
        ) {
            let layout = PanelLayout::covering(96, 256).unwrap();
            let grid = crate::grid::Grid { records: 256, record_bytes: 96, unit_rows: 96, groups: 1, columns: 256 };
            let stored = Stored::Panels { layout, grid, spread: crate::grid::Spread::Columns };
            let public = PublicMatrix::new(SET, Seed::new([3; 32]), 256);
            let folder = tempfile::tempdir().unwrap();
            let [matrix, hint] = ["matrix", "hint"].map(|name| folder.path().join(name));
            let computed = |bytes: &[u8]| {
                let uploaded = NaiveBackend.upload(layout, bytes).unwrap();
                let mut hint = Vec::new();
                LweHint::compute(&NaiveBackend, &public, &uploaded, |_| ()).unwrap().write_rounded(bits, &mut hint).unwrap();
                hint
            };
            let mut bytes = vec![7; layout.bytes()];
            std::fs::write(&hint, computed(&bytes)).unwrap();
            for changes in changes {
                let differences: Vec<_> = changes.into_iter().map(|(row, column, new)| {
                    let byte = &mut bytes[layout.offset(row, column)];
                    let by = u32::from(new).wrapping_sub(u32::from(*byte));
                    *byte = new;
                    Difference { row, column, by }
                }).collect();
                std::fs::write(&matrix, &bytes).unwrap();
                patch_rounded_hint(&NaiveBackend, (&hint, bits), (&matrix, stored), &public, differences.into_iter()).unwrap();
            }
            prop_assert!(std::fs::read(&hint).unwrap() == computed(&bytes));
        }
    }
}
