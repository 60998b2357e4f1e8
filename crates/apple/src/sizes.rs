use crate::ciphertext::polynomial_bytes;
use crate::config::KeyConfig;
use crate::seed::SEED_BYTES;
use crate::set::{DEGREE, RINGS};
use crate::shape::{Compression, Shape};

/// Bytes that a client sends and receives, without the framing of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Bytes of a query.
    pub query_bytes: usize,
    /// Bytes of a response.
    pub response_bytes: usize,
    /// Bytes of an evaluation key.
    pub key_bytes: usize,
    /// Memory that the plaintexts take, in bytes.
    pub memory_bytes: u64,
}

impl Sizes {
    /// Returns the sizes of look-ups in a shard of this shape.
    pub fn of(shape: &Shape, compression: Compression) -> Self {
        let seeded = |ring| polynomial_bytes(ring) + SEED_BYTES;
        let dropped = shape.set().dropped_bits();
        let full: usize =
            dropped.map(|bits| polynomial_bytes(&RINGS.response) - DEGREE * bits as usize / 8).iter().sum();
        let switch_keys = KeyConfig::new(shape.set(), [shape], compression).galois_elements().len() + 1;
        let plaintexts = shape.tables() * shape.chunks() * shape.plaintexts();
        let plaintext = DEGREE * RINGS.ciphertext.limbs().len() * size_of::<u32>();
        Self {
            query_bytes: shape.leaves_of_ciphertexts().len() * seeded(&RINGS.ciphertext),
            response_bytes: shape.tables() * shape.chunks() * full,
            key_bytes: switch_keys * RINGS.ciphertext.limbs().len() * seeded(&RINGS.keys),
            memory_bytes: plaintexts as u64 * plaintext as u64,
        }
    }
}
