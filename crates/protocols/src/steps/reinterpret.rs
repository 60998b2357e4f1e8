//! Step `reinterpret`: takes the result of one fold as the database of another.
//!
//! With two folds in a row, the rows of the first one become bytes, in columns that a second query
//! selects. After packing, the bytes of switched ciphertexts become the columns.
//!
//! Rows of the second matrix are ordered by `(i, k, byte)`. Such a row holds byte `byte` of entry k
//! in the first fold's ciphertext of byte i of a unit; its column is the unit's group. Entries 0 to
//! n - 1 come from the hint and are the same for every query (the *fixed* rows). The last entry,
//! from the answer, differs for each query and part (the *moving* rows).

use std::io::Write;
use std::sync::Arc;

use spirea_backend::{
    Backend, FileRows, MAX_BATCH, PANEL_ROWS, PanelLayout, RING_DEGREE, Residence, RingBackend, map_each,
};
use spirea_lattice::lwe::{BlindedUnit, BlindingFactor, field_error};
use spirea_lattice::noise::HintRounding;
use spirea_lattice::{LweEncryptor, LweSecret, LweSet, PublicMatrix};
use spirea_math::random::SecretRng;
use zeroize::Zeroizing;

use super::check::check_index;
use super::numbers::Numbers;
use super::query::QueryLayout;
use super::ring::{RingServer, Shape, switched};
use super::scalar_fold::{
    FirstQueries, FoldedColumns, Knowledge, MatrixRows, ROUNDED_BYTES, fraction, round, rounded,
    rounded_bound_log2, rounded_entirely, rounded_exceedance_log2, unround,
};
use super::shape::malformed;
use super::{Folded, LweHint, Unit, Work, noise};
use crate::ProtocolError;
use crate::files::Files;
use crate::grid::{Grid, RecordPlace, Spread};
use crate::opening::Opening;

/// Parts of a large record lie in neighbouring columns, each with its own first query.
pub(crate) const SPREAD: Spread = Spread::Columns;
/// Maximum bytes of a unit: the hint has 7 to 13 MB for each byte of a unit.
const MAX_UNIT_ROWS: usize = 1 << 10;

impl Folded {
    /// Checks parameters of a protocol of two folds.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] that names the member out of range.
    pub(crate) fn validate_two_folds(&self) -> Result<(), ProtocolError> {
        self.validate(SPREAD)?;
        let Grid { unit_rows, groups, .. } = self.grid;
        if unit_rows > MAX_UNIT_ROWS || !groups.is_multiple_of(RING_DEGREE) {
            let most = MAX_UNIT_ROWS;
            return Err(malformed(format!(
                "a unit must have at most {most} bytes, and a column a multiple of {RING_DEGREE} units"
            )));
        }
        if self.max_batch(self.grid.parts()) == 0 {
            return Err(malformed("a record takes more columns than a batch has queries".into()));
        }
        Ok(())
    }

    /// Returns the shape of the second fold.
    pub(crate) fn second(&self) -> SecondShape {
        SecondShape::of(self.lwe_set(), &self.grid)
    }

    /// Returns the layout of a query of two folds, followed by a ciphertext of `ciphertext` bytes.
    pub(crate) fn two_folds_layout(&self, ciphertext: usize) -> QueryLayout {
        let Grid { columns, groups, .. } = self.grid;
        let first = self.grid.parts() * columns;
        QueryLayout { first, dropped_bits: self.dropped_bits, second: groups, ciphertext }
    }

    /// Returns the number of bytes that a query of two folds reads.
    pub(crate) fn two_folds_read_bytes(&self) -> f64 {
        let second = self.second();
        let scan = self.grid.rows(SPREAD) * self.grid.columns;
        (scan + second.fixed_rows() * second.groups) as f64
    }

    /// Opens the matrix of the first fold, for queries with this layout.
    ///
    /// # Errors
    /// Those of the backend.
    pub(crate) fn open_first<B: Backend>(
        &self,
        backend: &Arc<B>,
        layout: QueryLayout,
        files: &Files,
        opening: Opening,
    ) -> Result<MatrixRows<B>, ProtocolError> {
        let query = FirstQueries { layout, columns: self.grid.parts(), bins: 1 };
        MatrixRows::open(backend, self.layout(SPREAD), query, &files.matrix, opening)
    }

