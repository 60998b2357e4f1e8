//! The coordinator's rating of a replica, from its own observations: the time of a batch, and
//! whether other replicas are asked first.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Weight of the former average against a new time.
const SMOOTHING: f64 = 0.8;
/// Factor by which an idle replica's usual time decays at each status report, so that a formerly
/// slow replica is tried again.
const FORGIVING: f64 = 0.98;

/// Misbehaviour of a replica. After it, other replicas are preferred for a while; this time grows
/// with each further offence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offence {
    /// The replica refused a batch, failed on it, or is stuck.
    Fault,
    /// The replica contradicted another one, or sent bytes that are no partial.
    Lie,
}

impl Offence {
    /// Returns the first and the longest pause.
    fn pauses(self) -> [Duration; 2] {
        match self {
            Self::Fault => [Duration::from_millis(250), Duration::from_secs(60)],
            Self::Lie => [Duration::from_secs(60), Duration::from_secs(3600)],
        }
    }
}

/// Record of a replica's batches and offences.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    /// Smoothed time of a batch.
    usual: Duration,
    /// Time at which each pending batch was sent.
    waiting: BTreeMap<u64, Instant>,
    next: u64,
    /// Number of offences, less the batches answered since.
    offences: u32,
    /// Time until which other replicas are preferred, and the reason.
    avoided: Option<(Instant, String)>,
}

impl Standing {
    /// Records a batch that is sent to the replica, and returns its number.
    pub fn began(&mut self, now: Instant) -> u64 {
        self.next += 1;
        self.waiting.insert(self.next, now);
        self.next
    }

    /// Records the answer to a batch.
    pub fn answered(&mut self, batch: u64, now: Instant) {
        self.took(batch, now);
        self.offences = self.offences.saturating_sub(1);
    }

    /// Records that the coordinator gave up waiting for a batch. The time waited counts as the
    /// batch's time.
    pub fn given_up(&mut self, batch: u64, now: Instant) {
        self.took(batch, now);
    }

    /// Records a refusal. Its time does not count: a fast refusal must not make a replica look
    /// fast.
    pub fn refused(&mut self, batch: u64) {
        self.waiting.remove(&batch);
    }

    fn took(&mut self, batch: u64, now: Instant) {
        let Some(began) = self.waiting.remove(&batch) else { return };
        let time = now.duration_since(began);
        self.usual = match self.usual.is_zero() {
            true => time,
            false => self.usual.mul_f64(SMOOTHING) + time.mul_f64(1.0 - SMOOTHING),
        };
    }

    /// Makes the coordinator prefer other replicas for a while.
    pub fn offend(&mut self, offence: Offence, why: &str, now: Instant) {
        let [least, most] = offence.pauses();
        let pause = least.saturating_mul(1 << self.offences.min(16)).min(most);
        self.offences = self.offences.saturating_add(1);
        let until = self.avoided.as_ref().map_or(now, |(until, _)| *until).max(now + pause);
        self.avoided = Some((until, why.into()));
    }

    /// Returns the reason why other replicas are preferred, if they are.
    pub fn avoided(&self, now: Instant) -> Option<&str> {
        self.avoided.as_ref().filter(|(until, _)| now < *until).map(|(_, why)| &**why)
    }

    /// Records a status report. The usual time of an idle replica decays; while batches wait, their
    /// age measures its speed.
    pub fn heard(&mut self) {
        if self.waiting.is_empty() {
            self.usual = self.usual.mul_f64(FORGIVING);
        }
    }

    /// Returns the number of pending batches.
    pub fn in_flight(&self) -> usize {
        self.waiting.len()
    }

    /// Returns the expected seconds until one more batch is done, if the replica reports `queued`
    /// batches.
    pub fn burden(&self, queued: usize, now: Instant) -> f64 {
        let oldest = self.waiting.values().next().map_or(Duration::ZERO, |began| now.duration_since(*began));
        let each = self.usual.max(oldest).as_secs_f64().max(1e-6);
        (queued.max(self.waiting.len()) + 1) as f64 * each
    }
}

/// Rate limit for second opinions on partials that do not combine, so that a worker that sends such
/// partials does not double the work.
#[derive(Debug)]
pub(crate) struct SecondOpinions {
    left: f64,
    at: Instant,
}

impl SecondOpinions {
    const MOST: f64 = 20.0;
    const PER_SECOND: f64 = 2.0;

    /// Creates a full budget.
    pub fn new(now: Instant) -> Self {
        Self { left: Self::MOST, at: now }
    }

    /// Takes one second opinion from the budget. Returns false if the budget is too small.
    pub fn pay(&mut self, now: Instant) -> bool {
        let since = now.saturating_duration_since(self.at).as_secs_f64();
        (self.left, self.at) = ((self.left + since * Self::PER_SECOND).min(Self::MOST), now);
        let enough = self.left >= 1.0;
        if enough {
            self.left -= 1.0;
        }
        enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_batch_that_waits_weighs_by_its_age_and_is_not_forgiven() {
        let (mut standing, start) = (Standing::default(), Instant::now());
        let first = standing.began(start);
        standing.answered(first, start + 10 * MS);
        let idle = standing.burden(0, start + 10 * MS);
        standing.began(start + 10 * MS);
        (0..1000).for_each(|_| standing.heard());
        assert!(standing.burden(0, start + 10 * MS) >= 2.0 * idle);
        assert!(standing.burden(0, start + 1010 * MS) >= 2.0);
        assert_eq!(standing.in_flight(), 1);
    }

    #[test]
    fn a_fast_refusal_makes_nobody_fast() {
        let (mut standing, start) = (Standing::default(), Instant::now());
        let first = standing.began(start);
        standing.answered(first, start + 100 * MS);
        let before = standing.burden(0, start + 100 * MS);
        for _ in 0..100 {
            let batch = standing.began(start + 100 * MS);
            standing.refused(batch);
        }
        assert!(standing.burden(0, start + 100 * MS) >= before);
    }

    #[test]
    fn offences_put_others_first_for_longer_each_time() {
        let (mut standing, start) = (Standing::default(), Instant::now());
        assert_eq!(standing.avoided(start), None);
        standing.offend(Offence::Fault, "it failed", start);
        assert_eq!(standing.avoided(start + 249 * MS), Some("it failed"));
        assert_eq!(standing.avoided(start + 250 * MS), None);
        standing.offend(Offence::Fault, "it failed", start);
        assert!(standing.avoided(start + 499 * MS).is_some() && standing.avoided(start + 500 * MS).is_none());
        (0..100).for_each(|_| standing.offend(Offence::Fault, "it failed", start));
        assert!(standing.avoided(start + Duration::from_secs(60)).is_none());
        standing.offend(Offence::Lie, "it lied", start);
        assert_eq!(standing.avoided(start + Duration::from_secs(3599)), Some("it lied"));
    }

    #[test]
    fn second_opinions_are_few_and_come_back() {
        let start = Instant::now();
        let mut opinions = SecondOpinions::new(start);
        assert_eq!((0..100).filter(|_| opinions.pay(start)).count(), 20);
        assert_eq!((0..100).filter(|_| opinions.pay(start + 1000 * MS)).count(), 2);
    }
}
