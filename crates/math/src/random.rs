//! Randomness: secrets from the operating system, public matrices from a specified generator.

use std::borrow::Borrow;

use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};

use crate::{Modulus, secret};

/// A public seed: the key of the streams of [`public_row`] and [`public_residues`], or what such a
/// key is derived from.
///
/// The default, all zeros, is for parameters that are chosen only to compare their costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seed([u8; 32]);

impl Seed {
    /// Bytes of a seed.
    pub const BYTES: usize = 32;

    /// Returns the seed with these bytes.
    pub const fn new(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes.
    pub const fn as_bytes(&self) -> &[u8; Self::BYTES] {
        &self.0
    }

    fn stream(&self, number: u64) -> ChaCha20Rng {
        let mut stream = ChaCha20Rng::from_seed(self.0);
        stream.set_stream(number);
        stream
    }
}

impl From<[u8; Seed::BYTES]> for Seed {
    fn from(bytes: [u8; Seed::BYTES]) -> Self {
        Self(bytes)
    }
}

impl Borrow<[u8; Seed::BYTES]> for Seed {
    fn borrow(&self) -> &[u8; Seed::BYTES] {
        &self.0
    }
}

/// Generator of secrets: ChaCha20 keyed by the operating system. Its state is erased when dropped.
pub struct SecretRng(ChaCha20Rng);

/// Error: the operating system gave no randomness.
#[derive(Clone, Copy, Debug)]
pub struct NoEntropy;

impl std::fmt::Display for NoEntropy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the operating system gave no randomness; no query can be made safely")
    }
}

impl std::error::Error for NoEntropy {}

impl SecretRng {
    /// Creates a generator with a fresh 256-bit key from the operating system.
    ///
    /// # Errors
    /// [`NoEntropy`] if the system gives no randomness.
    pub fn from_os() -> Result<Self, NoEntropy> {
        let mut seed = zeroize::Zeroizing::new([0; 32]);
        getrandom::fill(seed.as_mut()).map_err(|_| NoEntropy)?;
        secret::poison(seed.as_mut());
        Ok(Self(ChaCha20Rng::from_seed(*seed)))
    }

    /// Creates a deterministic generator for tests and test vectors: never for a query that is
    /// sent. Needs the feature `testing`.
    #[cfg(any(test, feature = "testing"))]
    pub fn deterministic_for_tests(mut seed: u64) -> Self {
        secret::poison(&mut seed);
        Self(ChaCha20Rng::seed_from_u64(seed))
    }

    /// Returns the next 64 bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Fills `bytes` with random bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }
}

/// Fills `words` with row `row` of the public stream of `seed`.
///
/// The generator is specified, so that every language agrees: ChaCha with 20 rounds in Bernstein's
/// form (64-bit block counter from 0 in state words 12 and 13, 64-bit nonce in words 14 and 15),
/// key = `seed`, nonce = `row`, its keystream read as little-endian 32-bit words.
pub fn public_row(seed: &Seed, row: u64, words: &mut [u32]) {
    let mut stream = seed.stream(row);
    words.fill_with(|| stream.next_u32());
}

/// Fills `words` with the uniform residues of stream `row` of `seed`.
///
/// They are the words of [`public_row`]'s stream in order, each truncated to the bits of the prime.
/// Truncated words that are not below the prime are skipped.
pub fn public_residues(seed: &Seed, row: u64, modulus: Modulus, words: &mut [u32]) {
    let mut stream = seed.stream(row);
    let mask = u32::MAX >> modulus.value().leading_zeros();
    for word in words {
        *word = loop {
            let candidate = stream.next_u32() & mask;
            if candidate < modulus.value() {
                break candidate;
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computes a plain ChaCha20 block, following the specification.
    fn chacha_block(key: &Seed, counter: u64, nonce: u64) -> [u32; 16] {
        let mut state =
            [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        for (word, bytes) in state[4..12].iter_mut().zip(key.as_bytes().chunks_exact(4)) {
            *word = u32::from_le_bytes(bytes.try_into().unwrap());
        }
        state[12..].copy_from_slice(&[
            counter as u32,
            (counter >> 32) as u32,
            nonce as u32,
            (nonce >> 32) as u32,
        ]);
        let initial = state;
        let mut quarter = |a: usize, b: usize, c: usize, d: usize| {
            for (x, y, z, rotation) in [(a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)] {
                state[x] = state[x].wrapping_add(state[y]);
                state[z] = (state[z] ^ state[x]).rotate_left(rotation);
            }
        };
        for _ in 0..10 {
            for i in 0..4 {
                quarter(i, 4 + i, 8 + i, 12 + i);
            }
            for i in 0..4 {
                quarter(i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4);
            }
        }
        std::array::from_fn(|i| state[i].wrapping_add(initial[i]))
    }

    #[test]
    fn the_public_stream_is_the_stated_generator() {
        let seed = Seed::new(std::array::from_fn(|i| i as u8 * 7));
        for row in [0, 1, 255, u64::MAX - 3] {
            let mut words = [0; 1280];
            public_row(&seed, row, &mut words);
            for (counter, block) in words.chunks_exact(16).enumerate() {
                assert_eq!(block, chacha_block(&seed, counter as u64, row));
            }
        }
    }

    #[test]
    fn public_residues_are_the_stream_without_what_is_too_large() {
        let modulus = Modulus::new(268_460_033);
        let (mut stream, mut residues) = ([0; 4000], [0; 1500]);
        public_row(&Seed::new([9; 32]), 3, &mut stream);
        public_residues(&Seed::new([9; 32]), 3, modulus, &mut residues);
        let expected =
            stream.iter().map(|word| word & ((1 << 29) - 1)).filter(|&word| word < modulus.value());
        assert!(residues.iter().copied().eq(expected.take(1500)));
    }

    #[test]
    fn two_generators_of_secrets_differ() {
        let (mut a, mut b) = (SecretRng::from_os().unwrap(), SecretRng::from_os().unwrap());
        assert_ne!([a.next_u64(), a.next_u64()], [b.next_u64(), b.next_u64()]);
    }
}
