//! The client half.

use spirea_lattice::LweEncryptor;
use spirea_math::random::SecretRng;
use zeroize::Zeroizing;

use super::Params;
use crate::bytes::words_to_bytes;
use crate::grid::Place;
use crate::parameters::Parameters;
use crate::steps::RingKeys;
use crate::steps::check::{check_answer, check_index};
use crate::steps::ring::RingClient;
use crate::{IndexClient, ProtocolError, Sizes};

/// The client half of the hybrid protocol.
pub struct Client {
    params: Params,
    encryptor: LweEncryptor,
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
        let ring = RingClient::new(params.ring_shape(), known, rng);
        Ok(Self { encryptor: LweEncryptor::new(params.0.public_matrix()), ring, params })
    }
}

/// Where the record lies in its unit.
pub struct State {
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
        let (bodies, secret) = self.encryptor.encrypt_unit(column, rng);
        let mut query = words_to_bytes(&bodies);
        query.extend(self.ring.query_of_secret(&secret, group, rng));
        Ok((query, State { offset: Zeroizing::new(offset) }))
    }

    fn decode(&self, state: &State, answer: &[u8]) -> Result<Vec<u8>, ProtocolError> {
        check_answer(answer, self.sizes())?;
        let units = self.ring.bytes_of(answer.chunks_exact(self.params.ring_shape().response_bytes()))?;
        Ok(self.params.0.grid.record_of(&units, *state.offset))
    }

    fn errors(&self, _: &State, answer: &[u8]) -> Result<Vec<f64>, ProtocolError> {
        check_answer(answer, self.sizes())?;
        let ciphertexts = answer.chunks_exact(self.params.ring_shape().response_bytes());
        let errors = ciphertexts.map(|ciphertext| self.ring.errors(ciphertext, u8::BITS));
        Ok(errors.collect::<Result<Vec<_>, _>>()?.concat())
    }
}
