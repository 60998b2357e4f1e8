//! Rate of answered queries in the last seconds.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Window over which the rate is computed.
const SPAN: Duration = Duration::from_secs(10);

/// Counts, each with its time.
#[derive(Debug, Default)]
pub(crate) struct Rate {
    counted: VecDeque<(Instant, usize)>,
    total: u64,
}

impl Rate {
    /// Adds `count` at time `now`.
    pub fn count(&mut self, now: Instant, count: usize) {
        self.counted.push_back((now, count));
        self.total += count as u64;
        self.forget(now);
    }

    /// Returns the average per second over the last ten seconds.
    pub fn per_second(&mut self, now: Instant) -> f64 {
        self.forget(now);
        self.counted.iter().map(|(_, count)| count).sum::<usize>() as f64 / SPAN.as_secs_f64()
    }

    /// Returns the total of all counts.
    pub fn total(&self) -> u64 {
        self.total
    }

    fn forget(&mut self, now: Instant) {
        while self.counted.front().is_some_and(|(then, _)| now.duration_since(*then) > SPAN) {
            self.counted.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_of_the_last_ten_seconds() {
        let (mut rate, start) = (Rate::default(), Instant::now());
        assert_eq!(rate.per_second(start), 0.0);
        rate.count(start, 30);
        rate.count(start + Duration::from_secs(5), 20);
        assert_eq!(rate.per_second(start + Duration::from_secs(9)), 5.0);
        assert_eq!(rate.per_second(start + Duration::from_secs(11)), 2.0);
        assert_eq!(rate.per_second(start + Duration::from_secs(60)), 0.0);
        assert_eq!(rate.total(), 50);
    }
}
