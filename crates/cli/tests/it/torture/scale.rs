//! How much, how long, and which choices.

use std::time::Duration;

use chacha20::ChaCha20Rng;
use rand_core::{Rng as _, SeedableRng as _};

/// How much is done to the service.
pub struct Scale {
    /// Times that a server is killed.
    pub kills: usize,
    /// Each so-many-th of these servers takes keys in, too, and the one after the last kill.
    pub keyed_each: usize,
    /// The longest that it lives before.
    pub life: Duration,
    /// Clients that ask while versions are published.
    pub clients: usize,
    /// Threads on which they ask.
    pub threads: usize,
    /// How long they ask.
    pub asking: Duration,
    /// Malformed requests.
    pub malformed: usize,
    /// Connections that send a byte a second, as many again that send half a head and nothing more, and as many of each attack.
    pub slow: usize,
    /// Look-ups beside them.
    pub beside: usize,
    /// Look-ups while a replica dies.
    pub lookups: usize,
}

impl Scale {
    /// The short form, or the long one if SPIREA_TORTURE asks for it.
    pub fn chosen() -> Self {
        match std::env::var("SPIREA_TORTURE").as_deref() {
            Ok("long") => Self {
                kills: 200,
                keyed_each: 4,
                life: Duration::from_millis(600),
                clients: 500,
                threads: 8,
                asking: Duration::from_secs(600),
                malformed: 100_000,
                slow: 64,
                beside: 2000,
                lookups: 500,
            },
            Ok("") | Err(_) => Self {
                kills: 12,
                keyed_each: 6,
                life: Duration::from_millis(900),
                clients: 12,
                threads: 3,
                asking: Duration::from_secs(8),
                malformed: 2000,
                slow: 8,
                beside: 60,
                lookups: 40,
            },
            Ok(other) => panic!("SPIREA_TORTURE={other}: the only form beside the short one is long"),
        }
    }
}

/// Choices that can be repeated.
pub struct Dice(ChaCha20Rng);

impl Dice {
    /// Those of SPIREA_TORTURE_SEED, else of 1; other ones for each use.
    pub fn new(part: u64) -> Self {
        let seed = std::env::var("SPIREA_TORTURE_SEED").map_or(1, |seed| seed.parse().expect("a number"));
        Self(ChaCha20Rng::seed_from_u64(seed ^ (part << 32)))
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.0.next_u64() % bound.max(1) as u64).expect("it is below a usize")
    }

    /// So many bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.0.fill_bytes(&mut bytes);
        bytes
    }

    /// A duration of at most this.
    pub fn within(&mut self, most: Duration) -> Duration {
        Duration::from_micros(self.below(most.as_micros() as usize + 1) as u64)
    }

    /// One of these.
    pub fn of<'t, T>(&mut self, choices: &'t [T]) -> &'t T {
        &choices[self.below(choices.len())]
    }
}
