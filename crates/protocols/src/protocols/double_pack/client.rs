//! The client half.

use spirea_lattice::LweEncryptor;
use spirea_math::random::SecretRng;
use zeroize::Zeroizing;

use super::Params;
use crate::client::{IndexClient, Prepared};
use crate::grid::RecordPlace;
use crate::keys::ClientKeys;
use crate::parameters::Parameters;
use crate::steps::check::{check_answers, check_index};
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
    /// A client of the database with these parameters, with keys among `known` that fit, or else with
    /// keys of its own.
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

    fn keys(&self) -> Option<&ClientKeys> {
        Some(self.ring.keys())
    }

    fn query(&self, index: u64, rng: &mut SecretRng) -> Result<Prepared<State>, ProtocolError> {
        let grid = self.params.0.grid;
        check_index(index, grid.records)?;
        let RecordPlace { column, group, offset } = grid.place(Params::SPREAD, index);
        let (bodies, secret) = self.first.encrypt_unit(column, rng);
        let second = self.second.encrypt_unit_under(&secret, group, rng);
        let ciphertext = self.ring.query_of_secret(&secret, 0, rng);
        // The public matrix comes in blocks of columns; what lies beyond the groups meets no data.
        let query = self.params.layout().join(&[bodies], &second[..grid.groups], &ciphertext);
        Ok(Prepared { queries: vec![query], state: State { offset: Zeroizing::new(offset) } })
    }

    fn decode(&self, state: &State, answers: &[&[u8]]) -> Result<Vec<u8>, ProtocolError> {
        let [answer] = check_answers(answers, self.sizes())?;
        let grid = self.params.0.grid;
        let response = self.params.ring_shape().response_bytes();
        let mut units = Zeroizing::new(Vec::with_capacity(grid.parts() * grid.unit_rows));
        for part in answer.chunks_exact(self.params.second_blocks() * response) {
            let inner = self.ring.bytes_of(part.chunks_exact(response))?;
            units.extend_from_slice(&self.ring.bytes(&inner[..response])?);
        }
        Ok(grid.record_of(&units, *state.offset))
    }

    fn errors(&self, _: &State, answers: &[&[u8]]) -> Result<Vec<f64>, ProtocolError> {
        let [answer] = check_answers(answers, self.sizes())?;
        let response = self.params.ring_shape().response_bytes();
        let mut errors = Vec::new();
        for part in answer.chunks_exact(self.params.second_blocks() * response) {
            errors.extend(self.ring.errors_of(part.chunks_exact(response), u8::BITS)?);
            let inner = self.ring.bytes_of(part.chunks_exact(response))?;
            errors.extend(self.ring.errors(&inner[..response], u8::BITS)?);
        }
        Ok(errors)
    }
}
