//! A query's ciphertext: one polynomial that expands to many encrypted numbers.

use spirea_math::Expansion;
use spirea_math::random::{SecretRng, Seed};
use zeroize::Zeroizing;

use super::secret::{Bits, fresh_seed, push_bits};
use super::{LatticeError, RingSecret, RingSet, parse_seeded, seeded_bytes, split_seed, uniform_half};

/// Returns the number of bytes of a query's ciphertext: a seed and half `b`.
pub fn query_bytes(set: RingSet) -> usize {
    seeded_bytes(set, 1)
}

/// Parses a query's bytes into the ciphertext [a | b], as values.
///
/// # Errors
/// [`LatticeError`] if the length is wrong, or a word is not below its prime.
pub fn parse_query(set: RingSet, bytes: &[u8]) -> Result<Vec<u32>, LatticeError> {
    parse_seeded(set, "query", bytes, 1)
}

/// Rounding of the coefficients of half `b` of a ciphertext. It drops their lowest bits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rounding {
    pub set: RingSet,
    /// Number of omitted bits.
    pub dropped: u32,
}

impl Rounding {
    /// Returns the rounding of a query's one ciphertext.
    fn of_query(set: RingSet) -> Self {
        Self { set, dropped: set.dropped_bits() }
    }

    /// Returns the number of bits of a rounded coefficient.
    fn bits(self) -> u32 {
        u128::BITS - self.round(self.set.ring().modulus() - 1).leading_zeros()
    }

    /// Rounds a coefficient in [0, q) to the nearest number, without the dropped bits.
    fn round(self, coefficient: u128) -> u128 {
        (coefficient + ((1 << self.dropped) >> 1)) >> self.dropped
    }

    /// Returns the number of bytes of a rounded half `b`, whose coefficients are packed without
    /// gaps.
    pub fn bytes(self) -> usize {
        self.set.ring().degree() * self.bits() as usize / 8
    }

    /// Rounds half `b`, given as values, and appends it to `bytes`.
    pub fn push(self, mut b: Zeroizing<Vec<u32>>, bytes: &mut Vec<u8>) {
        let ring = self.set.ring();
        ring.inverse(&mut b);
        let numbers = (0..ring.degree()).map(|i| self.round(ring.coefficient(&b, i)) as u64);
        push_bits(bytes, self.bits(), numbers);
    }

    /// Returns the values of a rounded half `b`. The caller has checked its length.
    pub fn values(self, half: &[u8]) -> Vec<u32> {
        let (ring, bits) = (self.set.ring(), self.bits());
        let mut numbers = Bits::new(half);
        let numbers: Vec<i64> = (0..ring.degree()).map(|_| numbers.take(bits) as i64).collect();
        let mut b = ring.lift_wide(&numbers);
        ring.scale_assign(&mut b, 1 << self.dropped);
        ring.forward(&mut b);
        b
    }
}

/// Returns the number of bytes of a query's ciphertext with a rounded half `b`: a seed, and
/// coefficients packed without gaps.
pub fn rounded_query_bytes(set: RingSet) -> usize {
    Seed::BYTES + Rounding::of_query(set).bytes()
}

/// Parses a query's bytes with a rounded half `b` ([`RingSet::dropped_bits`]) into the ciphertext
/// [a | b], as values. All bytes of the right length are a ciphertext.
///
/// # Errors
/// [`LatticeError`] if the length is wrong.
pub fn parse_rounded_query(set: RingSet, bytes: &[u8]) -> Result<Vec<u32>, LatticeError> {
    let (seed, half) = split_seed("query", bytes, rounded_query_bytes(set))?;
    let mut words = uniform_half(set.ring(), &seed, 0);
    words.extend(Rounding::of_query(set).values(half));
    Ok(words)
}