    /// Opens the data of the second fold, which complements the first fold's answers.
    ///
    /// # Errors
    /// Those of the backend.
    pub(crate) fn open_second<B: Backend>(
        &self,
        backend: &Arc<B>,
        files: &Files,
        residence: Residence,
    ) -> Result<SecondServer<B>, ProtocolError> {
        let shape = self.second();
        let layout = shape.fixed_layout();
        let fixed = backend.open(FileRows::all(layout, &files.server, residence))?;
        let public = self.second_matrix(self.grid.groups);
        Ok(SecondServer { backend: Arc::clone(backend), shape, fixed, public })
    }

    /// Returns the work of two folds for a query: both scans, and the moving rows' hint.
    pub(crate) fn two_folds_work(&self) -> Vec<Work> {
        let (second, parts) = (self.second(), self.grid.parts());
        let bytes = self.grid.rows(SPREAD) * self.grid.columns;
        let moving = (parts * second.moving_rows()).next_multiple_of(PANEL_ROWS) * second.groups;
        vec![
            // Both matrices are read once; each part after the first costs arithmetic only.
            Work::new("scalar_fold", Unit::ScannedByte, bytes + second.fixed_rows() * second.groups),
            Work::new("scalar_fold", Unit::Product, (parts - 1) * bytes),
            Work::new("module_fold", Unit::PublicColumn, second.groups * self.lwe_set().rank()),
            Work::new("module_fold", Unit::TransformedByte, moving),
        ]
    }

    /// Returns the number of bytes of the fixed rows of the second fold.
    pub(crate) fn fixed_bytes(&self) -> u64 {
        self.second().fixed_layout().bytes() as u64
    }

    /// Returns log2 of the estimated failure probability of two folds, if the second fold is
    /// decoded from rounded words.
    pub(crate) fn two_folds_exceedance_log2(&self, second_rows: usize, share: f64) -> f64 {
        let [first, second] = [self.folded_columns(), FoldedColumns::whole(self.grid.groups)];
        let first = rounded_exceedance_log2(self.lwe_set(), first, self.grid.record_bytes, share);
        noise::either(first, rounded_exceedance_log2(self.lwe_set(), second, second_rows, share))
    }
}

impl Folded {
    /// Returns log2 of a bound on the probability that the error of any number exceeds the fraction
    /// `share` of the error that decoding tolerates. The bound holds for every database that was
    /// chosen with this knowledge of the first matrix. Bodies are unrounded, and clients hold the
    /// hint of the fixed rows.
    ///
    /// The first secrets are independent of the first hint. The second secret is independent of the
    /// first answers. The second fold's rows are made of the first hint and answers, so they do not
    /// depend on the second matrix unless the content does.
    pub(crate) fn two_folds_bound_log2(&self, knowledge: Knowledge, share: f64) -> f64 {
        let (shape, rounded) = (self.second(), rounded_entirely(self.lwe_set()));
        let moving_rows = shape.parts * shape.moving_rows();
        let fixed = self.fixed_bound_log2(knowledge, self.hint_bits, share);
        let moving = rounded_bound_log2(knowledge, self.grid.groups, rounded, moving_rows, share);
        let unit = rounded_bound_log2(knowledge, self.grid.columns, rounded, self.grid.record_bytes, share);
        noise::either(noise::either(fixed, moving), unit)
    }

    /// Returns log2 of the bound for the fixed rows alone, if their hint has `hint_bits` bits a
    /// word.
    pub(crate) fn fixed_bound_log2(&self, knowledge: Knowledge, hint_bits: u32, share: f64) -> f64 {
        let hint = HintRounding { entries: self.lwe_set().degree(), bits: hint_bits };
        rounded_bound_log2(knowledge, self.grid.groups, hint, self.second().fixed_rows(), share)
    }
}

