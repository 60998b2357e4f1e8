//! The client half.

use spirea_lattice::{LweEncryptor, LweSecret};
use spirea_math::random::SecretRng;
use zeroize::Zeroizing;

use super::Params;
use crate::client::{IndexClient, Prepared};
use crate::grid::Place;
use crate::keys::ClientKeys;
use crate::parameters::Parameters;
use crate::steps::check::{check_answers, check_index};
use crate::steps::reinterpret::{SPREAD, UnitPhases, phases};
use crate::steps::ring::RingClient;
use crate::steps::scalar_fold::{byte_error, nearest_bytes};
use crate::{ProtocolError, Sizes};

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
    pub fn new(params: Params, known: &[ClientKeys], rng: &mut SecretRng) -> Result<Self, ProtocolError> {
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

    fn keys(&self) -> Option<&ClientKeys> {
        Some(self.ring.keys())
    }

    fn query(&self, index: u64, rng: &mut SecretRng) -> Result<Prepared<State>, ProtocolError> {
        let grid = self.params.0.grid;
        check_index(index, grid.records)?;
        let Place { column, group, offset } = grid.place(SPREAD, index);
        let (bodies, first): (Vec<_>, _) =
            (0..grid.parts()).map(|part| self.first.encrypt_unit(column + part, rng)).unzip();
        let (second_bodies, second) = self.second.encrypt_unit(group, rng);
        let ciphertext = self.ring.query_of_secret(&second, 0, rng);
        let query = self.params.layout().join(&bodies, &second_bodies, &ciphertext);
        Ok(Prepared { queries: vec![query], state: State { first, second, offset: Zeroizing::new(offset) } })
    }

    fn decode(&self, state: &State, answers: &[&[u8]]) -> Result<Vec<u8>, ProtocolError> {
        let (_, (_, phases)) = self.phases(state, answers)?;
        Ok(self.params.0.grid.record_of(&nearest_bytes(&phases), *state.offset))
    }

    fn errors(&self, state: &State, answers: &[&[u8]]) -> Result<Vec<f64>, ProtocolError> {
        let (packed, (rows, phases)) = self.phases(state, answers)?;
        let mut errors: Vec<f64> = rows.iter().chain(phases.iter()).copied().map(byte_error).collect();
        let ciphertexts = packed.chunks_exact(self.params.ring_shape().response_bytes());
        errors.extend(self.ring.errors_of(ciphertexts, u8::BITS)?);
        Ok(errors)
    }
}

impl Client {
    /// The packed ciphertexts, with the phases of the moving rows and those of the unit's bytes.
    fn phases<'a>(
        &self,
        state: &State,
        answers: &[&'a [u8]],
    ) -> Result<(&'a [u8], UnitPhases), ProtocolError> {
        let [answer] = check_answers(answers, self.params.sizes())?;
        let (shape, response) = (self.params.second(), self.params.ring_shape().response_bytes());
        let (packed, moving) = answer.split_at(self.params.blocks() * response);
        let fixed = self.ring.bytes_of(packed.chunks_exact(response))?;
        let phases = phases(&shape, &fixed[..shape.fixed_rows()], moving, &state.first, &state.second);
        Ok((packed, phases))
    }
}
