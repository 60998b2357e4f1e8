//! The client half.

use spirea_dpf::{Domain, Key, Select};
use spirea_math::random::SecretRng;
use zeroize::Zeroizing;

use super::params::{Params, Shares};
use crate::client::{IndexClient, Prepared};
use crate::grid::Spread;
use crate::parameters::Parameters;
use crate::steps::check::{check_answers, check_index};
use crate::{ProtocolError, Sizes};

/// The client half of the protocols with two servers.
pub struct Client<S> {
    params: Params<S>,
}

impl<S: Shares> Client<S> {
    /// A client of the database with these parameters.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] if the parameters are invalid.
    pub fn new(params: Params<S>) -> Result<Self, ProtocolError> {
        params.validate()?;
        Ok(Self { params })
    }

    /// The keys that select row `row` of a domain, for party 0 and party 1.
    pub(super) fn keys(
        params: &Params<S>,
        domain: Domain,
        row: u64,
        rng: &mut SecretRng,
    ) -> Result<[Key; 2], ProtocolError> {
        let keys = params.prf.visit(Select { domain, point: row, rng });
        keys.map_err(|error| ProtocolError::BadRequest(error.to_string()))
    }

    /// The row that two answers add up to.
    pub(super) fn add(params: &Params<S>, answers: [&[u8]; 2]) -> Zeroizing<Vec<u8>> {
        let [zero, one] = answers;
        let mut row = Zeroizing::new(zero.to_vec());
        params.shares.output().add_to(&mut row, one);
        row
    }
}

/// Where the record begins in its row.
pub struct State {
    offset: Zeroizing<usize>,
}

impl<S: Shares> IndexClient for Client<S> {
    const PARTIES: usize = 2;

    type State = State;

    fn records(&self) -> u64 {
        self.params.grid.records
    }

    fn sizes(&self) -> Sizes {
        self.params.sizes()
    }

    fn query(&self, index: u64, rng: &mut SecretRng) -> Result<Prepared<State>, ProtocolError> {
        check_index(index, self.params.grid.records)?;
        let place = self.params.grid.place(Spread::Rows, index);
        let keys = Self::keys(&self.params, self.params.domain(), place.column as u64, rng)?;
        let queries = keys.iter().map(Key::to_bytes).collect();
        Ok(Prepared { queries, state: State { offset: Zeroizing::new(place.offset) } })
    }

    fn decode(&self, state: &State, answers: &[&[u8]]) -> Result<Vec<u8>, ProtocolError> {
        let answers = check_answers(answers, self.sizes())?;
        Ok(self.params.grid.record_of(&Self::add(&self.params, answers), *state.offset))
    }

    /// There is no noise.
    fn errors(&self, _: &State, answers: &[&[u8]]) -> Result<Vec<f64>, ProtocolError> {
        check_answers::<2>(answers, self.sizes()).map(|_| Vec::new())
    }
}
