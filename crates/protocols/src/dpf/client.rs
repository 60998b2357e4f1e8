//! The client half.

use spirea_dpf::{Domain, Key, Output, OutputKind, Select};
use spirea_math::random::SecretRng;

use super::params::{Params, Shares};
use crate::grid::Spread;
use crate::index::PairIndexClient;
use crate::parameters::Parameters;
use crate::steps::check::{check_answer, check_index};
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
    pub(super) fn add(params: &Params<S>, answers: [&[u8]; 2]) -> Vec<u8> {
        match params.shares.output() {
            OutputKind::Bit => add_words(answers, |[a]: [u8; 1], [b]| [a ^ b]),
            OutputKind::U32 => {
                add_words(answers, |a, b| u32::from_le_bytes(a).add(u32::from_le_bytes(b)).to_le_bytes())
            }
            OutputKind::U64 => {
                add_words(answers, |a, b| u64::from_le_bytes(a).add(u64::from_le_bytes(b)).to_le_bytes())
            }
            OutputKind::U128 => {
                add_words(answers, |a, b| u128::from_le_bytes(a).add(u128::from_le_bytes(b)).to_le_bytes())
            }
        }
    }
}

fn add_words<const W: usize>([zero, one]: [&[u8]; 2], add: impl Fn([u8; W], [u8; W]) -> [u8; W]) -> Vec<u8> {
    let words = zero.as_chunks::<W>().0.iter().zip(one.as_chunks::<W>().0);
    words.flat_map(|(&a, &b)| add(a, b)).collect()
}

/// Where the record begins in its row.
pub struct State {
    offset: usize,
}

impl<S: Shares> PairIndexClient for Client<S> {
    type State = State;

    fn records(&self) -> u64 {
        self.params.grid.records
    }

    fn sizes(&self) -> Sizes {
        self.params.sizes()
    }

    fn query(&self, index: u64, rng: &mut SecretRng) -> Result<([Vec<u8>; 2], State), ProtocolError> {
        check_index(index, self.params.grid.records)?;
        let place = self.params.grid.place(Spread::Rows, index);
        let keys = Self::keys(&self.params, self.params.domain(), place.column as u64, rng)?;
        Ok((keys.map(|key| key.to_bytes()), State { offset: place.offset }))
    }

    fn combine(&self, state: State, answers: [&[u8]; 2]) -> Result<Vec<u8>, ProtocolError> {
        for answer in answers {
            check_answer(answer, self.sizes())?;
        }
        let mut record = Self::add(&self.params, answers);
        record.drain(..state.offset);
        record.truncate(self.params.grid.record_bytes);
        Ok(record)
    }
}
