//! Hostile inputs from a seed, equal in every run.

use spirea_math::random::SecretRng;

/// Returns the number of inputs that a test makes: 100,000 with `SPIREA_CONFORMANCE=long`, else
/// `short`.
pub fn inputs(short: usize) -> usize {
    if std::env::var("SPIREA_CONFORMANCE").is_ok_and(|wanted| wanted == "long") { 100_000 } else { short }
}

/// Generator of inputs.
pub struct Inputs(SecretRng);

impl Inputs {
    /// Creates a generator whose inputs are determined by `seed`.
    pub fn new(seed: u64) -> Self {
        Self(SecretRng::deterministic_for_tests(seed))
    }

    /// Returns a number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        let number = self.bytes(8).try_into().expect("they are eight");
        (u64::from_le_bytes(number) % bound as u64) as usize
    }

    /// Returns random bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.0.fill(&mut bytes);
        bytes
    }

    /// Picks one of `choices`.
    pub fn of<'t, T>(&mut self, choices: &'t [T]) -> &'t T {
        &choices[self.below(choices.len())]
    }

    /// Returns one of the inputs after one to four changes: bits, bytes and numbers replaced, and
    /// parts removed, repeated, inserted or copied from another input.
    pub fn changed(&mut self, corpus: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = self.of(corpus).clone();
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len() + 1);
            let end = at + self.below((bytes.len() - at).min(64) + 1);
            match self.below(8) {
                0 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                1 if at < bytes.len() => bytes[at] = *self.of(&[0, 1, 0x7f, 0x80, 0xff, b'"', b'{', b',']),
                2 if at + 4 <= bytes.len() => {
                    let number = *self.of(&[0, 1, 0xff, 0x1_0000, u32::MAX, u32::MAX >> 1]);
                    bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
                }
                3 => drop(bytes.drain(at..end)),
                4 => {
                    let again = bytes[at..end].to_vec();
                    bytes.splice(at..at, again);
                }
                5 => {
                    let count = self.below(32);
                    let inserted = self.bytes(count);
                    bytes.splice(at..at, inserted);
                }
                6 => bytes.truncate(at),
                _ => {
                    let other = self.of(corpus).clone();
                    let from = self.below(other.len() + 1);
                    bytes.truncate(at);
                    bytes.extend_from_slice(&other[from..]);
                }
            }
        }
        bytes
    }
}
