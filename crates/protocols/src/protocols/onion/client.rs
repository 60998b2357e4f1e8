//! The client half.

use spirea_math::random::SecretRng;
use zeroize::Zeroizing;

use super::Params;
use super::pad::Pad;
use crate::client::{IndexClient, Prepared};
use crate::grid::{RecordPlace, Spread};
use crate::keys::ClientKeys;
use crate::parameters::Parameters;
use crate::steps::check::{check_answers, check_index};
use crate::steps::ring::{RingClient, Shape};
use crate::{ProtocolError, Sizes};

/// The client half of OnionPIRv2.
pub struct Client {
    params: Params,
    pad: Pad,
    ring: RingClient,
}

impl Client {
    /// Creates a client of the database with these parameters. It reuses keys among `known` that
    /// fit, or else makes its own.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] if the parameters are invalid.
    pub fn new(params: Params, known: &[ClientKeys], rng: &mut SecretRng) -> Result<Self, ProtocolError> {
        params.validate()?;
        Ok(Self {
            ring: RingClient::new(Box::new(params.ring_shape()), known, rng),
            pad: params.pad(),
            params,
        })
    }
}

/// Position of the record.
pub struct State {
    /// Number of the unit of its first part.
    unit: Zeroizing<usize>,
    /// Its first byte in its unit.
    offset: Zeroizing<usize>,
}

impl IndexClient for Client {
    type State = State;

    fn records(&self) -> u64 {
        self.params.grid.records
    }

    fn sizes(&self) -> Sizes {
        self.params.sizes()
    }

    fn keys(&self) -> Option<&ClientKeys> {
        Some(self.ring.keys())
    }

    fn query(&self, index: u64, rng: &mut SecretRng) -> Result<Prepared<State>, ProtocolError> {
        let grid = self.params.grid;
        check_index(index, grid.records)?;
        let RecordPlace { column, group, offset } = grid.place(Spread::Rows, index);
        // Every column is compared, so that neither time nor memory accesses reveal the wanted
        // column.
        let one_hot = (0..grid.columns).map(|i| (((i ^ column) as u64).wrapping_sub(1) >> 63) as i8);
        let one_hot: Zeroizing<Vec<i8>> = Zeroizing::new(one_hot.collect());
        let unit = Zeroizing::new(group * grid.columns + column);
        let query = self.ring.query(&one_hot, group, rng);
        Ok(Prepared { queries: vec![query], state: State { unit, offset: Zeroizing::new(offset) } })
    }

    fn decode(&self, state: &State, answers: &[&[u8]]) -> Result<Vec<u8>, ProtocolError> {
        let [answer] = check_answers(answers, self.sizes())?;
        let (shape, grid) = (self.params.ring_shape(), self.params.grid);
        let bits = shape.set.plaintext_bits();
        let mut units = Zeroizing::new(Vec::with_capacity(grid.parts() * grid.unit_rows));
        for (part, ciphertext) in answer.chunks_exact(shape.response_bytes()).enumerate() {
            let phases = self.ring.phases(ciphertext)?;
            let coefficients = phases.iter().map(|phase| phase.wrapping_add(1 << (63 - bits)) >> (64 - bits));
            let padding = self.pad.of_unit(*state.unit + part * grid.groups * grid.columns, shape.degree());
            let numbers = coefficients.zip(padding).map(|(c, pad)| c.wrapping_sub(pad) & self.pad.mask());
            join_bits(numbers, bits, &mut units);
        }
        Ok(grid.record_of(&units, *state.offset))
    }

    fn errors(&self, _: &State, answers: &[&[u8]]) -> Result<Vec<f64>, ProtocolError> {
        let [answer] = check_answers(answers, self.sizes())?;
        let shape = self.params.ring_shape();
        self.ring.errors_of(answer.chunks_exact(shape.response_bytes()), shape.set.plaintext_bits())
    }
}

/// Appends the bytes of numbers of `bits` bits each, lowest bit first, without gaps.
fn join_bits(numbers: impl Iterator<Item = u64>, bits: u32, bytes: &mut Vec<u8>) {
    let (mut pending, mut count) = (0u64, 0);
    for number in numbers {
        // Fewer than 8 bits are pending, and a number has at most 32.
        pending |= number << count;
        count += bits;
        while count >= 8 {
            bytes.push(pending as u8);
            (pending, count) = (pending >> 8, count - 8);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::server::split_bits;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bits_split_and_join(bytes in proptest::collection::vec(any::<u8>(), 120), bits in prop::sample::select(vec![30u32, 32])) {
            let numbers = split_bits(&bytes, bits).take(120 * 8 / bits as usize);
            let mut joined = Vec::new();
            join_bits(numbers, bits, &mut joined);
            prop_assert_eq!(joined, bytes);
        }
    }
}
