//! Bins: disjoint ranges of records, from each of which one query retrieves a record.
//!
//! (Partial batch retrieval, GPU-DPF section IV-A.) A protocol may divide its records into bins of
//! consecutive records. A query then selects one record of every bin, at the server cost of a
//! single selection. A bin without a wanted record returns a random record, a dummy, which only the
//! client can tell from a wanted record. If two wanted records lie in one bin, the query retrieves
//! the first; the second is dropped, and the client is told.

use std::ops::Range;

use spirea_math::Divisor;
use spirea_math::random::SecretRng;
use spirea_math::secret::declassify;
use zeroize::Zeroizing;

use crate::ProtocolError;
use crate::oblivious::{above, equal, select};
use crate::steps::check::check_index;

/// Division of a database's records into bins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bins {
    records: u64,
    bin_records: u64,
}

/// One record for each bin.
pub struct Chosen {
    /// The record of each bin, in the order of the bins: a wanted record or a dummy.
    pub records: Zeroizing<Vec<u64>>,
    /// For each wanted record, in the order of the list: true if `records` contains it.
    pub brought: Vec<bool>,
}

impl Bins {
    /// Creates bins of `bin_records` records each; the last may have fewer.
    ///
    /// # Panics
    /// If either number is 0.
    pub fn new(records: u64, bin_records: u64) -> Self {
        assert!(records > 0 && bin_records > 0, "a bin has records");
        Self { records, bin_records }
    }

    /// Puts all records into one bin.
    pub fn one(records: u64) -> Self {
        Self::new(records, records)
    }

    /// Returns the number of bins.
    pub fn count(&self) -> u64 {
        self.records.div_ceil(self.bin_records)
    }

    /// Returns the number of records of a bin; the last bin may have fewer.
    pub fn bin_records(&self) -> u64 {
        self.bin_records
    }

    /// Returns the records of a bin.
    pub fn range(&self, bin: u64) -> Range<u64> {
        bin * self.bin_records..((bin + 1) * self.bin_records).min(self.records)
    }

    /// Returns the bin of a record. The index is a client's secret, so no division instruction
    /// takes it.
    pub(crate) fn bin_of(&self, index: u64) -> u64 {
        Divisor::new(self.bin_records).divide(index).0
    }

    /// Chooses a record of each bin: the first wanted record of the list that lies in the bin, or
    /// else a random record. A record that is listed twice counts as brought both times.
    ///
    /// Every bin reads every wanted record and draws a dummy even if it does not need one, so no
    /// branch and no address depends on the wanted records. The work reveals the number of wanted
    /// records; the result's `brought` reveals which are brought.
    ///
    /// # Errors
    /// [`ProtocolError::BadRequest`] if there is no such record.
    pub fn choose(&self, wanted: &[u64], rng: &mut SecretRng) -> Result<Chosen, ProtocolError> {
        wanted.iter().try_for_each(|&index| check_index(index, self.records))?;
        // A single bin takes the first wanted record and needs no dummy.
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

    /// Refuses `records` unless they are one record of each bin, in order.
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
            // `above` compares numbers below 2^63 only.
            outside | (record >> 63) | above(start, record) | !above(end, record)
        });
        match declassify(outside, "records that are not one of each bin are refused before anything is sent")
        {
            0 => Ok(()),
            _ => refused("a record lies in another bin".into()),
        }
    }
}

/// Draws a number below `end`, uniform up to a bias of `end / 2^64`.
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
        // The last bin has two records: each is expected 500 times, with a standard deviation of
        // 16.
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