/// Returns candidate shapes of two folds.
pub(crate) fn grids_of_two_folds(records: u64, record_bytes: usize) -> impl Iterator<Item = Grid> {
    let units = (0..=10).map(move |power| record_bytes.div_ceil(1 << power)).chain([1, 2, 4, 8, 16, 32]);
    units.filter(move |&unit| unit <= record_bytes).flat_map(move |unit_rows| {
        (0..14).filter_map(move |power| {
            let grid = Grid { records, record_bytes, unit_rows, groups: RING_DEGREE << power, columns: 0 };
            grid.fit_columns(SPREAD, RING_DEGREE)
        })
    })
}

/// Shape of a second fold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SecondShape {
    /// Length of an LWE secret.
    pub degree: usize,
    /// Bytes of a unit.
    pub unit_rows: usize,
    /// Units in a column of the first matrix, which are the columns of the second.
    pub groups: usize,
    /// First queries in a look-up.
    pub parts: usize,
}

impl SecondShape {
    pub fn of(set: LweSet, grid: &Grid) -> Self {
        Self { degree: set.degree(), unit_rows: grid.unit_rows, groups: grid.groups, parts: grid.parts() }
    }

    /// Returns the maximum number of queries in a batch.
    pub fn max_batch(&self) -> usize {
        MAX_BATCH / self.parts
    }

    /// Returns the number of rows that are equal for every query.
    pub fn fixed_rows(&self) -> usize {
        self.unit_rows * self.degree * ROUNDED_BYTES
    }

    /// Returns the number of rows of one part of one query.
    pub fn moving_rows(&self) -> usize {
        self.unit_rows * ROUNDED_BYTES
    }

    /// Returns the layout of the fixed rows. Their number is a multiple of 32: there are 2 n for
    /// each byte, and n is a multiple of 256.
    pub fn fixed_layout(&self) -> PanelLayout {
        PanelLayout::covering(self.fixed_rows(), self.groups).expect("validated parameters have a layout")
    }
}

/// Returns the number of bytes of the moving rows' ciphertexts in an answer: n + 1 rounded words
/// for each row.
pub(crate) fn dynamic_bytes(shape: &SecondShape) -> usize {
    shape.parts * shape.moving_rows() * (shape.degree + 1) * ROUNDED_BYTES
}

/// Writes the fixed rows of a first hint in panel layout.
///
/// # Errors
/// [`ProtocolError::Write`].
pub(crate) fn write_fixed(
    shape: &SecondShape,
    hint: &LweHint,
    out: &mut dyn Write,
) -> Result<(), ProtocolError> {
    let layout = shape.fixed_layout();
    let panel_bytes = PANEL_ROWS * layout.columns();
    let mut panel = vec![0; panel_bytes];
    // A panel of 32 rows holds 16 entries of one byte's ciphertexts.
    for first in (0..shape.fixed_rows()).step_by(PANEL_ROWS) {
        let (i, k) = (first / (shape.degree * ROUNDED_BYTES), first / ROUNDED_BYTES % shape.degree);
        for group in 0..shape.groups {
            let entries = &hint.row(group * shape.unit_rows + i)[k..k + PANEL_ROWS / ROUNDED_BYTES];
            for (row, byte) in rounded(entries).flatten().enumerate() {
                panel[layout.offset(row, group)] = byte;
            }
        }
        out.write_all(&panel).map_err(ProtocolError::Write)?;
    }
    Ok(())
}

/// Writes row `row` of the first hint into the fixed rows, in panel layout.
pub(crate) fn put_fixed(shape: &SecondShape, row: usize, entries: &[u32], fixed: &mut [u8]) {
    let (layout, column) = (shape.fixed_layout(), row / shape.unit_rows);
    let first = row % shape.unit_rows * shape.degree * ROUNDED_BYTES;
    for (i, byte) in rounded(entries).flatten().enumerate() {
        fixed[layout.offset(first + i, column)] = byte;
    }
}

