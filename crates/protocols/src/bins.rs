//! Bins: the records that one query can bring beside each other.
//!
//! (Partial batch retrieval, GPU-DPF section IV-A.) A protocol may divide its records into bins of consecutive ones; a query
//! then selects a record of each bin, for the work of one. Bins of which nothing is wanted bring a random record, a dummy,
//! which nobody but the client can tell from others. Of two wanted records in one bin, a query brings the first; the other
//! is dropped, and the client is told.

use std::ops::Range;

use spirea_math::Divisor;
use spirea_math::random::SecretRng;
use spirea_math::secret::declassify;
use zeroize::Zeroizing;

use crate::ProtocolError;
use crate::oblivious::{above, equal, select};
use crate::steps::check::check_index;

/// The bins of a database's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bins {
    records: u64,
    bin_records: u64,
}

/// A record for each bin.
pub struct Chosen {
    /// The record of each bin, in their order: a wanted one, or a dummy.
    pub records: Zeroizing<Vec<u64>>,
    /// Of each wanted record, in the order of the list, whether it is among these.
    pub brought: Vec<bool>,
}

impl Bins {
    /// Bins of `bin_records` records each; the last may have fewer.
    ///
    /// # Panics
    /// If either number is 0.
    pub fn new(records: u64, bin_records: u64) -> Self {
        assert!(records > 0 && bin_records > 0, "a bin has records");
        Self { records, bin_records }
    }

    /// All records in one bin.
    pub fn one(records: u64) -> Self {
        Self::new(records, records)
    }

    /// How many bins have records.
    pub fn count(&self) -> u64 {
        self.records.div_ceil(self.bin_records)
    }

    /// Records of a bin; the last may have fewer.
    pub fn bin_records(&self) -> u64 {
        self.bin_records
    }

    /// The records of a bin.
    pub fn range(&self, bin: u64) -> Range<u64> {
        bin * self.bin_records..((bin + 1) * self.bin_records).min(self.records)
    }

    /// The bin of a record, which is a client's secret: by it, nothing is divided.
    pub(crate) fn bin_of(&self, index: u64) -> u64 {
        Divisor::new(self.bin_records).divide(index).0
    }

    /// A record of each bin: of the wanted ones the first that lies there, in the order of the list, or a random one. A
    /// record that is wanted twice is brought to both.
    ///
    /// Every bin looks at every wanted record, and draws a dummy that it may not need: nothing branches on what is wanted,
    /// nor reads memory by it. What shows is how many records are wanted, and which of them are brought.
    ///
    /// # Errors
    /// [`ProtocolError::BadRequest`] if there is no such record.
    pub fn choose(&self, wanted: &[u64], rng: &mut SecretRng) -> Result<Chosen, ProtocolError> {
        wanted.iter().try_for_each(|&index| check_index(index, self.records))?;
        // The only bin has the first record that is wanted, and needs no dummy.
        let has_dummies = self.count() > 1 || wanted.is_empty();
        let mut brought = Zeroizing::new(vec![0; wanted.len()]);
        let mut records = Zeroizing::new(Vec::with_capacity(self.count() as usize));
        for bin in 0..self.count() {
            let Range { start, end } = self.range(bin);
            let mut record = if has_dummies { start + below(end - start, rng) } else { start };
            let mut taken = 0;
            for (&index, brought) in wanted.iter().zip(brought.iter_mut()) {
                let inside = !above(start, index) & above(end, index);
                record = select(inside & !taken, index, record);
                taken |= inside;
                *brought |= inside & equal(index, record);
            }
            records.push(record);
        }
        let told = |&brought: &u64| declassify(brought, "the application is told what is dropped") != 0;
        Ok(Chosen { records, brought: brought.iter().map(told).collect() })
    }

    /// Refuses what is not a record of each bin.
    ///
    /// # Errors
    /// [`ProtocolError::BadRequest`].
    pub(crate) fn check(&self, records: &[u64]) -> Result<(), ProtocolError> {
        let refused = |detail: String| Err(ProtocolError::BadRequest(detail));
        if records.len() as u64 != self.count() {
            return refused(format!("{} records for {} bins", records.len(), self.count()));
        }
        let outside = (0..).zip(records).fold(0, |outside, (bin, &record)| {
            let Range { start, end } = self.range(bin);
            // Above 2^63 nothing is compared.
            outside | (record >> 63) | above(start, record) | !above(end, record)
        });
        match declassify(outside, "records that are not one of each bin are refused before anything is sent")
        {
            0 => Ok(()),
            _ => refused("a record lies in another bin".into()),
        }
    }
}

/// A number below `end`, each as likely as another but for a share of `end / 2^64`.
fn below(end: u64, rng: &mut SecretRng) -> u64 {
    ((u128::from(rng.next_u64()) * u128::from(end)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_bin_brings_the_first_that_is_wanted_of_it(
            records in 1u64..200, bin_records in 1u64..60, wanted in proptest::collection::vec(any::<u64>(), 0..20),
        ) {
            let bins = Bins::new(records, bin_records);
            let wanted: Vec<u64> = wanted.into_iter().map(|index| index % records).collect();
            let chosen = bins.choose(&wanted, &mut SecretRng::deterministic_for_tests(records)).unwrap();
            bins.check(&chosen.records).unwrap();
            prop_assert_eq!(bins.count(), (0..records).map(|index| index / bin_records).max().unwrap() + 1);
            let mut first = HashMap::new();
            for (&index, &brought) in wanted.iter().zip(&chosen.brought) {
                let first = *first.entry(index / bin_records).or_insert(index);
                prop_assert_eq!(brought, first == index);
                prop_assert_eq!(chosen.records[(index / bin_records) as usize], first);
            }
            prop_assert!(bins.choose(&[records], &mut SecretRng::deterministic_for_tests(1)).is_err());
        }
    }

    #[test]
    fn dummies_are_all_records_of_their_bin() {
        let (bins, mut rng) = (Bins::new(10, 4), SecretRng::from_os().unwrap());
        let mut seen = [0i32; 10];
        for _ in 0..1000 {
            let chosen = bins.choose(&[5], &mut rng).unwrap();
            assert_eq!((chosen.records[1], &chosen.brought[..]), (5, &[true][..]));
            chosen.records.iter().for_each(|&record| seen[record as usize] += 1);
        }
        // The last bin has two records, each 500 times but for some 16.
        for (record, &times) in seen.iter().enumerate() {
            let expected: i32 = [250, 250, 250, 250, 0, 1000, 0, 0, 500, 500][record];
            assert!((expected - times).abs() <= if expected % 1000 == 0 { 0 } else { 130 }, "{seen:?}");
        }
    }

    #[test]
    fn records_of_other_bins_are_refused() {
        let bins = Bins::new(10, 4);
        bins.check(&[0, 4, 9]).unwrap();
        for wrong in [&[0, 4][..], &[0, 4, 8, 9], &[4, 4, 8], &[0, 4, 10], &[0, 3, 8], &[0, 4, u64::MAX >> 1]]
        {
            assert!(bins.check(wrong).is_err(), "{wrong:?}");
        }
        assert_eq!(Bins::one(7).range(0), 0..7);
    }
}
