//! The client half.

use spirea_lattice::{LweEncryptor, LweSecret};
use spirea_math::random::SecretRng;
use spirea_math::secret::declassify;
use zeroize::Zeroizing;

use super::Params;
use crate::client::{IndexClient, Prepared};
use crate::grid::Grid;
use crate::parameters::Parameters;
use crate::steps::check::{check_answers, check_index};
use crate::steps::hint::ClientHint;
use crate::steps::scalar_fold::{ROUNDED_BYTES, byte_error, nearest_byte, unround};
use crate::{ProtocolError, Sizes};

/// The client half of SimplePIR.
pub struct Client {
    params: Params,
    encryptor: LweEncryptor,
    hint: ClientHint,
}

impl Client {
    /// Creates a client of the database with these parameters and this hint. The caller verifies
    /// the hint's hash.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] if the parameters are invalid or the hint has another size.
    pub fn new(params: Params, hint: &[u8]) -> Result<Self, ProtocolError> {
        params.validate()?;
        let hint =
            ClientHint::from_bytes(params.0.lwe_set(), params.0.hint_bits, params.0.grid.unit_rows, hint)?;
        Ok(Self { encryptor: params.0.encryptor(), params, hint })
    }
}

/// Secrets of a query, one for each of its columns, and the record's first row.
pub struct State {
    secrets: Vec<LweSecret>,
    first_row: Zeroizing<usize>,
}

impl IndexClient for Client {
    type State = State;

    fn records(&self) -> u64 {
        self.params.0.grid.records
    }

    fn sizes(&self) -> Sizes {
        self.params.sizes()
    }

    fn query(&self, index: u64, rng: &mut SecretRng) -> Result<Prepared<State>, ProtocolError> {
        check_index(index, self.records())?;
        let place = self.params.0.grid.place(Params::SPREAD, index);
        let columns = (0..self.params.record_columns()).map(|part| place.column + part);
        let (bodies, secrets): (Vec<_>, _) =
            columns.map(|column| self.encryptor.encrypt_unit(column, rng)).unzip();
        let query = self.params.query_layout().join(&bodies, &[], &[]);
        let state = State { secrets, first_row: Zeroizing::new(place.offset) };
        Ok(Prepared { queries: vec![query], state })
    }

    fn decode(&self, state: &State, answers: &[&[u8]]) -> Result<Vec<u8>, ProtocolError> {
        Ok(self.phases(state, answers)?.iter().copied().map(nearest_byte).collect())
    }

    fn errors(&self, state: &State, answers: &[&[u8]]) -> Result<Vec<f64>, ProtocolError> {
        Ok(self.phases(state, answers)?.iter().copied().map(byte_error).collect())
    }
}

impl Client {
    /// Computes the phases `2^24 m + e` of the record's bytes.
    ///
    /// Each byte needs a row of the hint, 2.7 KiB or more, so only the record's rows are read.
    /// Hiding these rows would mean reading a hundred megabytes for a record.
    fn phases(&self, state: &State, answers: &[&[u8]]) -> Result<Zeroizing<Vec<u32>>, ProtocolError> {
        let Grid { unit_rows: rows, record_bytes, .. } = self.params.0.grid;
        let [answer] = check_answers(answers, self.params.sizes())?;
        let first_row = declassify(*state.first_row, "`simple` reads the hint's rows of the record alone");
        let mut phases = Zeroizing::new(Vec::with_capacity(record_bytes));
        for (secret, column) in state.secrets.iter().zip(answer.chunks_exact(rows * ROUNDED_BYTES)) {
            let wanted = (record_bytes - phases.len()).min(rows - first_row);
            let entries = column.as_chunks::<ROUNDED_BYTES>().0.iter();
            let products = self.hint.products(first_row..first_row + wanted, secret);
            let sums = entries.skip(first_row).zip(products);
            phases.extend(sums.map(|(&entry, product)| unround(entry).wrapping_add(product)));
        }
        Ok(phases)
    }
}
