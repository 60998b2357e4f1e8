//! Time of batches, learned from computed batches.

use std::collections::VecDeque;
use std::time::Duration;

/// Estimated time of one batch, not counting other batches computed at the same time: one scan of
/// the database, and a time for each query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// Time of the scan, independent of the batch's size.
    pub scan: Duration,
    /// Time that each query adds.
    pub each: Duration,
}

impl Pace {
    /// Returns the time of a batch of `queries` queries.
    pub fn time(&self, queries: usize) -> Duration {
        self.scan.saturating_add(self.each.saturating_mul(u32::try_from(queries).unwrap_or(u32::MAX)))
    }
}

/// Estimator of a [`Pace`] from the latest batches.
///
/// The time for each query is the median of the slopes between pairs of batches. The time for the
/// scan is the median of what remains of each batch's time (Theil and Sen). A few batches that took
/// long by accident do not change the estimate. The estimate changes when most of the latest
/// batches are slower or faster.
#[derive(Clone, Debug, Default)]
pub struct PaceMeter {
    /// Number of queries and seconds of each batch.
    latest: VecDeque<(f64, f64)>,
    pace: Pace,
}

impl PaceMeter {
    /// Number of batches remembered: few enough to follow a change of the machine's speed within
    /// seconds and to evaluate all pairs in microseconds, but enough that a quarter of them may be
    /// outliers.
    const REMEMBERED: usize = 16;
    /// Number of pairs of remembered batches, plus a place for the discarded slope of batches of
    /// equal size.
    const PAIRS: usize = Self::REMEMBERED * (Self::REMEMBERED - 1) / 2 + 1;

    /// Returns the sizes of batches to measure first. They separate the time of the scan from the
    /// time of queries at little cost. `limit` is the number of queries that the database takes at
    /// once.
    pub fn probes(limit: usize) -> [usize; 3] {
        [1, limit.min(4), 1]
    }

    /// Returns the estimate; zero before the first batch.
    pub fn pace(&self) -> Pace {
        self.pace
    }

    /// Records a batch.
    pub fn note(&mut self, queries: usize, time: Duration) {
        if self.latest.len() == Self::REMEMBERED {
            self.latest.pop_front();
        }
        self.latest.push_back((queries.max(1) as f64, time.as_secs_f64()));
        let [scan, each] = self.fit().map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default());
        self.pace = Pace { scan, each };
    }

    /// Returns the seconds of a scan and of each query. Simulations spend much of their time here,
    /// so nothing is allocated.
    fn fit(&mut self) -> [f64; 2] {
        let latest = &*self.latest.make_contiguous();
        let (mut slopes, mut count) = ([0.0; Self::PAIRS], 0);
        for (i, a) in latest.iter().enumerate() {
            for b in &latest[..i] {
                // If the sizes are equal, the slope is meaningless, and the next slope overwrites
                // it.
                slopes[count] = (a.1 - b.1) / (a.0 - b.0);
                count += usize::from(a.0 != b.0);
            }
        }
        match median(&mut slopes[..count]) {
            Some(slope) => {
                let each = slope.max(0.0);
                let mut scans = self.of_each(|(queries, time)| time - each * queries);
                [median(&mut scans[..self.latest.len()]).unwrap_or_default().max(0.0), each]
            }
            None => self.scaled(),
        }
    }

    /// Returns `value` of each remembered batch, followed by zeros.
    fn of_each(&self, value: impl Fn((f64, f64)) -> f64) -> [f64; Self::REMEMBERED] {
        let mut values = [0.0; Self::REMEMBERED];
        values.iter_mut().zip(&self.latest).for_each(|(to, batch)| *to = value(*batch));
        values
    }

    /// Scales the estimate if all batches have the same size. Such batches show only how fast the
    /// machine is, so the scan and the queries keep their shares of the time. If the shares are not
    /// known yet, the estimate assumes that queries share nothing, which errs towards short
    /// windows.
    fn scaled(&self) -> [f64; 2] {
        let mut times = self.of_each(|(_, time)| time);
        let Some(time) = median(&mut times[..self.latest.len()]) else { return [0.0; 2] };
        let queries = self.latest[0].0;
        let (scan, each) = (self.pace.scan.as_secs_f64(), self.pace.each.as_secs_f64());
        match scan + each * queries {
            known if known > 0.0 => [scan * time / known, each * time / known],
            _ => [time / queries, (time - time / queries) / queries],
        }
    }
}

