//! The scheduler's policy in virtual time: what it would do with requests that arrive at given times, on a backend
//! whose speed is given. The [`Batcher`] and the [`PaceMeter`] are those of the server.

use std::collections::BTreeMap;
use std::time::Duration;

use chacha20::ChaCha20Rng;
use rand_core::{Rng as _, SeedableRng as _};

use crate::{Batch, Batcher, Next, PaceMeter, Terms, Window};

/// A request that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When, since the beginning.
    pub at: Duration,
    /// Its queries.
    pub queries: usize,
}

/// One database and its scheduler.
#[derive(Clone, Debug)]
pub struct Simulation {
    /// How long queries wait for others.
    pub window: Window,
    /// The most requests that wait.
    pub capacity: usize,
    /// The most queries of a batch.
    pub limit: usize,
    /// Batches that are computed at the same time, at least 1.
    pub slots: usize,
    /// What is known of the backend's speed at the beginning.
    pub meter: PaceMeter,
}

/// A batch that was computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launched {
    /// When it began.
    pub at: Duration,
    /// How long it took.
    pub took: Duration,
    /// Its queries.
    pub queries: usize,
    /// Its requests, by their place among the arrivals.
    pub requests: Vec<usize>,
}

/// What happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Simulated {
    /// The batches, in the order in which they began.
    pub batches: Vec<Launched>,
    /// Requests that found the queue full, by their place among the arrivals.
    pub refused: Vec<usize>,
}

impl Simulation {
    /// Runs until all is answered. `arrivals` are in the order of their times; a batch that begins at a time with so many
    /// queries takes as long as `service` says.
    pub fn run(
        mut self,
        arrivals: &[Arrival],
        mut service: impl FnMut(Duration, usize) -> Duration,
    ) -> Simulated {
        let mut batcher = Batcher::new(self.window, self.capacity);
        batcher.set_slots(self.slots);
        let mut simulated = Simulated::default();
        let (mut now, mut arriving) = (Duration::ZERO, arrivals.iter().enumerate().peekable());
        // When each batch at hand is finished, by that time.
        let mut ends = BTreeMap::new();
        loop {
            let wakes = match batcher.next(now) {
                Next::Launch(Batch { number, queries, requests, .. }) => {
                    let took = service(now, queries);
                    let requests = requests.into_iter().map(|request| request.item).collect();
                    simulated.batches.push(Launched { at: now, took, queries, requests });
                    ends.insert((now.saturating_add(took), number), (queries, took));
                    continue;
                }
                Next::Wait(until) => Some(until),
                Next::Idle => None,
            };
            let arrives = arriving.peek().map(|(_, arrival)| arrival.at);
            let finishes = ends.first_key_value().map(|(&(at, _), _)| at);
            let Some(event) = [arrives, finishes, wakes].into_iter().flatten().min() else {
                return simulated;
            };
            now = now.max(event);
            if finishes.is_some_and(|at| at <= now)
                && let Some(((_, batch), (queries, took))) = ends.pop_first()
            {
                self.meter.note(queries, took);
                batcher.finished(batch);
            } else if let Some((i, arrival)) = arriving.next_if(|(_, arrival)| arrival.at <= now) {
                let terms = Terms { group: 0, limit: self.limit, pace: self.meter.pace() };
                if batcher.arrive(now, terms, arrival.queries, i).is_err() {
                    simulated.refused.push(i);
                }
            }
        }
    }
}

/// The times of a Poisson process with this many events a second, from the beginning on and for ever; the same for the
/// same seed.
pub fn poisson(rate: f64, seed: u64) -> impl Iterator<Item = Duration> {
    let (mut rng, mut seconds) = (ChaCha20Rng::seed_from_u64(seed), 0.0);
    std::iter::repeat_with(move || {
        // Uniform in [0, 1), so that the logarithm is finite.
        let uniform = (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        seconds -= f64::ln_1p(-uniform) / rate;
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    })
}
