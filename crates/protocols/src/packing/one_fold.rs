//! Common parts of ExpPack (S) and the hybrid protocol: one fold, whose LWE ciphertexts are packed,
//! and possibly a selection of one packed ciphertext.
//!
//! The two protocols arrange the parts of a large record differently. Under ExpPack (S) each part
//! is in a separate column and needs a separate query. Under the hybrid protocol the parts lie
//! below each other in one column: one query retrieves all parts and selects the block in each.

use std::sync::Arc;

use spirea_backend::RingBackend;
use spirea_lattice::lwe::{BlindedUnit, BlindingFactor};
use spirea_lattice::rlwe::KeyShape;
use spirea_lattice::{LweEncryptor, LweSet, RingSet};
use spirea_math::random::SecretRng;
use zeroize::Zeroizing;

use super::client::{PackClient, Reader};
use super::scheme::{PackedRows, PackedServer};
use super::{PackingShape, packed_exceedance_log2};
use crate::choice::KeyDelivery;
use crate::client::{AnyIndexClient, IndexClient, Prepared};
use crate::files::{Files, Precomputation};
use crate::grid::{Grid, RecordPlace, Spread};
use crate::keys::ClientKeys;
use crate::opening::Opening;
use crate::parameters::{Failure, Parameters, Sets, Stored};
use crate::protocol::{Holdings, Serve};
use crate::responder::Responder;
use crate::steps::check::{check_answers, check_index};
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
        let (grid, lwe) = (self.0.grid, self.0.lwe_set());
        let parts = grid.parts() / grid.columns_of_record(P::SPREAD);
        let results = parts * grid.groups * (grid.unit_rows / RingSet::DEGREE);
        let ring = PackingShape::new(&self.0, results, grid.groups);
        PackedShape { grid, spread: P::SPREAD, lwe, ring, dropped_bits: self.0.dropped_bits }
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
}

/// Shape derived from validated parameters.
#[derive(Clone, Copy, Debug)]
pub struct PackedShape {
    pub(crate) grid: Grid,
    pub(crate) spread: Spread,
    pub(crate) lwe: LweSet,
    pub(crate) ring: PackingShape,
    dropped_bits: u32,
}

impl PackedShape {
    /// Returns the number of encrypted unit vectors in a query, each with the ciphertext of its
    /// secret.
    pub(crate) fn asked(&self) -> usize {
        self.grid.columns_of_record(self.spread)
    }

    /// Returns the number of a record's parts that each encrypted unit vector retrieves.
    pub(crate) fn parts(&self) -> usize {
        self.grid.parts() / self.asked()
    }

    /// Returns the number of blocks of N rows into which the rows of a part are packed.
    pub(crate) fn blocks(&self) -> usize {
        self.grid.groups * self.blocks_of_unit()
    }

    fn blocks_of_unit(&self) -> usize {
        self.grid.unit_rows / self.ring.degree()
    }

    /// Returns the rows that each encrypted unit vector packs.
    pub(crate) fn rows(&self) -> PackedRows {
        PackedRows { parts: self.parts(), rows: self.grid.rows(self.spread) }
    }

    /// Returns the layout of each encrypted unit vector in a query.
    pub(crate) fn layout(&self) -> QueryLayout {
        let Self { grid, dropped_bits, .. } = *self;
        QueryLayout { first: grid.columns, dropped_bits, second: 0, ciphertext: self.ring.query_bytes() }
    }

    /// Returns the number of bytes that the first fold reads.
    pub(crate) fn scanned_bytes(&self) -> usize {
        self.grid.rows(self.spread) * self.grid.columns
    }

    fn server_bytes(&self) -> u64 {
        self.grid.rows(self.spread) as u64 * self.lwe.degree() as u64 * 4
    }

    fn sizes(&self) -> Sizes {
        Sizes {
            query_bytes: self.asked() * self.layout().bytes(),
            answer_bytes: self.grid.parts() * self.blocks_of_unit() * self.ring.response_bytes(),
            hint_bytes: self.ring.hint_bytes(),
            keys_bytes: self.ring.keys_bytes(),
        }
    }

    fn work(&self) -> Vec<Work> {
        let mut work = vec![Work::new("scalar_fold", Unit::ScannedByte, self.scanned_bytes())];
        work.extend(self.ring.unpack_work());
        work.extend(self.ring.fold_work(self.parts(), self.blocks()));
        work.extend(select_work(self.ring.set(), self.grid.groups, self.parts()));
        work.extend(self.ring.switch_work(self.parts() * self.blocks_of_unit()));
        // Each encrypted unit vector counts as a query.
        work.iter_mut().for_each(|work| work.count *= self.asked() as f64);
        work
    }
}