impl RingSecret {
    /// Encrypts scale times number for each leaf, in the order of `leaves`, in one ciphertext that
    /// expands to them. Scales are public, numbers secret. The ciphertext's seed and noise are
    /// fresh.
    ///
    /// Message and noise are divided by 2^levels mod q, which the expansion's doublings cancel. (A
    /// uniform `a` times a unit is uniform, so security does not change.)
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
        // (q + 1) / 2 is the inverse of 2.
        let half = self.ring().modulus().div_ceil(2);
        (0..expansion.levels()).for_each(|_| self.ring().scale_assign(&mut message, half));
        let (seed, b) = self.seal(message, rng);
        let mut bytes = Vec::with_capacity(query_bytes(self.set()));
        bytes.extend(seed.as_bytes());
        push_bits(&mut bytes, self.set().word_bits(), b.iter().map(|&word| word.into()));
        bytes
    }

    /// Encrypts scale times number at some coefficients, and zeros at the others. Positions and
    /// scales are public, numbers secret. The ciphertext's seed and noise are fresh, and the noise
    /// is that of a normal encryption. Half `b` is rounded, which reveals nothing more.
    ///
    /// # Panics
    /// If a position is not below the degree, or the set has no such queries
    /// ([`RingSet::dropped_bits`]).
    pub fn encrypt_coefficients(&self, numbers: &[(usize, u128, i8)], rng: &mut SecretRng) -> Vec<u8> {
        let message = self.numbers(numbers, rng);
        let (seed, b) = self.seal(message, rng);
        let mut bytes = Vec::with_capacity(rounded_query_bytes(self.set()));
        bytes.extend(seed.as_bytes());
        Rounding::of_query(self.set()).push(b, &mut bytes);
        bytes
    }

    /// Returns the message of a rounded query: scale times number at some coefficients, with noise
    /// (coefficients).
    ///
    /// # Panics
    /// Those of [`Self::encrypt_coefficients`].
    pub(super) fn numbers(&self, numbers: &[(usize, u128, i8)], rng: &mut SecretRng) -> Zeroizing<Vec<u32>> {
        assert!(
            Rounding::of_query(self.set()).bits() < i64::BITS,
            "sets whose leaves are entries round nothing"
        );
        let mut message = self.message(numbers.iter().copied());
        self.add_noise(&mut message, rng);
        message
    }

    /// Returns the polynomial of scale times number at some coefficients.
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

    /// Encrypts a message with its noise (coefficients); returns the seed, and half `b` as values.
    fn seal(&self, mut message: Zeroizing<Vec<u32>>, rng: &mut SecretRng) -> (Seed, Zeroizing<Vec<u32>>) {
        self.ring().forward(&mut message);
        let seed = fresh_seed(rng);
        self.mask(uniform_half(self.ring(), &seed, 0), &mut message);
        (seed, message)
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
        for set in [RingSet::Fast, RingSet::Small] {
            let (ring, secret) = (set.ring(), RingSecret::sample(set, &mut rng));
            let numbers = [(0, set.scale(), 1), (4095, set.scale(), -1), (17, ring.modulus() / 3, -1)];
            let words = parse_rounded_query(set, &secret.encrypt_coefficients(&numbers, &mut rng)).unwrap();
            let most = 32 + (1 << (set.dropped_bits() - 1));
            let (a, b) = words.split_at(ring.words());
            let mut phase = b.to_vec();
            ring.mul_add(&mut phase, a, &secret.values);
            ring.inverse(&mut phase);
            for place in 0..4096 {
                let scaled = numbers.iter().find(|(at, ..)| *at == place);
                let expected = scaled.map_or(0, |&(_, scale, number)| scale as i128 * i128::from(number));
                let error = ring.coefficient(&phase, place) as i128 - expected;
                let error = ring.centred(error.rem_euclid(ring.modulus() as i128) as u128);
                assert!(error.abs() < most, "{}: coefficient {place} is off by {error}", set.name());
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

    #[test]
    fn any_bytes_of_the_length_are_a_rounded_query() {
        for (set, kept) in [(RingSet::Fast, 57), (RingSet::Small, 52)] {
            let length = rounded_query_bytes(set);
            assert_eq!(length, 32 + 512 * kept);
            let words = parse_rounded_query(set, &vec![255; length]).unwrap();
            let (ring, mut b) = (set.ring(), words[words.len() / 2..].to_vec());
            ring.inverse(&mut b);
            let expected = (((1 << kept) - 1) << set.dropped_bits()) % ring.modulus();
            assert!((0..ring.degree()).all(|i| ring.coefficient(&b, i) == expected));
            assert!(parse_rounded_query(set, &vec![0; length - 1]).is_err());
            assert!(parse_rounded_query(set, &vec![0; length + 1]).is_err());
        }
    }
}
