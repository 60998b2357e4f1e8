//! The client half.

use spirea_lattice::{LweEncryptor, LweSecret};
use spirea_math::random::SecretRng;
use zeroize::Zeroizing;

use super::Params;
use crate::bytes::words_to_bytes;
use crate::double::{UnitPhases, phases};
use crate::grid::Place;
use crate::parameters::Parameters;
use crate::steps::RingKeys;
use crate::steps::check::{check_answer, check_index};
use crate::steps::lwe::{byte_error, nearest_bytes};
use crate::steps::ring::RingClient;
use crate::{IndexClient, ProtocolError, Sizes};

/// The client half of ExpPack (D).
pub struct Client {
    params: Params,
    first: LweEncryptor,
    second: LweEncryptor,
    ring: RingClient,
}

impl Client {
    /// A client of the database with these parameters, with keys among `known` that fit, or else with
    /// keys of its own.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] if the parameters are invalid.
    pub fn new(params: Params, known: &[RingKeys], rng: &mut SecretRng) -> Result<Self, ProtocolError> {
        params.validate()?;
        Ok(Self {
            first: LweEncryptor::new(params.0.public_matrix()),
            second: LweEncryptor::new(params.0.second_matrix(params.0.grid.groups)),
            ring: RingClient::new(params.ring_shape(), known, rng),
            params,
        })
    }
}

/// The secrets of a query, and where the record lies in its unit.
pub struct State {
    first: Vec<LweSecret>,
    second: LweSecret,
    offset: Zeroizing<usize>,
}

impl IndexClient for Client {
    type State = State;

    fn records(&self) -> u64 {
        self.params.0.grid.records
    }

    fn sizes(&self) -> Sizes {
        self.params.sizes()
    }

    fn evaluation_keys(&self) -> Option<&[u8]> {
        Some(self.ring.keys())
    }

    fn ring_keys(&self) -> Option<&RingKeys> {
        Some(self.ring.ring_keys())
    }

    fn query(&self, index: u64, rng: &mut SecretRng) -> Result<(Vec<u8>, State), ProtocolError> {
        let grid = self.params.0.grid;
        check_index(index, grid.records)?;
        let Place { column, group, offset } = grid.place(Params::SPREAD, index);
        let mut query = Vec::with_capacity(self.sizes().query_bytes);
        let mut first = Vec::with_capacity(grid.parts());
        for part in 0..grid.parts() {
            let (bodies, secret) = self.first.encrypt_unit(column + part, rng);
            query.extend(words_to_bytes(&bodies));
            first.push(secret);
        }
        let (bodies, second) = self.second.encrypt_unit(group, rng);
        query.extend(words_to_bytes(&bodies));
        query.extend(self.ring.query_of_secret(&second, 0, rng));
        Ok((query, State { first, second, offset: Zeroizing::new(offset) }))
    }

    fn decode(&self, state: &State, answer: &[u8]) -> Result<Vec<u8>, ProtocolError> {
        let (_, phases) = self.phases(state, answer)?;
        Ok(self.params.0.grid.record_of(&nearest_bytes(&phases), *state.offset))
    }

    fn errors(&self, state: &State, answer: &[u8]) -> Result<Vec<f64>, ProtocolError> {
        let (rows, phases) = self.phases(state, answer)?;
        let mut errors: Vec<f64> = rows.iter().chain(phases.iter()).copied().map(byte_error).collect();
        let (packed, _) = answer.split_at(self.packed_bytes());
        for ciphertext in packed.chunks_exact(self.params.ring_shape().response_bytes()) {
            errors.extend(self.ring.errors(ciphertext, u8::BITS)?);
        }
        Ok(errors)
    }
}

impl Client {
    fn packed_bytes(&self) -> usize {
        self.params.blocks() * self.params.ring_shape().response_bytes()
    }

    /// The phases of the moving rows, and those of the unit's bytes.
    fn phases(&self, state: &State, answer: &[u8]) -> Result<UnitPhases, ProtocolError> {
        check_answer(answer, self.params.sizes())?;
        let (packed, moving) = answer.split_at(self.packed_bytes());
        let shape = self.params.second();
        let fixed = self.ring.bytes_of(packed.chunks_exact(self.params.ring_shape().response_bytes()))?;
        Ok(phases(&shape, &fixed[..shape.fixed_rows()], moving, &state.first, &state.second))
    }
}