impl<P: PackedProtocol> Parameters for FoldedParams<P> {
    fn name(&self) -> &'static str {
        P::NAME
    }

    fn set(&self) -> String {
        self.0.set_names()
    }

    fn stored(&self) -> Stored {
        self.0.stored(P::SPREAD)
    }

    fn grid(&self) -> Grid {
        self.0.grid
    }

    fn server_bytes(&self) -> u64 {
        self.shape().server_bytes()
    }

    fn validate(&self) -> Result<(), ProtocolError> {
        P::validate_shape(&self.0)?;
        validate_outcome(self.sizes(), self.failure())
    }

    fn key_shape(&self) -> Option<KeyShape> {
        self.shape().ring.key_shape()
    }

    fn key_delivery(&self) -> Option<KeyDelivery> {
        Some(self.0.keys)
    }

    /// Counts the bits of the group, which ciphertexts select by multiplication; the column has a
    /// blinding factor.
    fn combined_answer_bits(&self) -> f64 {
        (self.0.grid.groups as f64).log2()
    }

    fn sizes(&self) -> Sizes {
        self.shape().sizes()
    }

    fn work(&self) -> Vec<Work> {
        self.shape().work()
    }

    fn memory_bytes(&self) -> u64 {
        let shape = self.shape();
        let plain = shape.ring.plain_bytes(shape.parts() * shape.blocks());
        self.stored().bytes() + plain + shape.ring.digits_bytes() + shape.ring.leaves_bytes() as u64
    }

    fn exceedance(&self, share: f64) -> Option<Failure> {
        let PackedShape { grid, lwe, ring, .. } = self.shape();
        let packed = packed_exceedance_log2(&*ring, lwe, self.0.folded_columns(), grid.record_bytes, share);
        Some(Failure::estimate(packed))
    }

    fn sets(&self) -> Sets {
        self.0.sets()
    }
}

impl<P: PackedProtocol, B: RingBackend> Serve<B> for FoldedParams<P> {
    fn precompute(&self, backend: &Arc<B>, job: Precomputation<'_>) -> Result<()> {
        let hint = self.0.hint(P::SPREAD, &**backend, job.matrix, job.progress)?;
        hint.write(job.server)?;
        let shape = self.shape();
        shape.ring.write_hint(backend, &self.0.seed, shape.rows(), &hint, job.hint)
    }

    fn open(&self, backend: &Arc<B>, files: &Files, opening: Opening) -> Result<Box<dyn Responder>> {
        self.validate()?;
        let (folded, shape) = (&self.0, self.shape());
        let query = FirstQueries { layout: shape.layout(), columns: shape.asked() };
        let rows = MatrixRows::open(backend, folded.layout(P::SPREAD), query, &files.matrix, opening)?;
        let scheme = opening.role.keeps(|| {
            let hint = folded.read_hint(P::SPREAD, &files.server)?;
            shape.ring.open(backend, &folded.seed, shape.rows(), &hint)
        })?;
        let (sizes, max_batch) = (shape.sizes(), folded.max_batch(shape.asked()));
        Ok(Box::new(PackedServer { sizes, max_batch, rows, scheme }))
    }
}

/// The client half.
struct Client {
    shape: PackedShape,
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
        let shape = params.shape();
        let ring = shape.ring.client(&params.0.seed, known, rng);
        Ok(Self { shape, encryptor: params.0.encryptor(), ring })
    }
}

/// Position of the record in its unit, and the readers of each encrypted unit vector's results.
struct State {
    offset: Zeroizing<usize>,
    readers: Vec<(Reader, BlindingFactor)>,
}

impl IndexClient for Client {
    type State = State;

    fn records(&self) -> u64 {
        self.shape.grid.records
    }

    fn sizes(&self) -> Sizes {
        self.shape.sizes()
    }

    fn keys(&self) -> Option<&ClientKeys> {
        self.ring.registered()
    }

    fn query(&self, index: u64, rng: &mut SecretRng) -> Result<Prepared<State>, ProtocolError> {
        let PackedShape { grid, spread, .. } = self.shape;
        check_index(index, grid.records)?;
        let RecordPlace { column, group, offset } = grid.place(spread, index);
        let mut query = Vec::with_capacity(self.shape.sizes().query_bytes);
        let mut readers = Vec::with_capacity(self.shape.asked());
        for asked in 0..self.shape.asked() {
            let (BlindedUnit { bodies, factor }, secret) =
                self.encryptor.encrypt_blinded(column + asked, rng);
            let (ciphertext, reader) = self.ring.query_of_secret(&secret, group, rng);
            query.extend(self.shape.layout().join(&[bodies], &[], &ciphertext));
            readers.push((reader, factor));
        }
        Ok(Prepared { queries: vec![query], state: State { offset: Zeroizing::new(offset), readers } })
    }

    fn decode(&self, state: &State, answers: &[&[u8]]) -> Result<Vec<u8>, ProtocolError> {
        let grid = &self.shape.grid;
        let mut units = Numbers::with_capacity(grid.parts() * grid.unit_rows);
        for ((reader, factor), results) in self.results(state, answers)? {
            self.ring.read(reader, factor, results, &mut units)?;
        }
        units.record(grid, *state.offset, &[])
    }

    fn errors(&self, state: &State, answers: &[&[u8]]) -> Result<Vec<f64>, ProtocolError> {
        let results = self.results(state, answers)?;
        let errors = results.map(|((reader, _), results)| self.ring.field_errors(reader, results));
        Ok(errors.collect::<Result<Vec<_>, _>>()?.concat())
    }
}

impl Client {
    /// Splits the answer into the results for each encrypted unit vector, with their readers.
    fn results<'a>(
        &self,
        state: &'a State,
        answers: &[&'a [u8]],
    ) -> Result<impl Iterator<Item = (&'a (Reader, BlindingFactor), &'a [u8])> + use<'a>, ProtocolError> {
        let [answer] = check_answers(answers, self.shape.sizes())?;
        Ok(state.readers.iter().zip(answer.chunks_exact(answer.len() / self.shape.asked())))
    }
}

#[cfg(test)]
mod tests;
