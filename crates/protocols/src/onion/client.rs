//! The client half.

use spirea_math::random::SecretRng;

use super::Params;
use super::pad::Pad;
use crate::grid::{Place, Spread};
use crate::parameters::Parameters;
use crate::steps::RingKeys;
use crate::steps::check::{check_answer, check_index};
use crate::steps::ring::RingClient;
use crate::{IndexClient, ProtocolError, Sizes};

/// The client half of OnionPIRv2.
pub struct Client {
    params: Params,
    pad: Pad,
    ring: RingClient,
}

impl Client {
    /// A client of the database with these parameters, with keys among `known` that fit, or else with
    /// keys of its own.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] if the parameters are invalid.
    pub fn new(params: Params, known: &[RingKeys], rng: &mut SecretRng) -> Result<Self, ProtocolError> {
        params.validate()?;
        Ok(Self { ring: RingClient::new(params.ring_shape(), known, rng), pad: params.pad(), params })
    }
}

/// Where the record lies.
pub struct State {
    /// Number of the unit of its first part.
    unit: usize,
    /// Its first byte in its unit.
    offset: usize,
}

impl IndexClient for Client {
    type State = State;

    fn records(&self) -> u64 {
        self.params.grid.records
    }

    fn sizes(&self) -> Sizes {
        self.params.sizes()
    }

    fn evaluation_keys(&self) -> Option<&[u8]> {
        Some(self.ring.keys())
    }

    fn ring_keys(&self) -> Option<&RingKeys> {
        Some(self.ring.ring_keys())
    }

    fn query(&self, index: u64, rng: &mut SecretRng) -> Result<(Vec<u8>, State), ProtocolError> {
        let grid = self.params.grid;
        check_index(index, grid.records)?;
        let Place { column, group, offset } = grid.place(Spread::Rows, index);
        // Every column computes the comparison, so that time and memory do not tell the one.
        let one_hot = (0..grid.columns).map(|i| (((i ^ column) as u64).wrapping_sub(1) >> 63) as i8);
        let state = State { unit: group * grid.columns + column, offset };
        Ok((self.ring.query(one_hot, group, rng), state))
    }

    fn decode(&self, State { unit, offset }: State, answer: &[u8]) -> Result<Vec<u8>, ProtocolError> {
        check_answer(answer, self.sizes())?;
        let (shape, grid) = (self.params.ring_shape(), self.params.grid);
        let bits = shape.set.plaintext_bits();
        let mut record = Vec::with_capacity(grid.record_bytes);
        let units = (unit..).step_by(grid.groups * grid.columns);
        for (ciphertext, unit) in answer.chunks_exact(shape.response_bytes()).zip(units) {
            let phases = self.ring.phases(ciphertext)?;
            let coefficients = phases.iter().map(|phase| phase.wrapping_add(1 << (63 - bits)) >> (64 - bits));
            let padding = self.pad.of_unit(unit, shape.degree());
            let numbers = coefficients.zip(padding).map(|(c, pad)| c.wrapping_sub(pad) & self.pad.mask());
            let bytes = join_bits(numbers, bits);
            let wanted = (grid.record_bytes - record.len()).min(bytes.len() - offset);
            record.extend_from_slice(&bytes[offset..offset + wanted]);
        }
        Ok(record)
    }

    fn errors(&self, _: &State, answer: &[u8]) -> Result<Vec<f64>, ProtocolError> {
        check_answer(answer, self.sizes())?;
        let ciphertexts = answer.chunks_exact(self.params.ring_shape().response_bytes());
        let errors = ciphertexts
            .map(|ciphertext| self.ring.errors(ciphertext, self.params.ring_set().plaintext_bits()));
        Ok(errors.collect::<Result<Vec<_>, _>>()?.concat())
    }
}

/// The bytes of numbers of `bits` bits each, lowest bit first, without gaps.
fn join_bits(numbers: impl Iterator<Item = u64>, bits: u32) -> Vec<u8> {
    let (mut bytes, mut pending, mut count) = (Vec::new(), 0u64, 0);
    for number in numbers {
        // Fewer than 8 bits are pending, and a number has at most 32.
        pending |= number << count;
        count += bits;
        while count >= 8 {
            bytes.push(pending as u8);
            (pending, count) = (pending >> 8, count - 8);
        }
    }
    bytes
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
            prop_assert_eq!(join_bits(numbers, bits), bytes);
        }
    }
}
