//! The client half.

use spirea_lattice::LweEncryptor;
use spirea_lattice::lwe::BlindingFactor;
use spirea_math::random::SecretRng;
use zeroize::Zeroizing;

use super::Params;
use crate::client::{IndexClient, Prepared};
use crate::grid::RecordPlace;
use crate::keys::ClientKeys;
use crate::packing::client::PackClient;
use crate::parameters::Parameters;
use crate::steps::check::{check_answers, check_index};
use crate::steps::numbers::Numbers;
use crate::steps::ring::{RingClient, Shape};
use crate::{ProtocolError, Sizes};

/// The client half of double packing.
pub struct Client {
    params: Params,
    first: LweEncryptor,
    second: LweEncryptor,
    ring: RingClient,
}

impl Client {
    /// Creates a client of the database with these parameters. It reuses keys among `known` that
    /// fit, or else makes its own.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] if the parameters are invalid.
    pub fn new(params: Params, known: &[ClientKeys], rng: &mut SecretRng) -> Result<Self, ProtocolError> {
        params.validate()?;
        Ok(Self {
            first: params.0.encryptor(),
            second: LweEncryptor::new(params.second_matrix()),
            ring: RingClient::new(Box::new(params.ring_shape()), known, rng),
            params,
        })
    }
}

/// Position of the record in its unit, and the blinding factors of both unit vectors.
pub struct State {
    offset: Zeroizing<usize>,
    first: BlindingFactor,
    second: BlindingFactor,
}

impl IndexClient for Client {
    type State = State;

    fn records(&self) -> u64 {
        self.params.0.grid.records
    }

    fn sizes(&self) -> Sizes {
        self.params.sizes()
    }

    fn keys(&self) -> Option<&ClientKeys> {
        Some(self.ring.keys())
    }

    fn query(&self, index: u64, rng: &mut SecretRng) -> Result<Prepared<State>, ProtocolError> {
        let grid = self.params.0.grid;
        check_index(index, grid.records)?;
        let RecordPlace { column, group, offset } = grid.place(Params::SPREAD, index);
        let (first, secret) = self.first.encrypt_blinded(column, rng);
        let second = self.second.encrypt_blinded_under(&secret, group, rng);
        let (ciphertext, _) = self.ring.query_of_secret(&secret, 0, rng);
        // The public matrix has whole blocks of columns. Bodies after the last group would multiply
        // no data, so they are not sent.
        let query = self.params.layout().join(&[first.bodies], &second.bodies[..grid.groups], &ciphertext);
        let state = State { offset: Zeroizing::new(offset), first: first.factor, second: second.factor };
        Ok(Prepared { queries: vec![query], state })
    }

    fn decode(&self, state: &State, answers: &[&[u8]]) -> Result<Vec<u8>, ProtocolError> {
        let grid = &self.params.0.grid;
        let mut units = Numbers::with_capacity(grid.parts() * grid.unit_rows);
        let mut inner = Vec::with_capacity(grid.parts());
        for part in self.parts(answers)? {
            let numbers = self.inner(state, part)?;
            self.ring.read(&None, &state.first, numbers.bytes(), &mut units)?;
            inner.push(numbers);
        }
        units.record(grid, *state.offset, &inner)
    }

    fn errors(&self, state: &State, answers: &[&[u8]]) -> Result<Vec<f64>, ProtocolError> {
        let mut errors = Vec::new();
        for part in self.parts(answers)? {
            errors.extend(self.ring.field_errors(&None, part)?);
            errors.extend(self.ring.field_errors(&None, self.inner(state, part)?.bytes())?);
        }
        Ok(errors)
    }
}

impl Client {
    /// Splits the answer into the ciphertexts of each part of a record.
    fn parts<'a>(
        &self,
        answers: &[&'a [u8]],
    ) -> Result<impl Iterator<Item = &'a [u8]> + use<'a>, ProtocolError> {
        let [answer] = check_answers(answers, self.sizes())?;
        Ok(answer.chunks_exact(self.params.second_blocks() * self.params.ring_shape().response_bytes()))
    }

    /// Decodes the bytes of a part's inner ciphertext from all ciphertexts of the part.
    fn inner(&self, state: &State, part: &[u8]) -> Result<Numbers, ProtocolError> {
        let mut numbers = Numbers::with_capacity(self.params.ring_shape().response_bytes());
        self.ring.read(&None, &state.second, part, &mut numbers)?;
        Ok(numbers)
    }
}

#[cfg(test)]
mod tests;
