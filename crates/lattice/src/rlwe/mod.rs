//! Ring learning with errors: a client's secret, its evaluation keys, queries and responses.
//!
//! A ciphertext (a, b) has the phase b + a s = message + noise. Clients send b only. The half a is
//! uniform and derived from a seed: for ciphertext i and prime j, it has the values (transformed)
//! of stream `i * primes + j` of [`public_residues`]. If a secret lives for many queries, the seed
//! travels with b; if it lives for one query, the seed is a constant.

pub mod bound;
mod keys;
pub mod noise;
mod one_shot;
mod query;
mod secret;
mod set;

pub use keys::{Conversion, EvaluationKeyWords, KeyShape};
pub use one_shot::{AnswerSecret, OneShotQuery, UniformHalves};
pub use query::{parse_query, parse_rounded_query, query_bytes, rounded_query_bytes};
pub use secret::RingSecret;
pub use set::RingSet;

use spirea_math::Ring;
use spirea_math::random::{Seed, public_residues};

/// Bytes of a seed.
const SEED_BYTES: usize = size_of::<Seed>();

/// Error: bytes that do not have the form that the parameters give.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed {what}: {detail}")]
pub struct LatticeError {
    /// Kind of the bytes: `keys`, `query` or `answer`.
    pub what: &'static str,
    /// The fault.
    pub detail: String,
}

/// Returns the uniform half of ciphertext `i` of `seed`, as values.
fn uniform_half(ring: &Ring, seed: &Seed, i: usize) -> Vec<u32> {
    let mut a = ring.zero();
    let limbs = ring.limbs();
    for (j, (limb, a)) in limbs.iter().zip(a.chunks_exact_mut(ring.degree())).enumerate() {
        public_residues(seed, (i * limbs.len() + j) as u64, limb.prime(), a);
    }
    a
}

/// Returns the number of bytes of `count` ciphertexts with one seed.
fn seeded_bytes(ring: &Ring, count: usize) -> usize {
    SEED_BYTES + count * ring.words() * 4
}

/// Splits `bytes`, which must have `expected` bytes, into the seed and the rest.
fn split_seed<'a>(
    what: &'static str,
    bytes: &'a [u8],
    expected: usize,
) -> Result<(&'a Seed, &'a [u8]), LatticeError> {
    bytes.split_first_chunk().filter(|_| bytes.len() == expected).ok_or_else(|| {
        let detail = format!("it has {} bytes where the parameters say {expected}", bytes.len());
        LatticeError { what, detail }
    })
}

/// Expands `count` ciphertexts from a seed and their b halves, each to [a | b] as values.
fn parse_seeded(
    ring: &Ring,
    what: &'static str,
    bytes: &[u8],
    count: usize,
) -> Result<Vec<u32>, LatticeError> {
    let malformed = |detail: String| LatticeError { what, detail };
    let (seed, halves) = split_seed(what, bytes, seeded_bytes(ring, count))?;
    let mut words = Vec::with_capacity(2 * count * ring.words());
    for (i, half) in halves.chunks_exact(ring.words() * 4).enumerate() {
        words.extend(uniform_half(ring, seed, i));
        let b = words.len();
        words.extend(half.as_chunks().0.iter().map(|&word| u32::from_le_bytes(word)));
        for (limb, b) in ring.limbs().iter().zip(words[b..].chunks_exact(ring.degree())) {
            if b.iter().any(|&word| word >= limb.prime().value()) {
                return Err(malformed(format!("a word is not below its prime {}", limb.prime().value())));
            }
        }
    }
    Ok(words)
}