/// Precomputes the fixed rows, for the server, and their hint.
///
/// # Errors
/// Those of the backend; [`ProtocolError::Write`] if the output fails.
pub(crate) fn precompute<B: Backend>(
    backend: &B,
    shape: &SecondShape,
    first: &LweHint,
    public: &PublicMatrix,
    server: &mut dyn Write,
) -> Result<LweHint, ProtocolError> {
    let mut fixed = Vec::with_capacity(shape.fixed_layout().bytes());
    write_fixed(shape, first, &mut fixed)?;
    server.write_all(&fixed).map_err(ProtocolError::Write)?;
    let matrix = backend.upload(shape.fixed_layout(), &fixed)?;
    drop(fixed);
    LweHint::compute(backend, public, &matrix, |_| ())
}

/// The server half.
pub(crate) struct SecondServer<B: Backend> {
    pub backend: Arc<B>,
    pub shape: SecondShape,
    pub fixed: B::Matrix,
    pub public: PublicMatrix,
}

impl<B: Backend> SecondServer<B> {
    /// Returns the answers' words for the fixed rows, for each second query.
    pub fn fixed(&self, queries: &[u32]) -> Result<B::Folded, ProtocolError> {
        Ok(self.backend.scalar_fold(&self.fixed, queries)?)
    }

    /// Returns the moving rows' ciphertexts as bytes, for each query: n rounded words of the hint,
    /// and the rounded answer.
    ///
    /// `first` holds the first fold's answers, for each query and part; `queries` holds the second
    /// queries.
    pub fn moving(&self, first: &[u32], queries: &[u32]) -> Result<Vec<Vec<u8>>, ProtocolError> {
        let SecondShape { unit_rows, groups, parts, .. } = self.shape;
        let (rows, batch) = (parts * self.shape.moving_rows(), queries.len() / groups);
        let layout = PanelLayout::covering(batch * rows, groups)?;
        let mut bytes = vec![0; layout.bytes()];
        for (part, answer) in first.chunks_exact(unit_rows * groups).enumerate() {
            for (row, &word) in answer.iter().enumerate() {
                let (group, i) = (row / unit_rows, row % unit_rows);
                for (byte, value) in round(word).to_le_bytes().into_iter().enumerate() {
                    let row = part * self.shape.moving_rows() + i * ROUNDED_BYTES + byte;
                    bytes[layout.offset(row, group)] = value;
                }
            }
        }
        let matrix = self.backend.upload(layout, &bytes)?;
        let hint = LweHint::compute(&*self.backend, &self.public, &matrix, |_| ())?;
        let folded = self.backend.words(self.backend.scalar_fold(&matrix, queries)?)?;
        let of_query = |query: usize| {
            let mut answer = Vec::with_capacity(rows * (self.shape.degree + 1));
            for row in query * rows..(query + 1) * rows {
                let body = folded[query * layout.rows() + row];
                answer.extend(rounded(hint.row(row)));
                answer.push(round(body).to_le_bytes());
            }
            answer.into_flattened()
        };
        Ok(map_each(&*self.backend, 0..batch, of_query))
    }
}

/// The client half.
pub(crate) struct TwoFoldsClient {
    grid: Grid,
    first: LweEncryptor,
    second: LweEncryptor,
}

/// Bodies of a query of two folds: those of the first folds, and those of the second.
pub(crate) struct TwoBodies {
    pub first: Vec<Vec<u32>>,
    pub second: Vec<u32>,
}

/// Secrets and blinding factors of a query's unit vectors, and the record's offset in its unit.
pub(crate) struct TwoFoldsState {
    pub first: Vec<(LweSecret, BlindingFactor)>,
    pub second: (LweSecret, BlindingFactor),
    pub offset: Zeroizing<usize>,
}

impl TwoFoldsClient {
    /// Creates a client of a database with these parameters.
    pub fn new(params: &Folded) -> Self {
        Self {
            grid: params.grid,
            first: params.encryptor(),
            second: LweEncryptor::new(params.second_matrix(params.grid.groups)),
        }
    }

