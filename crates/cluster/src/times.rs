//! How long replicas took of late, and how often a second one may be asked beside one that is slow.

use std::collections::VecDeque;
use std::time::Duration;

/// Times that are kept of each size of a batch.
const KEPT: usize = 128;
/// So many times tell what is slow.
const TELLING: usize = 16;
/// Sizes of batches are told apart by powers of two up to this one.
const SIZES: usize = 12;
/// Where too few batches of a size have been answered, slow is so many times as long as the longest of any size took.
const UNKNOWN_FACTOR: u32 = 3;
/// The quantile of a size's times from which on a batch is slow.
const SLOW: f64 = 0.95;

/// The latest times of a share's batches, by their size.
#[derive(Debug, Default)]
pub(crate) struct Times([VecDeque<Duration>; SIZES]);

impl Times {
    /// Takes note of a batch of so many queries.
    pub fn note(&mut self, queries: usize, time: Duration) {
        push(&mut self.0[size(queries)], time);
    }

    /// After how long a batch is slower than 95 of 100 of late; none where nothing is known.
    pub fn slow(&self, queries: usize) -> Option<Duration> {
        let of_size = &self.0[size(queries)];
        match of_size.len() < TELLING {
            true => self.0.iter().flatten().max().map(|longest| *longest * UNKNOWN_FACTOR),
            false => quantile(of_size, SLOW),
        }
    }
}

/// The latest times of a replica.
#[derive(Debug, Default)]
pub(crate) struct Latest(VecDeque<Duration>);

impl Latest {
    /// Takes note of a time.
    pub fn note(&mut self, time: Duration) {
        push(&mut self.0, time);
    }

    /// A quantile of them; none if there are none.
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

/// What second requests are paid with: each first one adds a twentieth of one.
#[derive(Debug)]
pub(crate) struct HedgeBudget(f64);

impl HedgeBudget {
    const PER_REQUEST: f64 = 0.05;
    const MOST: f64 = 10.0;

    /// Takes note of a request.
    pub fn earn(&mut self) {
        self.0 = (self.0 + Self::PER_REQUEST).min(Self::MOST);
    }

    /// Pays for a second request, if it can.
    pub fn pay(&mut self) -> bool {
        let enough = self.0 >= 1.0;
        if enough {
            self.0 -= 1.0;
        }
        enough
    }
}

impl Default for HedgeBudget {
    /// Enough for the first slow one.
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
        // Of one query too little is known.
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

    /// Times of batches in microseconds; then, for some sizes, the time after which a batch is slow.
    #[derive(serde::Deserialize)]
    struct TimesStep {
        queries: usize,
        times: Vec<u64>,
        slow: Vec<(usize, Option<u64>)>,
    }

    /// Requests; then second requests, and the number of them that the budget pays.
    #[derive(serde::Deserialize)]
    struct BudgetStep {
        earn: usize,
        ask: usize,
        paid: usize,
    }

    /// The simulation of `spirea cluster plan` computes the same vectors: python/tests/cluster/test_simulation.py.
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
