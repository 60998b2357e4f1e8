//! Bins: disjoint sets of records. One query retrieves a record of each bin.
//!
//! The method is partial batch retrieval (GPU-DPF section IV-A). A query selects one record of
//! every bin, at the server cost of a single selection. A bin without a wanted record returns a
//! random record, a dummy, which only the client can tell from a wanted record. If two wanted
//! records lie in one bin, the query retrieves the first; the second is dropped, and the client is
//! told.
//!
//! If each entry has copies in several records, the client may retrieve any of them, so that fewer
//! entries are dropped (a probabilistic batch code).

mod assignment;

use spirea_math::Divisor;
use spirea_math::random::SecretRng;
use spirea_math::secret::declassify;
use zeroize::Zeroizing;

use self::assignment::Assignment;
use crate::ProtocolError;
use crate::keyword::Copies;
use crate::oblivious::{above, equal, select};
use crate::steps::check::check_index;

/// Division of a database's records into bins: runs of consecutive records are dealt to the bins in
/// turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bins {
    records: u64,
    /// Records of a run; the last run may have fewer.
    run: u64,
    count: u64,
}

/// One record for each bin.
pub struct Chosen {
    /// The record of each bin, in the order of the bins: a wanted record or a dummy.
    pub records: Zeroizing<Vec<u64>>,
    /// For each wanted entry, in the order of the list: the record of `records` that holds it, or
    /// any of its records if it is not brought.
    pub holders: Zeroizing<Vec<u64>>,
    /// For each wanted entry, in the order of the list: true if `records` contains a record of it.
    pub brought: Vec<bool>,
}

impl Bins {
    /// Creates bins that each have one run of `bin_records` records; the last bin may have fewer.
    ///
    /// # Panics
    /// If `records` or `bin_records` is 0.
    pub fn consecutive(records: u64, bin_records: u64) -> Self {
        Self::dealt(records, bin_records, u64::MAX)
    }

    /// Deals runs of `run` records to `count` bins, or to as many bins as there are runs.
    ///
    /// # Panics
    /// If an argument is 0.
    pub fn dealt(records: u64, run: u64, count: u64) -> Self {
        assert!(records > 0 && run > 0 && count > 0, "a bin has records");
        Self { records, run, count: count.min(records.div_ceil(run)) }
    }

    /// Puts all records into one bin.
    pub fn one(records: u64) -> Self {
        Self::consecutive(records, records)
    }

    /// Returns the number of bins. No bin is empty.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the number of records of a bin.
    ///
    /// # Panics
    /// If there is no such bin.
    pub fn bin_records(&self, bin: u64) -> u64 {
        assert!(bin < self.count, "bins are numbered from 0");
        let runs = self.records.div_ceil(self.run);
        let own = (runs - bin).div_ceil(self.count);
        let is_last = (runs - 1) % self.count == bin;
        own * self.run - if is_last { runs * self.run - self.records } else { 0 }
    }

    /// Returns record number `place`, below [`Bins::bin_records`], of a bin. The place may be a
    /// client's secret, so no division instruction takes it.
    pub fn record(&self, bin: u64, place: u64) -> u64 {
        let (turn, within) = Divisor::new(self.run).divide(place);
        (turn * self.count + bin) * self.run + within
    }

    /// Returns the bin of a record. The index is a client's secret, so no division instruction
    /// takes it.
    pub fn bin_of(&self, index: u64) -> u64 {
        let (run, _) = Divisor::new(self.run).divide(index);
        Divisor::new(self.count).divide(run).1
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
        self.choose_copies(wanted, Copies::One, rng)
    }

