//! The client half.

use spirea_dpf::select;
use spirea_math::random::SecretRng;
use zeroize::Zeroizing;

use super::params::{Params, Shares};
use crate::bins::Bins;
use crate::client::{IndexClient, Prepared};
use crate::grid::Spread;
use crate::parameters::Parameters;
use crate::steps::check::check_answers;
use crate::{ProtocolError, Sizes};

/// The client half of the two-server protocols.
pub struct Client<S> {
    params: Params<S>,
}

impl<S: Shares> Client<S> {
    /// Creates a client of the database with these parameters.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] if the parameters are invalid.
    pub fn new(params: Params<S>) -> Result<Self, ProtocolError> {
        params.validate()?;
        Ok(Self { params })
    }

    /// Appends the keys that select row `row` of a bin, for party 0 and party 1, to their queries.
    fn append_keys(
        &self,
        row: u64,
        queries: &mut [Vec<u8>],
        rng: &mut SecretRng,
    ) -> Result<(), ProtocolError> {
        let domain = self.params.domain();
        let keys = select(self.params.prf, domain, row, rng);
        let keys = keys.map_err(|error| ProtocolError::BadRequest(error.to_string()))?;
        queries.iter_mut().zip(&keys).for_each(|(query, key)| query.extend(key.to_bytes()));
        Ok(())
    }
}

/// Positions of the wanted records.
pub struct State {
    /// Offset of each bin's record in its row.
    offsets: Zeroizing<Vec<usize>>,
    /// Bin of the wanted record, if only one is wanted.
    bin: Zeroizing<u64>,
}

impl<S: Shares> IndexClient for Client<S> {
    const PARTIES: usize = 2;

    type State = State;

    fn records(&self) -> u64 {
        self.params.grid.records
    }

    fn bins(&self) -> Bins {
        self.params.record_bins()
    }

    fn sizes(&self) -> Sizes {
        self.params.sizes()
    }

    fn query(&self, index: u64, rng: &mut SecretRng) -> Result<Prepared<State>, ProtocolError> {
        let chosen = self.bins().choose(&[index], rng)?;
        let Prepared { queries, state } = self.query_bins(&chosen.records, rng)?;
        let bin = Zeroizing::new(self.bins().bin_of(index));
        Ok(Prepared { queries, state: State { bin, ..state } })
    }

    /// Keeps the record of the wanted bin; all others are dummies.
    fn decode(&self, state: &State, answers: &[&[u8]]) -> Result<Vec<u8>, ProtocolError> {
        let records = self.decode_bins(state, answers)?;
        Ok(Bins::pick(&records, self.params.grid.record_bytes, *state.bin))
    }

    fn query_bins(&self, records: &[u64], rng: &mut SecretRng) -> Result<Prepared<State>, ProtocolError> {
        self.bins().check(records)?;
        let mut queries: Vec<_> =
            (0..Self::PARTIES).map(|_| Vec::with_capacity(self.sizes().query_bytes)).collect();
        let mut offsets = Zeroizing::new(Vec::with_capacity(records.len()));
        for (&index, first_row) in records.iter().zip((0..).step_by(self.params.bin_rows())) {
            let place = self.params.grid.place(Spread::Rows, index);
            self.append_keys(place.column as u64 - first_row, &mut queries, rng)?;
            offsets.push(place.offset);
        }
        // Bins without records get keys too, for their first row.
        for _ in records.len()..self.params.bins {
            self.append_keys(0, &mut queries, rng)?;
        }
        Ok(Prepared { queries, state: State { offsets, bin: Zeroizing::new(0) } })
    }

    fn decode_bins(&self, state: &State, answers: &[&[u8]]) -> Result<Zeroizing<Vec<u8>>, ProtocolError> {
        let [zero, one] = check_answers(answers, self.sizes())?;
        let mut rows = Zeroizing::new(zero.to_vec());
        self.params.shares.output().add_to(&mut rows, one);
        let rows = rows.chunks_exact(self.params.layout().answer_bytes());
        let mut records =
            Zeroizing::new(Vec::with_capacity(state.offsets.len() * self.params.grid.record_bytes));
        for (row, &offset) in rows.zip(state.offsets.iter()) {
            records.extend_from_slice(&Zeroizing::new(self.params.grid.record_of(row, offset)));
        }
        Ok(records)
    }

    /// Returns no errors: the protocol has no noise.
    fn errors(&self, _: &State, answers: &[&[u8]]) -> Result<Vec<f64>, ProtocolError> {
        check_answers::<2>(answers, self.sizes()).map(|_| Vec::new())
    }
}
