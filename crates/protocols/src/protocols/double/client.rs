//! The client half.

use spirea_math::random::SecretRng;
use zeroize::Zeroizing;

use super::Params;
use crate::client::{IndexClient, Prepared};
use crate::parameters::Parameters;
use crate::steps::LweHint;
use crate::steps::check::check_answers;
use crate::steps::reinterpret::{TwoFoldsClient, TwoFoldsState, phases};
use crate::steps::scalar_fold::{ROUNDED_BYTES, byte_error, nearest_byte, nearest_bytes, unround};
use crate::{ProtocolError, Sizes};

/// The client half of DoublePIR.
pub struct Client {
    params: Params,
    folds: TwoFoldsClient,
    /// The hint of the second fold's fixed rows.
    hint: LweHint,
}

impl Client {
    /// A client of the database with these parameters and this hint.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] if the parameters are invalid or the hint has another size.
    pub fn new(params: Params, hint: &[u8]) -> Result<Self, ProtocolError> {
        params.validate()?;
        let hint = LweHint::from_bytes(params.0.lwe_set(), params.second().fixed_rows(), hint)?;
        Ok(Self { folds: TwoFoldsClient::new(&params.0), hint, params })
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

    fn query(&self, index: u64, rng: &mut SecretRng) -> Result<Prepared<State>, ProtocolError> {
        let (bodies, state) = self.folds.query(index, rng)?;
        let query = self.params.layout().join(&bodies.first, &bodies.second, &[]);
        Ok(Prepared { queries: vec![query], state: State(state) })
    }

    fn decode(&self, State(state): &State, answers: &[&[u8]]) -> Result<Vec<u8>, ProtocolError> {
        let (fixed, moving) = self.split(answers)?;
        let fixed = Zeroizing::new(self.fixed_phases(state, fixed).map(nearest_byte).collect::<Vec<_>>());
        let (_, phases) = phases(&self.params.second(), &fixed, moving, state);
        Ok(self.params.0.grid.record_of(&nearest_bytes(&phases), *state.offset))
    }

    fn errors(&self, State(state): &State, answers: &[&[u8]]) -> Result<Vec<f64>, ProtocolError> {
        let (fixed, moving) = self.split(answers)?;
        let fixed: Vec<u32> = self.fixed_phases(state, fixed).collect();
        let bytes: Vec<u8> = fixed.iter().map(|&phase| nearest_byte(phase)).collect();
        let (rows, phases) = phases(&self.params.second(), &bytes, moving, state);
        Ok([&fixed[..], &rows, &phases].concat().into_iter().map(byte_error).collect())
    }
}

impl Client {
    /// The words of the fixed rows, and the moving rows' ciphertexts.
    fn split<'a>(&self, answers: &[&'a [u8]]) -> Result<(&'a [u8], &'a [u8]), ProtocolError> {
        let [answer] = check_answers(answers, self.params.sizes())?;
        Ok(answer.split_at(self.params.second().fixed_rows() * ROUNDED_BYTES))
    }

    fn fixed_phases(&self, state: &TwoFoldsState, fixed: &[u8]) -> impl ExactSizeIterator<Item = u32> {
        let rows = fixed.as_chunks::<ROUNDED_BYTES>().0.iter().enumerate();
        rows.map(|(row, &body)| unround(body).wrapping_add(state.second.inner_product(self.hint.row(row))))
    }
}