    /// Chooses a record of each bin like [`Bins::choose`], for entries with several copies.
    /// `wanted` has the records of the first entry's copies, then those of the second, and so on.
    /// Entries earlier in the list come first. An entry is brought if any of its records is.
    ///
    /// # Errors
    /// See [`Bins::choose`].
    pub fn choose_copies(
        &self,
        wanted: &[u64],
        copies: Copies,
        rng: &mut SecretRng,
    ) -> Result<Chosen, ProtocolError> {
        wanted.iter().try_for_each(|&index| check_index(index, self.records))?;
        let number = copies.number();
        // A single bin takes the first wanted record and needs no dummy.
        let has_dummies = self.count > 1 || wanted.is_empty();
        let bins = Zeroizing::new(wanted.iter().map(|&index| self.bin_of(index)).collect::<Vec<_>>());
        // With one copy, the first wanted record in a bin takes it.
        let assignment = (copies != Copies::One).then(|| Assignment::new(wanted, &bins, number, self.count));
        let mut holders = Zeroizing::new(wanted.iter().copied().step_by(number).collect::<Vec<_>>());
        let mut brought = Zeroizing::new(vec![0; holders.len()]);
        let mut records = Zeroizing::new(Vec::with_capacity(self.count as usize));
        for bin in 0..self.count {
            let place = if has_dummies { below(self.bin_records(bin), rng) } else { 0 };
            let mut record = self.record(bin, place);
            let mut taken = 0;
            for (i, (&index, &of_index)) in wanted.iter().zip(bins.iter()).enumerate() {
                let may = assignment.as_ref().map_or(u64::MAX, |it| it.is_in(i / number, bin));
                let takes = equal(of_index, bin) & may & !taken;
                record = select(takes, index, record);
                taken |= takes;
            }
            for (i, &index) in wanted.iter().enumerate() {
                let holds = equal(index, record);
                holders[i / number] = select(holds, index, holders[i / number]);
                brought[i / number] |= holds;
            }
            records.push(record);
        }
        let told =
            |&brought: &u64| declassify(brought, "the application is told which keys are dropped") != 0;
        Ok(Chosen { records, holders, brought: brought.iter().map(told).collect() })
    }