/// Returns the median, the upper one of an even number of values. Changes their order.
fn median(values: &mut [f64]) -> Option<f64> {
    let middle = values.len() / 2;
    (!values.is_empty()).then(|| *values.select_nth_unstable_by(middle, f64::total_cmp).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    fn of(scan: u64, each: u64) -> Pace {
        Pace { scan: ms(scan), each: ms(each) }
    }

    fn noted(pace: Pace, sizes: &[usize]) -> PaceMeter {
        let mut meter = PaceMeter::default();
        sizes.iter().for_each(|&size| meter.note(size, pace.time(size)));
        meter
    }

    fn near(a: Pace, b: Pace) -> bool {
        a.scan.abs_diff(b.scan) < ms(1) && a.each.abs_diff(b.each) < ms(1)
    }

    #[test]
    fn the_parts_are_told_apart_by_batches_of_two_sizes() {
        for pace in [of(100, 3), of(100, 0), of(0, 20), of(5, 5)] {
            assert!(near(noted(pace, &[1, 4, 1]).pace(), pace), "{pace:?}");
        }
    }

    #[test]
    fn a_slow_batch_moves_nothing() {
        let pace = of(100, 3);
        for size in [1, 4, 32] {
            let mut meter = noted(pace, &[1, 4, 1, 7]);
            meter.note(size, ms(60_000));
            assert!(near(meter.pace(), pace), "{:?}", meter.pace());
        }
    }

    #[test]
    fn a_machine_that_slows_down_is_followed() {
        let mut meter = noted(of(100, 3), &[1, 2, 8, 30, 5, 9, 1, 1, 4, 64, 12, 13, 14, 20, 21, 22]);
        for size in [3, 1, 20, 2, 5, 9, 30, 4, 6, 8, 12, 11] {
            meter.note(size, of(250, 8).time(size));
        }
        assert!(near(meter.pace(), of(250, 8)), "{:?}", meter.pace());
    }

    #[test]
    fn batches_of_one_size_scale_what_was_known() {
        let mut meter = noted(of(100, 10), &[1, 4, 1]);
        for pace in [of(100, 10), of(200, 20)] {
            (0..20).for_each(|_| meter.note(10, pace.time(10)));
        }
        assert!(near(meter.pace(), of(200, 20)), "{:?}", meter.pace());
        // If all batches had one query, the estimated scan is the whole time. A full batch does not
        // show its parts, so its queries are assumed to share nothing.
        assert_eq!(noted(of(100, 10), &[1, 1]).pace().scan, ms(110));
        let full = noted(of(100, 10), &[64]).pace();
        assert!(full.scan < ms(12) && full.time(64).abs_diff(of(100, 10).time(64)) < ms(1), "{full:?}");
    }

    /// Tests the fit against the slopes of all pairs in a list. Sizes repeat, so there are fewer
    /// slopes than pairs.
    #[test]
    fn the_fit_is_that_of_all_pairs() {
        let median = |mut values: Vec<f64>| {
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        let (mut meter, mut batches) = (PaceMeter::default(), Vec::new());
        for number in 0..100u64 {
            let (size, time) = ((number * number % 11 + 1) as usize, ms(number * 7919 % 1000 + 1));
            meter.note(size, time);
            batches.push((size as f64, time.as_secs_f64()));
            let latest = &batches[batches.len().saturating_sub(PaceMeter::REMEMBERED)..];
            let pairs = latest.iter().flat_map(|a| latest.iter().map(move |b| (a, b)));
            let slopes: Vec<_> =
                pairs.filter(|(a, b)| a.0 > b.0).map(|(a, b)| (a.1 - b.1) / (a.0 - b.0)).collect();
            if number == 0 {
                continue;
            }
            let each = median(slopes).max(0.0);
            let scan = median(latest.iter().map(|(size, time)| time - each * size).collect()).max(0.0);
            let expected = [scan, each].map(Duration::from_secs_f64);
            assert_eq!([meter.pace().scan, meter.pace().each], expected, "after batch {number}");
        }
    }

    #[test]
    fn no_measurement_makes_a_time_negative() {
        let mut meter = PaceMeter::default();
        for (size, time) in [(1, 500), (64, 1), (2, 0), (0, 7), (3, 9_000_000_000)] {
            meter.note(size, ms(time));
            assert!(meter.pace().time(usize::MAX) >= meter.pace().scan);
        }
    }
}
