//! Common parts of ExpPack (S) and the hybrid protocol: one fold, whose LWE ciphertexts are packed,
//! and possibly a selection of one packed ciphertext.
//!
//! The records of ExpPack (S) may lie in bins, whose rows are packed together under one secret.
//!
//! The two protocols arrange the parts of a large record differently. Under ExpPack (S) each part
//! is in a separate column and needs a separate query. Under the hybrid protocol the parts lie
//! below each other in one column: one query retrieves all parts and selects the block in each.

use std::sync::Arc;

use spirea_backend::{RingBackend, StoredFile};
use spirea_lattice::lwe::{BlindedUnit, BlindingFactor};
use spirea_lattice::{LweEncryptor, LweSet, RingSet};
use spirea_math::random::SecretRng;
use zeroize::Zeroizing;

use super::client::{PackClient, Reader};
use super::scheme::{PackScheme, PackedRows, PackedServer};
use super::{PackingShape, packed_exceedance_log2};
use crate::bins::Bins;
use crate::client::{AnyIndexClient, IndexClient, Prepared};
use crate::files::{Files, Precomputation};
use crate::grid::{Grid, Spread};
use crate::keys::ClientKeys;
use crate::opening::Opening;
use crate::parameters::{Failure, Parameters, Profile};
use crate::protocol::{Holdings, Serve};
use crate::responder::Responder;
use crate::steps::check::check_answers;
use crate::steps::folded::{Folded, FoldedParams, FoldedProtocol};
use crate::steps::numbers::Numbers;
use crate::steps::query::QueryLayout;
use crate::steps::scalar_fold::{FirstQueries, MatrixRows};
use crate::steps::select::select_work;
use crate::steps::shape::validate_outcome;
use crate::steps::{Unit, Work};
use crate::{ProtocolError, Result, Sizes};

/// A protocol that packs the result of one fold.
pub trait PackedProtocol: FoldedProtocol {
    /// Refuses shapes that the protocol does not have.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] that names the member out of range.
    fn validate_shape(folded: &Folded) -> Result<(), ProtocolError>;
}

impl<P: PackedProtocol> FoldedParams<P> {
    /// Returns the shape of validated parameters.
    pub(crate) fn shape(&self) -> PackedShape {
        let (grid, lwe, bins) = (self.0.grid, self.0.lwe_set(), P::bins(&self.0.grid));
        let parts = grid.parts() / grid.columns_of_record(P::SPREAD);
        let results = parts * (grid.groups * grid.unit_rows).div_ceil(RingSet::DEGREE);
        let ring = PackingShape::new(&self.0, results, grid.groups / bins);
        PackedShape { grid, bins, spread: P::SPREAD, lwe, ring, dropped_bits: self.0.dropped_bits }
    }

    /// Makes the client half.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] if the parameters are invalid.
    pub(crate) fn packed_client(
        &self,
        known: Holdings<'_>,
        rng: &mut SecretRng,
    ) -> Result<Box<dyn AnyIndexClient>, ProtocolError> {
        Ok(Box::new(Client::new(self, known, rng)?))
    }

    /// Returns the sizes of queries, answers, hint and keys in bytes.
    pub(crate) fn sizes(&self) -> Sizes {
        self.shape().sizes()
    }
}

/// Shape derived from validated parameters.
#[derive(Clone, Copy, Debug)]
pub struct PackedShape {
    pub(crate) grid: Grid,
    /// Number of bins. If there are several, they are the grid's groups, and a query selects no
    /// group. If there is one, a query selects a group.
    bins: usize,
    pub(crate) spread: Spread,
    pub(crate) lwe: LweSet,
    pub(crate) ring: PackingShape,
    dropped_bits: u32,
}

impl PackedShape {
    /// Returns the number of secrets in a query. Under each, the query has an encrypted unit vector
    /// for each bin, and the ciphertext of the secret.
    pub(crate) fn asked(&self) -> usize {
        self.grid.columns_of_record(self.spread)
    }

    /// Returns the number of a record's parts that the unit vectors under one secret retrieve.
    pub(crate) fn parts(&self) -> usize {
        self.grid.parts() / self.asked()
    }

    /// Returns the number of groups among which a query selects.
    fn selected_from(&self) -> usize {
        self.grid.groups / self.bins
    }

