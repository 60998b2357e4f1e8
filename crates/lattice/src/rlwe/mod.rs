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
fn seeded_bytes(set: RingSet, count: usize) -> usize {
    Seed::BYTES + count * set.ring().words() * set.word_bits() as usize / 8
}

/// Splits `bytes`, which must have `expected` bytes, into the seed and the rest.
fn split_seed<'a>(
    what: &'static str,
    bytes: &'a [u8],
    expected: usize,
) -> Result<(Seed, &'a [u8]), LatticeError> {
    match bytes.split_first_chunk() {
        Some((seed, rest)) if bytes.len() == expected => Ok((Seed::new(*seed), rest)),
        _ => {
            let detail = format!("it has {} bytes where the parameters say {expected}", bytes.len());
            Err(LatticeError { what, detail })
        }
    }
}

/// Expands `count` ciphertexts from a seed and their `b` halves, each to [a | b] as values.
fn parse_seeded(
    set: RingSet,
    what: &'static str,
    bytes: &[u8],
    count: usize,
) -> Result<Vec<u32>, LatticeError> {
    let (seed, halves) = split_seed(what, bytes, seeded_bytes(set, count))?;
    let (ring, bits) = (set.ring(), set.word_bits());
    let mut words = Vec::with_capacity(2 * count * ring.words());
    for (i, half) in halves.chunks_exact(ring.words() * bits as usize / 8).enumerate() {
        words.extend(uniform_half(ring, &seed, i));
        push_values(ring, what, half, bits, &mut words)?;
    }
    Ok(words)
}

/// Appends values that were sent in `bits` bits each, lowest bit first and without gaps, in whole
/// polynomials.
fn push_values(
    ring: &Ring,
    what: &'static str,
    bytes: &[u8],
    bits: u32,
    words: &mut Vec<u32>,
) -> Result<(), LatticeError> {
    /// Count of numbers that are read together: 8 fill whole bytes for every number of bits.
    const TOGETHER: usize = 8;
    let first = words.len();
    let mut some = [0; size_of::<u32>() * TOGETHER + size_of::<u64>()];
    for bytes in bytes.chunks_exact(bits as usize) {
        some[..bits as usize].copy_from_slice(bytes);
        words.extend((0..TOGETHER).map(|i| {
            let (byte, shift) = (i * bits as usize / 8, i * bits as usize % 8);
            let number = u64::from_le_bytes(*some[byte..].first_chunk().expect("eight more bytes"));
            (number >> shift) as u32 & (u32::MAX >> (u32::BITS - bits))
        }));
    }
    let primes = ring.limbs().iter().map(|limb| limb.prime().value()).cycle();
    for (values, prime) in words[first..].chunks_exact(ring.degree()).zip(primes) {
        if values.iter().any(|&value| value >= prime) {
            return Err(LatticeError { what, detail: format!("a word is not below its prime {prime}") });
        }
    }
    Ok(())
}
