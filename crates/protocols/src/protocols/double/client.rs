//! The client half.

use spirea_lattice::lwe::field_error;
use spirea_math::random::SecretRng;

use super::Params;
use crate::client::{IndexClient, Prepared};
use crate::parameters::Parameters;
use crate::steps::check::check_answers;
use crate::steps::hint::ClientHint;
use crate::steps::numbers::Numbers;
use crate::steps::reinterpret::{DecodedUnit, TwoFoldsClient, TwoFoldsState};
use crate::steps::scalar_fold::{ROUNDED_BYTES, fraction, unround};
use crate::{ProtocolError, Sizes};

/// The client half of DoublePIR.
pub struct Client {
    params: Params,
    folds: TwoFoldsClient,
    /// The hint of the second fold's fixed rows.
    hint: ClientHint,
}

impl Client {
    /// Creates a client of the database with these parameters and this hint.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] if the parameters are invalid or the hint has another size.
    pub fn new(params: Params, hint: &[u8]) -> Result<Self, ProtocolError> {
        params.validate()?;
        let (set, rows) = (params.0.lwe_set(), params.second().fixed_rows());
        let hint = ClientHint::from_bytes(set, params.0.hint_bits, rows, hint)?;
        Ok(Self { folds: TwoFoldsClient::new(&params.0), hint, params })
    }
}

/// Client's state of a query.
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
        let mut numbers = Numbers::with_capacity(self.params.second().fixed_rows());
        numbers.push(&state.second.1, self.fixed_phases(state, fixed));
        DecodedUnit::new(&self.params.second(), numbers, moving, state).record(&self.params.0.grid, state)
    }

    fn errors(&self, State(state): &State, answers: &[&[u8]]) -> Result<Vec<f64>, ProtocolError> {
        let (fixed, moving) = self.split(answers)?;
        let mut errors: Vec<f64> = self.fixed_phases(state, fixed).map(field_error).collect();
        let mut numbers = Numbers::with_capacity(self.params.second().fixed_rows());
        numbers.push(&state.second.1, self.fixed_phases(state, fixed));
        errors.extend(DecodedUnit::new(&self.params.second(), numbers, moving, state).errors);
        Ok(errors)
    }
}

impl Client {
    /// Splits the answer into the words of the fixed rows and the moving rows' ciphertexts.
    fn split<'a>(&self, answers: &[&'a [u8]]) -> Result<(&'a [u8], &'a [u8]), ProtocolError> {
        let [answer] = check_answers(answers, self.params.sizes())?;
        Ok(answer.split_at(self.params.second().fixed_rows() * ROUNDED_BYTES))
    }

    fn fixed_phases<'a>(
        &'a self,
        state: &'a TwoFoldsState,
        fixed: &'a [u8],
    ) -> impl Iterator<Item = u64> + 'a {
        let products = self.hint.products(0..self.params.second().fixed_rows(), &state.second.0);
        let rows = fixed.as_chunks::<ROUNDED_BYTES>().0.iter().zip(products);
        rows.map(|(&body, product)| fraction(unround(body).wrapping_add(product)))
    }
}
