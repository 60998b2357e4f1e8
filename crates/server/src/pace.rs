//! Minimum rate for the bytes of a body.

use std::time::Duration;

use tokio::time::Instant;

/// A minimum rate, and the maximum lag behind it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    /// Maximum lag of a client, and so its longest pause.
    pub patience: Duration,
    pub bytes_per_second: u64,
}

/// Deadline of a body. Each byte extends the deadline by the byte's time at the minimum rate, up to
/// `patience` from now. A drip of single bytes therefore extends it by next to nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    deadline: Instant,
    rate: Rate,
}

impl Pace {
    pub fn new(now: Instant, rate: Rate) -> Self {
        Self { deadline: now + rate.patience, rate }
    }

    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Extends the deadline for `bytes` that were transferred.
    pub fn moved(&mut self, now: Instant, bytes: usize) {
        let earned = Duration::from_secs_f64(bytes as f64 / self.rate.bytes_per_second.max(1) as f64);
        self.deadline = (self.deadline + earned).min(now + self.rate.patience);
    }

    /// Extends the deadline by a time in which the server did not wait for the client.
    pub fn skip(&mut self, time: Duration) {
        self.deadline += time;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { patience: Duration::from_secs(10), bytes_per_second: 1000 };

    #[test]
    fn a_drip_ends_and_the_least_rate_does_not() {
        let start = Instant::now();
        let second = Duration::from_secs(1);
        let (mut drip, mut steady) = (Pace::new(start, RATE), Pace::new(start, RATE));
        for seconds in 1..100 {
            let now = start + seconds * second;
            drip.moved(now, 1);
            steady.moved(now, 1000);
            assert_eq!(drip.deadline() > now, seconds <= 10, "{seconds}");
            assert_eq!(steady.deadline(), now + RATE.patience);
        }
    }

    #[test]
    fn a_fast_beginning_saves_no_time_for_a_later_pause() {
        let start = Instant::now();
        let mut pace = Pace::new(start, RATE);
        pace.moved(start, 1 << 30);
        assert_eq!(pace.deadline(), start + RATE.patience);
    }
}
