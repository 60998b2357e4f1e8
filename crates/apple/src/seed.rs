//! Uniform polynomials from seeds.
//!
//! The generator is CTR_DRBG of NIST SP 800-90A with AES-128, without a derivation function and
//! without personalisation. It is asked for 4096 bytes at a time.

use aes::Aes128;
use aes::cipher::{BlockCipherEncrypt, KeyInit};
use spirea_math::{Modulus, Ring};

/// Bytes of a seed.
pub const SEED_BYTES: usize = 32;
const BLOCK_BYTES: usize = 16;
/// Bytes of a request to the generator. The generator updates its key after each request.
const REQUEST_BYTES: usize = 4096;
/// Bytes of the number that is reduced to a coefficient.
const COEFFICIENT_BYTES: usize = 16;

struct Generator {
    cipher: Aes128,
    counter: u128,
}

impl Generator {
    fn new(seed: &[u8; SEED_BYTES]) -> Self {
        let mut generator = Self { cipher: Aes128::new(&[0; BLOCK_BYTES].into()), counter: 0 };
        generator.update(seed);
        generator
    }

    /// Fills whole blocks with the key stream.
    fn key_stream(&mut self, bytes: &mut [u8]) {
        let mut blocks = [aes::Block::default(); REQUEST_BYTES / BLOCK_BYTES];
        let blocks = &mut blocks[..bytes.len() / BLOCK_BYTES];
        for block in &mut *blocks {
            self.counter = self.counter.wrapping_add(1);
            *block = self.counter.to_be_bytes().into();
        }
        self.cipher.encrypt_blocks(blocks);
        bytes
            .chunks_exact_mut(BLOCK_BYTES)
            .zip(blocks)
            .for_each(|(bytes, block)| bytes.copy_from_slice(block));
    }

    fn update(&mut self, data: &[u8; SEED_BYTES]) {
        let mut state = [0; SEED_BYTES];
        self.key_stream(&mut state);
        state.iter_mut().zip(data).for_each(|(state, data)| *state ^= data);
        let (key, counter) = state.split_at(BLOCK_BYTES);
        self.cipher = Aes128::new_from_slice(key).expect("the length of a key");
        self.counter = u128::from_be_bytes(counter.try_into().expect("the length of a block"));
    }

    fn request(&mut self) -> [u8; REQUEST_BYTES] {
        let mut bytes = [0; REQUEST_BYTES];
        self.key_stream(&mut bytes);
        self.update(&[0; SEED_BYTES]);
        bytes
    }
}

/// Returns the uniform polynomial of a seed, as values of the ring.
///
/// Each coefficient takes 16 bytes of the generator: a little-endian number, reduced modulo the
/// prime.
pub fn uniform(ring: &Ring, seed: &[u8; SEED_BYTES]) -> Vec<u32> {
    let mut generator = Generator::new(seed);
    let mut values = ring.zero();
    for (limb, values) in ring.limbs().iter().zip(values.chunks_exact_mut(ring.degree())) {
        let high_factor = power_of_two(limb.prime(), 64);
        for values in values.chunks_mut(REQUEST_BYTES / COEFFICIENT_BYTES) {
            let bytes = generator.request();
            for (value, bytes) in values.iter_mut().zip(bytes.chunks_exact(COEFFICIENT_BYTES)) {
                let number = u128::from_le_bytes(bytes.try_into().expect("the length of a coefficient"));
                let (high, low) =
                    (limb.barrett.reduce((number >> 64) as u64), limb.barrett.reduce(number as u64));
                *value = limb.barrett.reduce(u64::from(high) * u64::from(high_factor) + u64::from(low));
            }
        }
    }
    values
}

fn power_of_two(prime: Modulus, exponent: u64) -> u32 {
    prime.pow(2, exponent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::set::RINGS;

    /// NIST's Cryptographic Algorithm Validation Program has a vector without reseeding, but for
    /// requests of 64 bytes. So this test computes the definition block by block.
    #[test]
    fn the_stream_is_the_definition_block_by_block() {
        let seed: [u8; SEED_BYTES] = std::array::from_fn(|i| i as u8);
        let encrypt = |key: [u8; 16], counter: u128| -> [u8; 16] {
            let mut block = counter.to_be_bytes().into();
            Aes128::new(&key.into()).encrypt_block(&mut block);
            block.into()
        };
        let update = |key, counter: u128, data: &[u8; 32]| -> ([u8; 16], u128) {
            let blocks = [encrypt(key, counter + 1), encrypt(key, counter + 2)].concat();
            let state: Vec<u8> = blocks.iter().zip(data).map(|(a, b)| a ^ b).collect();
            (state[..16].try_into().unwrap(), u128::from_be_bytes(state[16..].try_into().unwrap()))
        };
        let (mut key, mut counter) = update([0; 16], 0, &seed);
        let mut generator = Generator::new(&seed);
        for _ in 0..3 {
            let expected: Vec<u8> = (1..=256).flat_map(|i| encrypt(key, counter.wrapping_add(i))).collect();
            assert!(generator.request()[..] == expected);
            (key, counter) = update(key, counter.wrapping_add(256), &[0; 32]);
        }
    }

    #[test]
    fn coefficients_are_reduced_numbers_of_the_stream() {
        let ring = &RINGS.ciphertext;
        let mut generator = Generator::new(&[5; SEED_BYTES]);
        let values = uniform(ring, &[5; SEED_BYTES]);
        for (limb, values) in ring.limbs().iter().zip(values.chunks_exact(ring.degree())) {
            for values in values.chunks_exact(256) {
                let bytes = generator.request();
                for (&value, bytes) in values.iter().zip(bytes.chunks_exact(16)) {
                    let number = u128::from_le_bytes(bytes.try_into().unwrap());
                    assert_eq!(u128::from(value), number % u128::from(limb.prime().value()));
                }
            }
        }
    }
}
