//! The client half.

use spirea_lattice::lwe::{DEGREE, SCALE_BITS};
use spirea_lattice::{LweEncryptor, LweSecret};
use spirea_math::random::SecretRng;

use super::Params;
use crate::bytes::{extend_words, words_to_bytes};
use crate::grid::Spread;
use crate::parameters::Parameters;
use crate::{IndexClient, ProtocolError, Sizes};

/// The hint in memory: one row of 1280 words for each row of the matrix.
pub struct Hint(Vec<u32>);

impl Hint {
    /// The hint of these bytes. That they are the right ones is the transport's to check, by their hash.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] if their number is not what the parameters say.
    pub fn from_bytes(params: &Params, bytes: &[u8]) -> Result<Self, ProtocolError> {
        let expected = params.sizes().hint_bytes;
        if bytes.len() as u64 != expected {
            let detail = format!("it has {} bytes where the parameters say {expected}", bytes.len());
            return Err(ProtocolError::malformed("hint", detail));
        }
        let mut words = Vec::with_capacity(bytes.len() / 4);
        extend_words(&mut words, bytes);
        Ok(Self(words))
    }

    fn row(&self, row: usize) -> &[u32] {
        &self.0[row * DEGREE..][..DEGREE]
    }
}

/// The client half of SimplePIR.
pub struct Client {
    params: Params,
    encryptor: LweEncryptor,
    hint: Hint,
}

impl Client {
    /// A client of the database with these parameters and this hint.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] if the parameters are invalid or the hint has another size.
    pub fn new(params: Params, hint: Hint) -> Result<Self, ProtocolError> {
        params.validate()?;
        if hint.0.len() as u64 * 4 != params.sizes().hint_bytes {
            return Err(ProtocolError::malformed("hint", "it belongs to other parameters"));
        }
        Ok(Self { encryptor: LweEncryptor::new(params.public_matrix()), params, hint })
    }
}

/// The secrets of a query, one for each of its columns, and the record's first row.
pub struct State {
    secrets: Vec<LweSecret>,
    first_row: usize,
}

impl IndexClient for Client {
    type State = State;

    fn records(&self) -> u64 {
        self.params.records
    }

    fn sizes(&self) -> Sizes {
        self.params.sizes()
    }

    fn query(&self, index: u64, rng: &mut SecretRng) -> Result<(Vec<u8>, State), ProtocolError> {
        if index >= self.params.records {
            let last = self.params.records - 1;
            return Err(ProtocolError::BadRequest(format!(
                "no such record: the table has records 0 to {last}"
            )));
        }
        let place = self.params.grid().place(Spread::Columns, index);
        let mut query = Vec::with_capacity(self.sizes().query_bytes);
        let mut secrets = Vec::with_capacity(self.params.record_columns());
        for column in place.column..place.column + self.params.record_columns() {
            let (bodies, secret) = self.encryptor.encrypt_unit(column, rng);
            query.extend_from_slice(&words_to_bytes(&bodies));
            secrets.push(secret);
        }
        Ok((query, State { secrets, first_row: place.offset }))
    }

    fn decode(&self, state: State, answer: &[u8]) -> Result<Vec<u8>, ProtocolError> {
        let phases = self.phases(&state, answer)?;
        Ok(phases
            .iter()
            .map(|phase| (phase.wrapping_add(1 << (SCALE_BITS - 1)) >> SCALE_BITS) as u8)
            .collect())
    }
}

impl Client {
    /// The phases `2^24 m + e` of the record's bytes.
    fn phases(&self, state: &State, answer: &[u8]) -> Result<Vec<u32>, ProtocolError> {
        let Params { rows, record_bytes, .. } = self.params;
        let expected = self.params.sizes().answer_bytes;
        if answer.len() != expected {
            let detail = format!("it has {} bytes where the parameters say {expected}", answer.len());
            return Err(ProtocolError::malformed("answer", detail));
        }
        let mut phases = Vec::with_capacity(record_bytes);
        let bytes_per_entry = Params::ANSWER_BITS as usize / 8;
        for (secret, column) in state.secrets.iter().zip(answer.chunks_exact(rows * bytes_per_entry)) {
            let wanted = (record_bytes - phases.len()).min(rows - state.first_row);
            let entries = column.chunks_exact(bytes_per_entry).enumerate().skip(state.first_row).take(wanted);
            phases.extend(entries.map(|(row, entry)| {
                let body = u32::from(u16::from_le_bytes([entry[0], entry[1]])) << (32 - Params::ANSWER_BITS);
                body.wrapping_add(secret.inner_product(self.hint.row(row)))
            }));
        }
        Ok(phases)
    }

    /// The errors `e` of an answer, to measure noise: each phase's distance from the byte that it decodes to.
    /// They are the true ones where the record decodes rightly.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] if the answer is not what the parameters say.
    pub fn errors(&self, state: &State, answer: &[u8]) -> Result<Vec<i32>, ProtocolError> {
        let distance = |phase: u32| phase.wrapping_sub(u32::from(nearest_byte(phase)) << SCALE_BITS) as i32;
        Ok(self.phases(state, answer)?.into_iter().map(distance).collect())
    }
}

/// The byte whose encryption has this phase.
fn nearest_byte(phase: u32) -> u8 {
    (phase.wrapping_add(1 << (SCALE_BITS - 1)) >> SCALE_BITS) as u8
}