    /// Returns the record of bin `bin` from `records`, the concatenated records of all bins, of
    /// `record_bytes` bytes each. All records are read and all but the returned one are masked,
    /// because the bin is a client's secret.
    pub(crate) fn pick(records: &[u8], record_bytes: usize, bin: u64) -> Vec<u8> {
        let mut record = vec![0; record_bytes];
        for (candidate, of_candidate) in records.chunks_exact(record_bytes).zip(0..) {
            let mask = equal(of_candidate, bin) as u8;
            record.iter_mut().zip(candidate).for_each(|(byte, &other)| *byte |= other & mask);
        }
        record
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
            // `above` compares numbers below 2^63 only.
            outside | (record >> 63) | !above(self.records, record) | !equal(self.bin_of(record), bin)
        });
        match declassify(
            outside,
            "a request without exactly one record of each bin is refused before anything is sent",
        ) {
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

    /// Returns the records of each bin, computed directly from the definition.
    fn dealt(records: u64, run: u64, count: u64) -> Vec<Vec<u64>> {
        let mut bins = vec![Vec::new(); count.min(records.div_ceil(run)) as usize];
        let bin_of = |index| (index / run % bins.len() as u64) as usize;
        let bin_of: Vec<usize> = (0..records).map(bin_of).collect();
        (0..records).zip(bin_of).for_each(|(index, bin)| bins[bin].push(index));
        bins
    }

    proptest! {
        #[test]
        fn runs_are_dealt_in_turn(records in 1u64..300, run in 1u64..40, count in 1u64..20) {
            let (bins, expected) = (Bins::dealt(records, run, count), dealt(records, run, count));
            prop_assert_eq!(bins.count(), expected.len() as u64);
            for (bin, expected) in (0..).zip(expected) {
                let places = 0..bins.bin_records(bin);
                let found: Vec<u64> = places.map(|place| bins.record(bin, place)).collect();
                prop_assert!(found.iter().all(|&index| bins.bin_of(index) == bin));
                prop_assert_eq!(found, expected);
            }
        }

        #[test]
        fn a_bin_brings_the_first_that_is_wanted_of_it(
            records in 1u64..200,
            run in 1u64..60,
            count in 1u64..60,
            wanted in proptest::collection::vec(any::<u64>(), 0..20),
        ) {
            let bins = Bins::dealt(records, run, count);
            let wanted: Vec<u64> = wanted.into_iter().map(|index| index % records).collect();
            let chosen = bins.choose(&wanted, &mut SecretRng::deterministic_for_tests(records)).unwrap();
            bins.check(&chosen.records).unwrap();
            let mut first = HashMap::new();
            for (&index, &brought) in wanted.iter().zip(&chosen.brought) {
                let bin = bins.bin_of(index);
                let first = *first.entry(bin).or_insert(index);
                prop_assert_eq!(brought, first == index);
                prop_assert_eq!(chosen.records[bin as usize], first);
            }
            prop_assert!(bins.choose(&[records], &mut SecretRng::deterministic_for_tests(1)).is_err());
        }

        #[test]
        fn an_entry_is_brought_if_any_of_its_copies_is(
            records in 1u64..300,
            run in 1u64..20,
            count in 1u64..90,
            wanted in proptest::collection::vec(any::<[u64; 3]>(), 0..40),
        ) {
            let bins = Bins::dealt(records, run, count);
            let wanted: Vec<u64> = wanted.into_iter().flatten().map(|index| index % records).collect();
            let rng = &mut SecretRng::deterministic_for_tests(count);
            let chosen = bins.choose_copies(&wanted, Copies::Three, rng).unwrap();
            bins.check(&chosen.records).unwrap();
            for ((copies, holder), &brought) in
                wanted.chunks_exact(3).zip(chosen.holders.iter()).zip(&chosen.brought)
            {
                prop_assert!(copies.contains(holder));
                prop_assert_eq!(brought, copies.iter().any(|index| chosen.records.contains(index)));
                prop_assert!(!brought || chosen.records.contains(holder));
                // An entry with a free bin is never dropped.
                let asked = |index: &u64| {
                    let record = chosen.records[bins.bin_of(*index) as usize];
                    wanted.contains(&record)
                };
                prop_assert!(brought || copies.iter().all(asked));
            }
            // One entry is always brought.
            for copies in wanted.chunks_exact(3) {
                prop_assert!(bins.choose_copies(copies, Copies::Three, rng).unwrap().brought[0]);
            }
        }

        #[test]
        fn the_record_of_a_bin_is_picked(records in proptest::collection::vec(any::<[u8; 3]>(), 1..9), bin: usize) {
            let bin = bin % records.len();
            let picked = Bins::pick(records.as_flattened(), 3, bin as u64);
            prop_assert_eq!(picked, records[bin]);
        }
    }

    #[test]
    fn dummies_are_all_records_of_their_bin() {
        // The bins of the first division are 0..4, 4..8 and 8..10. Those of the second are {0, 1,
        // 6, 7}, {2, 3, 8} and {4, 5}.
        let consecutive = (Bins::consecutive(10, 4), [250, 250, 250, 250, 0, 1000, 0, 0, 500, 500]);
        let in_turn = (Bins::dealt(9, 2, 3), [250, 250, 333, 333, 0, 1000, 250, 250, 333]);
        let mut rng = SecretRng::from_os().unwrap();
        for (bins, expected) in [(consecutive.0, &consecutive.1[..]), (in_turn.0, &in_turn.1)] {
            let mut seen = vec![0i32; expected.len()];
            let wanted = bins.bin_of(5) as usize;
            for _ in 0..1000 {
                let chosen = bins.choose(&[5], &mut rng).unwrap();
                assert_eq!((chosen.records[wanted], &chosen.brought[..]), (5, &[true][..]));
                chosen.records.iter().for_each(|&record| seen[record as usize] += 1);
            }
            // A number expected 500 times has a standard deviation of 16.
            for (&expected, &times) in expected.iter().zip(&seen) {
                assert!((expected - times).abs() <= if expected % 1000 == 0 { 0 } else { 130 }, "{seen:?}");
            }
        }
    }

    #[test]
    fn records_of_other_bins_are_refused() {
        let bins = Bins::consecutive(10, 4);
        bins.check(&[0, 4, 9]).unwrap();
        for wrong in [&[0, 4][..], &[0, 4, 8, 9], &[4, 4, 8], &[0, 4, 10], &[0, 3, 8], &[0, 4, u64::MAX >> 1]]
        {
            assert!(bins.check(wrong).is_err(), "{wrong:?}");
        }
        // The last run is in bin 1, so record 11 would lie there too.
        let bins = Bins::dealt(11, 2, 4);
        bins.check(&[8, 10, 4, 6]).unwrap();
        for wrong in [[8, 11, 4, 6], [2, 10, 4, 6], [8, 10, 6, 4], [8, u64::MAX, 4, 6]] {
            assert!(bins.check(&wrong).is_err(), "{wrong:?}");
        }
    }
}