    /// Encrypts the position of record `index` under fresh secrets.
    pub fn query(
        &self,
        index: u64,
        rng: &mut SecretRng,
    ) -> Result<(TwoBodies, TwoFoldsState), ProtocolError> {
        check_index(index, self.grid.records)?;
        let RecordPlace { column, group, offset } = self.grid.place(SPREAD, index);
        let encrypt = |encryptor: &LweEncryptor, position, rng: &mut SecretRng| {
            let (BlindedUnit { bodies, factor }, secret) = encryptor.encrypt_blinded(position, rng);
            (bodies, (secret, factor))
        };
        let parts = 0..self.grid.parts();
        let (first, first_state) = parts.map(|part| encrypt(&self.first, column + part, rng)).unzip();
        let (second, second_state) = encrypt(&self.second, group, rng);
        let offset = Zeroizing::new(offset);
        let state = TwoFoldsState { first: first_state, second: second_state, offset };
        Ok((TwoBodies { first, second }, state))
    }
}

/// A unit that a client decoded, with the intermediate numbers.
pub(crate) struct DecodedUnit {
    /// Numbers that the unit is decoded from: those of the fixed rows and of the moving rows.
    rows: [Numbers; 2],
    /// The unit's bytes, part after part.
    unit: Numbers,
    /// The errors of the moving rows and of the unit, as fractions of the error that decoding
    /// tolerates.
    pub errors: Vec<f64>,
}

impl DecodedUnit {
    /// Decodes a unit from the numbers of the fixed rows and the moving rows' ciphertexts, part
    /// after part. The numbers and the ciphertexts must belong to the query that was made with
    /// `state`.
    pub fn new(shape: &SecondShape, fixed: Numbers, moving: &[u8], state: &TwoFoldsState) -> Self {
        let words = |bytes: &[u8]| -> Zeroizing<Vec<u32>> {
            Zeroizing::new(bytes.as_chunks::<ROUNDED_BYTES>().0.iter().map(|&bytes| unround(bytes)).collect())
        };
        let (secret, factor) = &state.second;
        let ciphertexts = moving.chunks_exact((shape.degree + 1) * ROUNDED_BYTES).map(|ciphertext| {
            let ciphertext = words(ciphertext);
            let (row, body) = ciphertext.split_at(shape.degree);
            fraction(body[0].wrapping_add(secret.inner_product(row)))
        });
        let row_phases = Zeroizing::new(ciphertexts.collect::<Vec<_>>());
        let mut moving = Numbers::with_capacity(row_phases.len());
        moving.push(factor, row_phases.iter().copied());

        let (hint, answers) = (words(fixed.bytes()), words(moving.bytes()));
        let mut unit = Numbers::with_capacity(shape.parts * shape.unit_rows);
        let mut unit_phases = Zeroizing::new(Vec::with_capacity(shape.parts * shape.unit_rows));
        for ((secret, factor), answers) in state.first.iter().zip(answers.chunks_exact(shape.unit_rows)) {
            let rows = hint.chunks_exact(shape.degree).zip(answers);
            let first = unit_phases.len();
            unit_phases
                .extend(rows.map(|(row, answer)| fraction(answer.wrapping_add(secret.inner_product(row)))));
            unit.push(factor, unit_phases[first..].iter().copied());
        }
        let errors = row_phases.iter().chain(unit_phases.iter()).copied().map(field_error).collect();
        Self { rows: [fixed, moving], unit, errors }
    }

    /// Returns the record at the offset in `state`, which was made with the query.
    ///
    /// # Errors
    /// [`ProtocolError::Corrupted`] if a number that the record depends on is not a byte.
    pub fn record(&self, grid: &Grid, state: &TwoFoldsState) -> Result<Vec<u8>, ProtocolError> {
        self.unit.record(grid, *state.offset, &self.rows)
    }
}

impl<B: RingBackend, S: Shape> RingServer<B, S> {
    /// Returns a matrix for each query, with the bytes of its switched ciphertexts down the
    /// columns.
    pub fn reinterpret(
        &self,
        ciphertexts: &B::Ciphertexts,
        layout: PanelLayout,
    ) -> Result<B::Matrices, ProtocolError> {
        Ok(self.backend.reinterpret(&self.tables, ciphertexts, switched(self.shape.set()), layout)?)
    }
}