    /// Returns the number of blocks of N rows into which the rows of a part are packed.
    pub(crate) fn blocks(&self) -> usize {
        (self.grid.groups * self.grid.unit_rows).div_ceil(self.ring.degree())
    }

    /// Returns the number of blocks of a part that an answer contains.
    fn answered_blocks(&self) -> usize {
        self.blocks() / self.selected_from()
    }

    /// Returns the rows that are packed under one secret.
    pub(crate) fn rows(&self) -> PackedRows {
        PackedRows { parts: self.parts(), rows: self.grid.rows(self.spread) }
    }

    /// Returns the layout of the part of a query under one secret.
    pub(crate) fn layout(&self) -> QueryLayout {
        let Self { grid, bins, dropped_bits, .. } = *self;
        let ciphertext = self.ring.query_bytes();
        QueryLayout { first: bins * grid.columns, dropped_bits, second: 0, ciphertext }
    }

    /// Returns the positions of the unit vectors in a query.
    pub(crate) fn first_queries(&self) -> FirstQueries {
        FirstQueries { layout: self.layout(), columns: self.asked(), bins: self.bins }
    }

    /// Returns the bins of records.
    fn record_bins(&self) -> Bins {
        Bins::dealt(self.grid.records, self.grid.records_per_unit() as u64, self.bins as u64)
    }

    /// Returns the number of bytes that the first fold reads.
    pub(crate) fn scanned_bytes(&self) -> usize {
        self.grid.rows(self.spread) * self.grid.columns
    }

    fn server_bytes(&self) -> u64 {
        self.grid.rows(self.spread) as u64 * self.lwe.degree() as u64 * 4
    }

    pub(crate) fn sizes(&self) -> Sizes {
        Sizes {
            query_bytes: self.asked() * self.layout().bytes(),
            answer_bytes: self.grid.parts() * self.answered_blocks() * self.ring.response_bytes(),
            hint_bytes: self.ring.hint_bytes(),
            keys_bytes: self.ring.keys_bytes(),
        }
    }

    fn work(&self) -> Vec<Work> {
        let mut work = vec![Work::new("scalar_fold", Unit::ScannedByte, self.scanned_bytes())];
        work.extend(self.ring.unpack_work());
        work.extend(self.ring.fold_work(self.parts(), self.blocks()));
        work.extend(select_work(self.ring.set(), self.selected_from(), self.parts()));
        work.extend(self.ring.switch_work(self.parts() * self.answered_blocks()));
        // Each secret counts as a query.
        work.iter_mut().for_each(|work| work.count *= self.asked() as f64);
        work
    }
}

impl<P: PackedProtocol> Parameters for FoldedParams<P> {
    fn validate(&self) -> Result<(), ProtocolError> {
        P::validate_shape(&self.0)?;
        validate_outcome(self.sizes(), self.exceedance(1.0))
    }

    fn profile(&self) -> Profile {
        let shape = self.shape();
        let plain = shape.ring.plain_bytes(shape.parts() * shape.blocks());
        Profile {
            key_shape: shape.ring.key_shape(),
            // These are the bits of a selected group's number, because ciphertexts select the group
            // by multiplication. Columns do not count: each has a blinding factor.
            combined_answer_bits: (shape.selected_from() as f64).log2(),
            server_bytes: shape.server_bytes(),
            memory_bytes: self.0.stored(P::SPREAD).bytes()
                + plain
                + shape.ring.digits_bytes()
                + shape.ring.leaves_bytes() as u64,
            work: shape.work(),
            ..self.folded_profile(self.sizes())
        }
    }

    fn exceedance(&self, share: f64) -> Option<Failure> {
        let PackedShape { grid, bins, lwe, ring, .. } = self.shape();
        let numbers = grid.record_bytes * bins;
        let packed = packed_exceedance_log2(&*ring, lwe, self.0.folded_columns(), numbers, share);
        Some(Failure::estimate(packed))
    }
}

impl<P: PackedProtocol, B: RingBackend> Serve<B> for FoldedParams<P> {
    fn precompute(&self, backend: &Arc<B>, job: Precomputation<'_>) -> Result<()> {
        let shape = self.shape();
        let hint = self.0.hint_of_bins((P::SPREAD, shape.bins), &**backend, job.matrix, job.progress)?;
        hint.write(job.server)?;
        shape.ring.write_hint(backend, &self.0.seed, shape.rows(), &hint, job.hint)
    }

