//! Recent times of replicas, and the budget for second requests beside a slow one.

use std::collections::VecDeque;
use std::time::Duration;

/// Number of times kept for each batch size.
const KEPT: usize = 128;
/// Number of times needed to tell which batches are slow.
const TELLING: usize = 16;
/// Number of size classes. Each class ends before the next power of two; the last class has all
/// larger sizes.
const SIZES: usize = 12;
/// Factor for a size of which too few batches were answered: a batch of this size is slow after the
/// longest time of any size, times this factor.
const UNKNOWN_FACTOR: u32 = 3;
/// Quantile of a size's times from which a batch counts as slow.
const SLOW: f64 = 0.95;

/// Recent times of a share's batches, by batch size.
#[derive(Debug, Default)]
pub(crate) struct Times([VecDeque<Duration>; SIZES]);

impl Times {
    /// Records the time of a batch of `queries` queries.
    pub fn note(&mut self, queries: usize, time: Duration) {
        push(&mut self.0[size(queries)], time);
    }

    /// Returns the time after which a batch is slower than 95% of recent ones, or `None` if no
    /// batch has been timed.
    pub fn slow(&self, queries: usize) -> Option<Duration> {
        let of_size = &self.0[size(queries)];
        match of_size.len() < TELLING {
            true => self.0.iter().flatten().max().map(|longest| *longest * UNKNOWN_FACTOR),
            false => quantile(of_size, SLOW),
        }
    }
}

/// Recent times of a replica.
#[derive(Debug, Default)]
pub(crate) struct Latest(VecDeque<Duration>);

impl Latest {
    /// Records a time.
    pub fn note(&mut self, time: Duration) {
        push(&mut self.0, time);
    }

    /// Returns a quantile of the times, or `None` if there are none.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        quantile(&self.0, share)
    }
}

fn push(times: &mut VecDeque<Duration>, time: Duration) {
    if times.len() == KEPT {
        times.pop_front();
    }
    times.push_back(time);
}

fn size(queries: usize) -> usize {
    (queries.max(1).ilog2() as usize).min(SIZES - 1)
}

fn quantile(times: &VecDeque<Duration>, share: f64) -> Option<Duration> {
    let mut ordered: Vec<Duration> = times.iter().copied().collect();
    ordered.sort_unstable();
    let last = ordered.len().checked_sub(1)?;
    Some(ordered[(last as f64 * share).ceil() as usize])
}

/// Budget for second requests. Each first request adds 5% of the cost of one second request.
#[derive(Debug)]
pub(crate) struct HedgeBudget(f64);

impl HedgeBudget {
    const PER_REQUEST: f64 = 0.05;
    const MOST: f64 = 10.0;

    /// Records a first request.
    pub fn earn(&mut self) {
        self.0 = (self.0 + Self::PER_REQUEST).min(Self::MOST);
    }

    /// Takes a second request from the budget. Returns false if the budget is too small.
    pub fn pay(&mut self) -> bool {
        let enough = self.0 >= 1.0;
        if enough {
            self.0 -= 1.0;
        }
        enough
    }
}

impl Default for HedgeBudget {
    /// The budget starts with the cost of one second request, for the first slow batch.
    fn default() -> Self {
        Self(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn what_is_slow_is_told_by_the_times_of_batches_of_the_size() {
        let mut times = Times::default();
        assert_eq!(times.slow(1), None);
        times.note(1, 10 * MS);
        assert_eq!(times.slow(1), Some(30 * MS));
        assert_eq!(times.slow(64), Some(30 * MS));
        for i in 0..100 {
            times.note(40, i * MS);
        }
        assert_eq!(times.slow(33), Some(95 * MS));
        // Too few batches of one query have been timed.
        assert_eq!(times.slow(1), Some(297 * MS));
        for _ in 0..KEPT {
            times.note(40, MS);
        }
        assert_eq!(times.slow(63), Some(MS));
        assert!(times.slow(usize::MAX).is_some());
    }

    #[derive(serde::Deserialize)]
    struct Vectors {
        times: Vec<TimesStep>,
        budget: Vec<BudgetStep>,
    }

    /// Times of batches in microseconds; then, for some sizes, the time after which a batch is
    /// slow.
    #[derive(serde::Deserialize)]
    struct TimesStep {
        queries: usize,
        times: Vec<u64>,
        slow: Vec<(usize, Option<u64>)>,
    }

    /// Number of first requests, number of second requests that follow, and number of these that
    /// the budget pays for.
    #[derive(serde::Deserialize)]
    struct BudgetStep {
        earn: usize,
        ask: usize,
        paid: usize,
    }

    /// The simulation of `spirea cluster plan` computes the same vectors:
    /// python/tests/cluster/test_simulation.py.
    #[test]
    fn second_requests_follow_the_vectors() {
        let vectors: Vectors =
            serde_json::from_str(include_str!("../../../conformance/vectors/second_requests.json")).unwrap();
        let (mut times, mut budget) = (Times::default(), HedgeBudget::default());
        for step in vectors.times {
            step.times.into_iter().for_each(|time| times.note(step.queries, Duration::from_micros(time)));
            for (queries, slow) in step.slow {
                assert_eq!(times.slow(queries), slow.map(Duration::from_micros), "{queries} queries");
            }
        }
        for step in vectors.budget {
            (0..step.earn).for_each(|_| budget.earn());
            let paid = (0..step.ask).filter(|_| budget.pay()).count();
            assert_eq!(paid, step.paid, "{} earned, {} asked for", step.earn, step.ask);
        }
    }

    #[test]
    fn one_request_in_twenty_is_asked_twice() {
        let mut budget = HedgeBudget::default();
        assert!(budget.pay());
        let hedged = (0..1000).filter(|_| {
            budget.earn();
            budget.pay()
        });
        let hedged = hedged.count();
        assert!((49..=50).contains(&hedged), "{hedged}");
        (0..1000).for_each(|_| budget.earn());
        assert_eq!((0..100).filter(|_| budget.pay()).count(), 10);
    }
}
