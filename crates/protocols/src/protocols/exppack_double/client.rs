//! The client half.

use spirea_math::random::SecretRng;

use super::Params;
use crate::client::{IndexClient, Prepared};
use crate::keys::ClientKeys;
use crate::packing::client::{PackClient, Reader};
use crate::parameters::Parameters;
use crate::protocol::Holdings;
use crate::steps::check::check_answers;
use crate::steps::numbers::Numbers;
use crate::steps::reinterpret::{DecodedUnit, TwoFoldsClient, TwoFoldsState};
use crate::{ProtocolError, Sizes};

/// The client half of ExpPack (D).
pub struct Client {
    params: Params,
    folds: TwoFoldsClient,
    ring: Box<dyn PackClient>,
}

impl Client {
    /// Creates a client of the database with these parameters. If it registers keys, it reuses
    /// known keys that fit, or else makes its own.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] if the parameters are invalid.
    pub fn new(params: Params, known: Holdings<'_>, rng: &mut SecretRng) -> Result<Self, ProtocolError> {
        params.validate()?;
        let ring = params.ring_shape().client(&params.0.seed, known, rng);
        Ok(Self { folds: TwoFoldsClient::new(&params.0), ring, params })
    }
}

/// Client's state of a query.
pub struct State {
    folds: TwoFoldsState,
    reader: Reader,
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
        self.ring.registered()
    }

    fn query(&self, index: u64, rng: &mut SecretRng) -> Result<Prepared<State>, ProtocolError> {
        let (bodies, folds) = self.folds.query(index, rng)?;
        let (ciphertext, reader) = self.ring.query_of_secret(&folds.second.0, 0, rng);
        let query = self.params.layout().join(&bodies.first, &bodies.second, &ciphertext);
        Ok(Prepared { queries: vec![query], state: State { folds, reader } })
    }

    fn decode(&self, state: &State, answers: &[&[u8]]) -> Result<Vec<u8>, ProtocolError> {
        let (_, unit) = self.unit(state, answers)?;
        unit.record(&self.params.0.grid, &state.folds)
    }

    fn errors(&self, state: &State, answers: &[&[u8]]) -> Result<Vec<f64>, ProtocolError> {
        let (packed, unit) = self.unit(state, answers)?;
        Ok([unit.errors, self.ring.field_errors(&state.reader, packed)?].concat())
    }
}

impl Client {
    /// Decodes a unit from the answer. Returns it with the packed ciphertexts, for their errors.
    fn unit<'a>(
        &self,
        state: &State,
        answers: &[&'a [u8]],
    ) -> Result<(&'a [u8], DecodedUnit), ProtocolError> {
        let [answer] = check_answers(answers, self.params.sizes())?;
        let (shape, ring) = (self.params.second(), self.params.ring_shape());
        let (packed, moving) = answer.split_at(self.params.blocks() * ring.response_bytes());
        let mut fixed = Numbers::with_capacity(self.params.blocks() * ring.degree());
        self.ring.read(&state.reader, &state.folds.second.1, packed, &mut fixed)?;
        fixed.truncate(shape.fixed_rows());
        Ok((packed, DecodedUnit::new(&shape, fixed, moving, &state.folds)))
    }
}
