//! The scheduler's policy in virtual time: its decisions on requests that arrive at given times,
//! for a backend of given speed. The [`Batcher`] and the [`PaceMeter`] are those of the server.

use std::collections::BTreeMap;
use std::time::Duration;

use chacha20::ChaCha20Rng;
use rand_core::{Rng as _, SeedableRng as _};

use crate::{Batch, Batcher, Next, PaceMeter, Terms, Window};

/// Arrival of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Time since the beginning.
    pub at: Duration,
    /// Number of its queries.
    pub queries: usize,
}

/// One database and its scheduler.
#[derive(Clone, Debug)]
pub struct Simulation {
    /// Time that queries wait for others.
    pub window: Window,
    /// Maximum number of waiting requests.
    pub capacity: usize,
    /// Maximum number of queries in a batch.
    pub limit: usize,
    /// Number of batches that are computed at the same time, at least 1.
    pub slots: usize,
    /// Initial knowledge of the backend's speed.
    pub meter: PaceMeter,
}

/// Batch that was computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launched {
    /// Time of its start.
    pub at: Duration,
    /// Duration of its computation.
    pub took: Duration,
    /// Number of its queries.
    pub queries: usize,
    /// Its requests, by their place among the arrivals.
    pub requests: Vec<usize>,
}

/// Result of a simulation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Simulated {
    /// The batches, in the order of their starts.
    pub batches: Vec<Launched>,
    /// Requests that found the queue full, by their place among the arrivals.
    pub refused: Vec<usize>,
}

impl Simulation {
    /// Runs until all requests are answered. `arrivals` must be ordered by time. `service` returns
    /// the duration of a batch, given its start and its number of queries.
    pub fn run(
        mut self,
        arrivals: &[Arrival],
        mut service: impl FnMut(Duration, usize) -> Duration,
    ) -> Simulated {
        let mut batcher = Batcher::new(self.window, self.capacity);
        batcher.set_slots(self.slots);
        let mut simulated = Simulated::default();
        let (mut now, mut arriving) = (Duration::ZERO, arrivals.iter().enumerate().peekable());
        // End of each running batch, ordered by time.
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

/// Returns the times of a Poisson process with `rate` events a second: an endless iterator from
/// time zero, deterministic for a seed.
pub fn poisson(rate: f64, seed: u64) -> impl Iterator<Item = Duration> {
    let (mut rng, mut seconds) = (ChaCha20Rng::seed_from_u64(seed), 0.0);
    std::iter::repeat_with(move || {
        // Uniform in [0, 1), so that the logarithm is finite.
        let uniform = (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        seconds -= f64::ln_1p(-uniform) / rate;
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    })
}
