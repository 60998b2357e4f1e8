//! Numbers that a client decodes in the field of 257 elements. They are bytes unless a server lies.

use spirea_lattice::lwe::BlindingFactor;
use spirea_math::secret::declassify;
use zeroize::Zeroizing;

use crate::ProtocolError;
use crate::grid::Grid;

/// Decoded numbers, 0 to 256 each.
#[derive(Default)]
pub(crate) struct Numbers {
    /// Low bytes of the numbers.
    bytes: Zeroizing<Vec<u8>>,
    /// 1 for a number 256, which no record contains, else 0.
    beyond: Zeroizing<Vec<u8>>,
}

impl Numbers {
    /// Creates an empty list with room for `count` numbers: a growing vector would leave copies
    /// behind.
    pub fn with_capacity(count: usize) -> Self {
        let room = || Zeroizing::new(Vec::with_capacity(count));
        Self { bytes: room(), beyond: room() }
    }

    /// Appends the numbers decoded from phases, fractions of 2^64, whose query was blinded by
    /// `factor`.
    pub fn push(&mut self, factor: &BlindingFactor, phases: impl Iterator<Item = u64>) {
        for number in phases.map(|phase| factor.unblind(phase)) {
            self.bytes.push(number as u8);
            self.beyond.push((number >> 8) as u8);
        }
    }

    /// Drops all numbers after the first `count`.
    pub fn truncate(&mut self, count: usize) {
        self.bytes.truncate(count);
        self.beyond.truncate(count);
    }

    /// Returns the numbers as bytes, with 256 as 0, so that decoding continues as if nothing was
    /// wrong.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the record at `offset` of decoded units. Checks that all numbers of the record and
    /// of `others` are bytes; the units were decoded from `others`.
    ///
    /// # Errors
    /// [`ProtocolError::Corrupted`] otherwise, without naming the wrong number.
    pub fn record(&self, grid: &Grid, offset: usize, others: &[Self]) -> Result<Vec<u8>, ProtocolError> {
        let mut record = Zeroizing::new(grid.record_of(&self.bytes, offset));
        let beyond = Zeroizing::new(grid.record_of(&self.beyond, offset));
        let all = others.iter().flat_map(|others| others.beyond.iter()).chain(beyond.iter());
        let any = all.fold(0, |any, &beyond| any | beyond);
        match declassify(any == 0, "an answer with a number that is not a byte is reported") {
            true => Ok(std::mem::take(&mut *record)),
            false => Err(ProtocolError::Corrupted),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spirea_math::random::SecretRng;

    /// Returns a phase that decodes to 256 under this factor. Exactly one of the 257 elements has
    /// such a phase.
    fn beyond(factor: &BlindingFactor) -> u64 {
        let mut phases = (0..257u64).map(|x| (u128::from(x) * (1 << 64) / 257) as u64);
        phases.find(|&phase| factor.unblind(phase) == 256).unwrap()
    }

    #[test]
    fn a_number_that_is_no_byte_is_refused_in_the_record_and_before_it_alone() {
        let grid = Grid { records: 4, record_bytes: 2, unit_rows: 4, groups: 1, columns: 2 };
        let factor = BlindingFactor::sample(&mut SecretRng::deterministic_for_tests(1));
        for wrong in 0..4 {
            let mut numbers = Numbers::with_capacity(4);
            numbers.push(&factor, (0..4).map(|i| if i == wrong { beyond(&factor) } else { 0 }));
            for offset in [0, 2] {
                let record = numbers.record(&grid, offset, &[]);
                match offset == wrong / 2 * 2 {
                    true => assert!(matches!(record, Err(ProtocolError::Corrupted))),
                    false => assert_eq!(record.unwrap(), [0, 0]),
                }
            }
            let mut right = Numbers::with_capacity(4);
            right.push(&factor, [0; 4].into_iter());
            assert!(matches!(right.record(&grid, 0, &[numbers]), Err(ProtocolError::Corrupted)));
            assert_eq!(right.record(&grid, 0, &[]).unwrap(), [0, 0]);
        }
    }
}