    /// Encodes the plaintexts once, for the hint that clients download and for the server half.
    fn precompute_open(
        &self,
        backend: &Arc<B>,
        job: Precomputation<'_>,
        opening: Opening,
    ) -> Result<Option<Box<dyn Responder>>> {
        let (seed, shape) = (&self.0.seed, self.shape());
        let hint = self.0.hint_of_bins((P::SPREAD, shape.bins), &**backend, job.matrix, job.progress)?;
        hint.write(job.server)?;
        let scheme = shape.ring.open_and_write(backend, seed, shape.rows(), &hint, job.hint)?;
        drop(hint);
        self.server(backend, job.matrix, opening, || Ok(scheme)).map(Some)
    }

    fn open(&self, backend: &Arc<B>, files: &Files, opening: Opening) -> Result<Box<dyn Responder>> {
        let (folded, shape) = (&self.0, self.shape());
        self.server(backend, &files.matrix, opening, || {
            let hint = folded.read_hint(P::SPREAD, &files.server)?;
            shape.ring.open(backend, &folded.seed, shape.rows(), &hint)
        })
    }
}

impl<P: PackedProtocol> FoldedParams<P> {
    /// Opens the server half. `scheme` opens the steps after the rows, if the role needs them.
    fn server<B: RingBackend>(
        &self,
        backend: &Arc<B>,
        matrix: &StoredFile,
        opening: Opening,
        scheme: impl FnOnce() -> Result<Box<dyn PackScheme<B>>>,
    ) -> Result<Box<dyn Responder>> {
        self.validate()?;
        let (folded, shape) = (&self.0, self.shape());
        let (layout, query) = (folded.layout(P::SPREAD), shape.first_queries());
        let rows = MatrixRows::open(backend, layout, query, matrix, opening)?;
        let scheme = opening.role.keeps(scheme)?;
        let (sizes, max_batch) = (shape.sizes(), folded.max_batch_in_bins(shape.asked(), shape.bins));
        Ok(Box::new(PackedServer { sizes, max_batch, rows, scheme }))
    }
}

/// The client half.
struct Client {
    folded: Folded,
    shape: PackedShape,
    /// Encryptor for the columns of the first bin. Encryptors for the other bins are made for each
    /// query, since all encryptors together may take more memory than a client has.
    encryptor: LweEncryptor,
    ring: Box<dyn PackClient>,
}

impl Client {
    fn new<P: PackedProtocol>(
        params: &FoldedParams<P>,
        known: Holdings<'_>,
        rng: &mut SecretRng,
    ) -> Result<Self, ProtocolError> {
        params.validate()?;
        let (folded, shape) = (params.0.clone(), params.shape());
        let ring = shape.ring.client(&folded.seed, known, rng);
        Ok(Self { shape, encryptor: folded.encryptor(), folded, ring })
    }
}

/// State of the part of a query under one secret.
struct AskedState {
    reader: Reader,
    /// The blinding factor of each bin's unit vector.
    factors: Vec<BlindingFactor>,
}

/// State of a query: positions of the records, and the secrets that decrypt them.
struct State {
    /// Offset of each bin's record in its unit.
    offsets: Zeroizing<Vec<usize>>,
    /// Bin of the wanted record, if only one is wanted.
    bin: Zeroizing<u64>,
    asked: Vec<AskedState>,
}

impl IndexClient for Client {
    type State = State;

    fn records(&self) -> u64 {
        self.shape.grid.records
    }

    fn bins(&self) -> Bins {
        self.shape.record_bins()
    }

    fn sizes(&self) -> Sizes {
        self.shape.sizes()
    }

    fn keys(&self) -> Option<&ClientKeys> {
        self.ring.registered()
    }

    fn query(&self, index: u64, rng: &mut SecretRng) -> Result<Prepared<State>, ProtocolError> {
        let bins = self.shape.record_bins();
        let chosen = bins.choose(&[index], rng)?;
        let Prepared { queries, state } = IndexClient::query_bins(self, &chosen.records, rng)?;
        let bin = Zeroizing::new(bins.bin_of(index));
        Ok(Prepared { queries, state: State { bin, ..state } })
    }

