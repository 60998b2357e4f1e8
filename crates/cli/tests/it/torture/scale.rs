//! Scale of the tests, and their random choices.

use std::time::Duration;

use chacha20::ChaCha20Rng;
use rand_core::{Rng as _, SeedableRng as _};

/// Amounts and durations.
pub struct Scale {
    /// Number of times that a server is killed.
    pub kills: usize,
    /// Every server whose number is a multiple of this also receives keys, and so does the server
    /// after the last kill.
    pub keyed_each: usize,
    /// Maximum life of a server before it is killed.
    pub life: Duration,
    /// Number of clients that ask while versions are published.
    pub clients: usize,
    /// Number of threads on which these clients ask.
    pub threads: usize,
    /// Duration for which these clients ask.
    pub asking: Duration,
    /// Number of malformed requests.
    pub malformed: usize,
    /// Number of connections that send one byte per second, number of connections that send half a
    /// head and nothing more, and number of connections of each attack.
    pub slow: usize,
    /// Number of look-ups during these attacks.
    pub beside: usize,
    /// Number of look-ups while a replica dies.
    pub lookups: usize,
}

impl Scale {
    /// Returns the short form, or the long form if SPIREA_TORTURE asks for it.
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

/// Repeatable random choices.
pub struct Dice(ChaCha20Rng);

impl Dice {
    /// Creates choices with the seed SPIREA_TORTURE_SEED, else 1; they differ for each `part`.
    pub fn new(part: u64) -> Self {
        let seed = std::env::var("SPIREA_TORTURE_SEED").map_or(1, |seed| seed.parse().expect("a number"));
        Self(ChaCha20Rng::seed_from_u64(seed ^ (part << 32)))
    }

    /// Returns a number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.0.next_u64() % bound.max(1) as u64).expect("it is below a usize")
    }

    /// Returns `count` bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.0.fill_bytes(&mut bytes);
        bytes
    }

    /// Returns a duration of at most `most`.
    pub fn within(&mut self, most: Duration) -> Duration {
        Duration::from_micros(self.below(most.as_micros() as usize + 1) as u64)
    }

    /// Returns one of the choices.
    pub fn of<'t, T>(&mut self, choices: &'t [T]) -> &'t T {
        &choices[self.below(choices.len())]
    }
}
