//! A query's ciphertext: one polynomial that expands to many encrypted numbers.

use spirea_math::Expansion;
use spirea_math::random::SecretRng;
use zeroize::Zeroizing;

use super::secret::fresh_seed;
use super::{LatticeError, RingSecret, RingSet, parse_seeded, seeded_bytes};

/// Bytes of a query's ciphertext: a seed and the b half.
pub fn query_bytes(set: RingSet) -> usize {
    seeded_bytes(set.ring(), 1)
}

/// The ciphertext [a | b], as values, of a query's bytes.
///
/// # Errors
/// [`LatticeError`] if they are not as many, or a word is not below its prime.
pub fn parse_query(set: RingSet, bytes: &[u8]) -> Result<Vec<u32>, LatticeError> {
    parse_seeded(set.ring(), "query", bytes, 1)
}

impl RingSecret {
    /// The ciphertext that expands to encryptions of scale times number, in the order of `leaves`: scales are
    /// public, numbers secret. Its seed and noise are fresh.
    ///
    /// Message and noise are divided by 2^levels mod q, which the expansion's doublings multiply by again. (a
    /// uniform a times a unit is uniform, so nothing else changes.)
    ///
    /// # Panics
    /// If there are more leaves than the expansion has.
    pub fn encrypt_leaves(
        &self,
        expansion: Expansion,
        leaves: &[(u128, i8)],
        rng: &mut SecretRng,
    ) -> Vec<u8> {
        assert!(leaves.len() <= expansion.leaves(), "more messages than leaves");
        let numbers = leaves.iter().enumerate();
        let numbers = numbers.map(|(leaf, &(scale, number))| (expansion.coefficient(leaf), scale, number));
        let mut message = self.message(numbers);
        self.add_noise(&mut message, rng);
        // (q + 1) / 2 is 1/2.
        let half = self.ring().modulus().div_ceil(2);
        (0..expansion.levels()).for_each(|_| self.ring().scale_assign(&mut message, half));
        self.seal(message, rng)
    }

    /// The ciphertext with scale times number at some coefficients and zeros at the others: places and scales are
    /// public, numbers secret. Its seed and noise are fresh, and its noise is that of any encryption.
    ///
    /// # Panics
    /// If a place is not below the degree.
    pub fn encrypt_coefficients(&self, numbers: &[(usize, u128, i8)], rng: &mut SecretRng) -> Vec<u8> {
        let mut message = self.message(numbers.iter().copied());
        self.add_noise(&mut message, rng);
        self.seal(message, rng)
    }

    /// Scale times number at some coefficients.
    fn message(&self, numbers: impl Iterator<Item = (usize, u128, i8)> + Clone) -> Zeroizing<Vec<u32>> {
        let ring = self.ring();
        let mut message = Zeroizing::new(ring.zero());
        for (limb, message) in ring.limbs().iter().zip(message.chunks_exact_mut(ring.degree())) {
            let prime = limb.prime();
            for (place, scale, number) in numbers.clone() {
                let scale = (scale % u128::from(prime.value())) as u32;
                message[place] = limb.barrett.mul(scale, prime.lift(number.into()));
            }
        }
        message
    }

    /// A message with its noise (coefficients) to a query's bytes.
    fn seal(&self, mut message: Zeroizing<Vec<u32>>, rng: &mut SecretRng) -> Vec<u8> {
        self.ring().forward(&mut message);
        let seed = fresh_seed(rng);
        self.mask(&seed, 0, &mut message);
        let mut bytes = Vec::with_capacity(query_bytes(self.set()));
        bytes.extend(seed);
        bytes.extend(message.iter().flat_map(|word| word.to_le_bytes()));
        bytes
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn messages_lie_at_their_leaves_coefficients() {
        let mut rng = SecretRng::deterministic_for_tests(12);
        for set in RingSet::ALL {
            let (ring, expansion) = (set.ring(), Expansion::covering(6));
            let secret = RingSecret::sample(set, &mut rng);
            let leaves = [(set.scale(), 1), (set.scale(), -1), (1 << 60, 1), (set.scale(), 0), (7 << 80, -1)];
            let words = parse_query(set, &secret.encrypt_leaves(expansion, &leaves, &mut rng)).unwrap();
            let (a, b) = words.split_at(ring.words());
            let mut phase = b.to_vec();
            ring.mul_add(&mut phase, a, &secret.values);
            ring.inverse(&mut phase);
            ring.scale_assign(&mut phase, 1 << expansion.levels());
            for (leaf, (scale, number)) in leaves.into_iter().enumerate() {
                let place = expansion.coefficient(leaf);
                let found = ring.centred(ring.coefficient(&phase, place));
                let expected = ring.centred(scale) * i128::from(number);
                let error = (found - expected).rem_euclid(ring.modulus() as i128);
                let error = ring.centred(error as u128);
                assert!(error.abs() < 32, "{}: leaf {leaf} is off by {error}", set.name());
            }
        }
    }

    #[test]
    fn numbers_lie_at_their_coefficients() {
        let mut rng = SecretRng::deterministic_for_tests(13);
        for set in RingSet::ALL {
            let (ring, secret) = (set.ring(), RingSecret::sample(set, &mut rng));
            let numbers = [(0, set.scale(), 1), (4095, set.scale(), -1), (17, ring.modulus() / 3, -1)];
            let words = parse_query(set, &secret.encrypt_coefficients(&numbers, &mut rng)).unwrap();
            let (a, b) = words.split_at(ring.words());
            let mut phase = b.to_vec();
            ring.mul_add(&mut phase, a, &secret.values);
            ring.inverse(&mut phase);
            for place in 0..4096 {
                let scaled = numbers.iter().find(|(at, ..)| *at == place);
                let expected = scaled.map_or(0, |&(_, scale, number)| scale as i128 * i128::from(number));
                let error = ring.coefficient(&phase, place) as i128 - expected;
                let error = ring.centred(error.rem_euclid(ring.modulus() as i128) as u128);
                assert!(error.abs() < 32, "{}: coefficient {place} is off by {error}", set.name());
            }
        }
    }

    #[test]
    fn queries_are_fresh_and_damaged_ones_are_refused() {
        let mut rng = SecretRng::from_os().unwrap();
        let set = RingSet::Fast;
        let secret = RingSecret::sample(set, &mut rng);
        let query =
            |rng: &mut SecretRng| secret.encrypt_leaves(Expansion::covering(2), &[(set.scale(), 1)], rng);
        let seeds: HashSet<Vec<u8>> = (0..50).map(|_| query(&mut rng)[..32].to_vec()).collect();
        assert_eq!(seeds.len(), 50);
        let bytes = query(&mut rng);
        assert_eq!(bytes.len(), query_bytes(set));
        assert!(parse_query(set, &bytes[1..]).is_err());
        let large = [&bytes[..bytes.len() - 4], &[255; 4]].concat();
        assert!(parse_query(set, &large).is_err());
    }
}