    /// Keeps the record of the wanted bin; all others are dummies.
    fn decode(&self, state: &State, answers: &[&[u8]]) -> Result<Vec<u8>, ProtocolError> {
        let records = IndexClient::decode_bins(self, state, answers)?;
        Ok(Bins::pick(&records, self.shape.grid.record_bytes, *state.bin))
    }

    fn query_bins(&self, records: &[u64], rng: &mut SecretRng) -> Result<Prepared<State>, ProtocolError> {
        self.shape.record_bins().check(records)?;
        let PackedShape { grid, spread, .. } = self.shape;
        let places = || records.iter().map(|&index| grid.place(spread, index));
        let mut query = Vec::with_capacity(self.shape.sizes().query_bytes);
        let mut asked = Vec::with_capacity(self.shape.asked());
        for part in 0..self.shape.asked() {
            let columns = Zeroizing::new(places().map(|place| place.column + part).collect::<Vec<_>>());
            // If a group is selected, there is one bin.
            let group = grid.place(spread, records[0]).group;
            asked.push(self.append(&columns, group, &mut query, rng));
        }
        let offsets = Zeroizing::new(places().map(|place| place.offset).collect());
        Ok(Prepared { queries: vec![query], state: State { offsets, bin: Zeroizing::new(0), asked } })
    }

    /// Decodes all bins before it reports a wrong number in any bin.
    fn decode_bins(&self, state: &State, answers: &[&[u8]]) -> Result<Zeroizing<Vec<u8>>, ProtocolError> {
        let grid = &self.shape.grid;
        let mut bins: Vec<Numbers> =
            state.offsets.iter().map(|_| Numbers::with_capacity(grid.parts() * grid.unit_rows)).collect();
        for (AskedState { reader, factors }, results) in self.results(state, answers)? {
            let phases = self.ring.phases_of(reader, results)?;
            let mut phases = phases.iter().flat_map(|phases| phases.iter().copied());
            for (numbers, factor) in bins.iter_mut().zip(factors) {
                numbers.push(factor, phases.by_ref().take(self.shape.parts() * grid.unit_rows));
            }
        }
        let records = bins.iter().zip(state.offsets.iter());
        let records: Vec<_> = records.map(|(units, &offset)| units.record(grid, offset, &[])).collect();
        let mut all = Zeroizing::new(Vec::with_capacity(records.len() * grid.record_bytes));
        for record in records {
            all.extend_from_slice(&Zeroizing::new(record?));
        }
        Ok(all)
    }

    fn errors(&self, state: &State, answers: &[&[u8]]) -> Result<Vec<f64>, ProtocolError> {
        let results = self.results(state, answers)?;
        let errors = results.map(|(asked, results)| self.ring.field_errors(&asked.reader, results));
        Ok(errors.collect::<Result<Vec<_>, _>>()?.concat())
    }
}

impl Client {
    /// Appends the part of a query under one secret: unit vectors of one column of each bin, and
    /// the ciphertext of the secret and of the selectors of `group`.
    fn append(
        &self,
        columns: &[usize],
        group: usize,
        query: &mut Vec<u8>,
        rng: &mut SecretRng,
    ) -> AskedState {
        // Allocated at full capacity: a growing vector would leave copies of factors behind.
        let (mut bodies, mut factors) = (Vec::new(), Vec::with_capacity(columns.len()));
        let mut push = |BlindedUnit { bodies: of_bin, factor }| {
            bodies.push(of_bin);
            factors.push(factor);
        };
        let (first, secret) = self.encryptor.encrypt_blinded(columns[0], rng);
        push(first);
        for (bin, &column) in (1..).zip(&columns[1..]) {
            push(self.folded.bin_encryptor(bin).encrypt_blinded_under(&secret, column, rng));
        }
        let (ciphertext, reader) = self.ring.query_of_secret(&secret, group, rng);
        query.extend(self.shape.layout().join(&bodies, &[], &ciphertext));
        AskedState { reader, factors }
    }

    /// Splits the answer into the results under each secret.
    fn results<'a>(
        &self,
        state: &'a State,
        answers: &[&'a [u8]],
    ) -> Result<impl Iterator<Item = (&'a AskedState, &'a [u8])> + use<'a>, ProtocolError> {
        let [answer] = check_answers(answers, self.shape.sizes())?;
        Ok(state.asked.iter().zip(answer.chunks_exact(answer.len() / self.shape.asked())))
    }
}

#[cfg(test)]
mod tests;
