//! The client half.

use spirea_math::random::SecretRng;

use super::Params;
use crate::client::{IndexClient, Prepared};
use crate::keys::ClientKeys;
use crate::parameters::Parameters;
use crate::steps::check::check_answers;
use crate::steps::reinterpret::{TwoFoldsClient, TwoFoldsState, UnitPhases, phases};
use crate::steps::ring::RingClient;
use crate::steps::scalar_fold::{byte_error, nearest_bytes};
use crate::{ProtocolError, Sizes};

/// The client half of ExpPack (D).
pub struct Client {
    params: Params,
    folds: TwoFoldsClient,
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
        let ring = RingClient::new(params.ring_shape().boxed(), known, rng);
        Ok(Self { folds: TwoFoldsClient::new(&params.0), ring, params })
    }
}

/// What a query leaves.
pub struct State(TwoFoldsState);

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
        let (bodies, state) = self.folds.query(index, rng)?;
        let ciphertext = self.ring.query_of_secret(&state.second, 0, rng);
        let query = self.params.layout().join(&bodies.first, &bodies.second, &ciphertext);
        Ok(Prepared { queries: vec![query], state: State(state) })
    }

    fn decode(&self, State(state): &State, answers: &[&[u8]]) -> Result<Vec<u8>, ProtocolError> {
        let (_, (_, phases)) = self.phases(state, answers)?;
        Ok(self.params.0.grid.record_of(&nearest_bytes(&phases), *state.offset))
    }

    fn errors(&self, State(state): &State, answers: &[&[u8]]) -> Result<Vec<f64>, ProtocolError> {
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
        state: &TwoFoldsState,
        answers: &[&'a [u8]],
    ) -> Result<(&'a [u8], UnitPhases), ProtocolError> {
        let [answer] = check_answers(answers, self.params.sizes())?;
        let (shape, response) = (self.params.second(), self.params.ring_shape().response_bytes());
        let (packed, moving) = answer.split_at(self.params.blocks() * response);
        let fixed = self.ring.bytes_of(packed.chunks_exact(response))?;
        let phases = phases(&shape, &fixed[..shape.fixed_rows()], moving, state);
        Ok((packed, phases))
    }
}
