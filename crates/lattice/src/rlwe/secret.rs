//! The secret, with encryption and decryption.

use spirea_math::Ring;
use spirea_math::random::{SecretRng, Seed};
use spirea_math::sample::{LWE_NOISE, ternary};
use spirea_math::secret::{DAMAGED_KEYS_ARE_DROPPED, declassify};
use zeroize::Zeroizing;

use super::{LatticeError, RingSet};

/// A client's ternary secret, erased when dropped. It lives as long as its evaluation keys.
pub struct RingSecret {
    set: RingSet,
    /// Coefficients modulo each prime.
    pub(super) coefficients: Zeroizing<Vec<u32>>,
    /// Transformed coefficients.
    pub(super) values: Zeroizing<Vec<u32>>,
}

impl RingSecret {
    /// Draws a fresh secret.
    pub fn sample(set: RingSet, rng: &mut SecretRng) -> Self {
        let entries: Zeroizing<Vec<i32>> =
            Zeroizing::new((0..set.ring().degree()).map(|_| ternary(rng).into()).collect());
        Self::of(set, &entries)
    }

    fn of(set: RingSet, entries: &[i32]) -> Self {
        let ring = set.ring();
        let coefficients = Zeroizing::new(ring.lift(entries));
        let mut values = coefficients.clone();
        ring.forward(&mut values);
        Self { set, coefficients, values }
    }

    /// Returns the secret in its stored form: a byte for each coefficient, the coefficient plus 1.
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        let (ring, prime) = (self.ring(), self.ring().limbs()[0].prime());
        Zeroizing::new(self.coefficients[..ring.degree()].iter().map(|&x| prime.add(x, 1) as u8).collect())
    }

    /// Restores a secret from its stored form.
    ///
    /// # Errors
    /// [`LatticeError`] if the bytes are no secret.
    pub fn from_bytes(set: RingSet, bytes: &[u8]) -> Result<Self, LatticeError> {
        // A single branch, with the same outcome for every secret.
        let wrong = bytes.iter().fold(0, |wrong, &byte| wrong | 2u16.wrapping_sub(byte.into()) >> 15);
        let wrong = declassify(wrong != 0, DAMAGED_KEYS_ARE_DROPPED);
        if bytes.len() != set.ring().degree() || wrong {
            return Err(LatticeError { what: "secret", detail: "it is no ternary polynomial".into() });
        }
        let entries: Zeroizing<Vec<i32>> =
            Zeroizing::new(bytes.iter().map(|&byte| i32::from(byte) - 1).collect());
        Ok(Self::of(set, &entries))
    }

    /// Returns its ring set.
    pub fn set(&self) -> RingSet {
        self.set
    }

    pub(super) fn ring(&self) -> &'static Ring {
        self.set.ring()
    }

    /// Turns a message with its noise (values) into half `b` of the ciphertext with uniform half
    /// `a` (values): b = m + e - a s.
    pub(super) fn mask(&self, a: Vec<u32>, message: &mut [u32]) {
        let ring = self.ring();
        let mut product = Zeroizing::new(a);
        ring.mul_assign(&mut product, &self.values);
        ring.sub_assign(message, &product);
    }

    /// Adds fresh noise to a polynomial (coefficients).
    pub(super) fn add_noise(&self, a: &mut [u32], rng: &mut SecretRng) {
        let noise: Zeroizing<Vec<i32>> =
            Zeroizing::new((0..self.ring().degree()).map(|_| LWE_NOISE.sample(rng)).collect());
        self.ring().add_assign(a, &Zeroizing::new(self.ring().lift(&noise)));
    }

    /// Returns the phases of a switched ciphertext as fractions of 2^64. The ciphertext has N
    /// coefficients of `a` with `a_bits` bits each, then N of `b` with `b_bits` bits each, lowest
    /// bit first, without gaps. A phase is (a s) / 2^`a_bits` + b / 2^`b_bits` mod 1.
    ///
    /// The result is exact. The product uses the ring's own transforms, so a sum of 4096 centred
    /// coefficients of `a`, each of magnitude at most 2^`a_bits` / 2, must stay below q / 2.
    ///
    /// # Errors
    /// [`LatticeError`] if the length is wrong, or `a_bits` is too large for the ring.
    pub fn phases(
        &self,
        switched: &[u8],
        a_bits: u32,
        b_bits: u32,
    ) -> Result<Zeroizing<Vec<u64>>, LatticeError> {
        let ring = self.ring();
        let (degree, expected) = (ring.degree(), (a_bits + b_bits) as usize * ring.degree() / 8);
        if switched.len() != expected {
            let detail = format!("a ciphertext has {expected} bytes, not {}", switched.len());
            return Err(LatticeError { what: "answer", detail });
        }
        if (degree as u128) << a_bits >= ring.modulus() {
            let detail = format!("coefficients of {a_bits} bits are too many for the ring");
            return Err(LatticeError { what: "answer", detail });
        }
        let mut bits = Bits::new(switched);
        // Read as signed numbers: the representatives of least magnitude. For an answer within an
        // answer, they are secret.
        let signed = |_| (bits.take(a_bits) << (64 - a_bits)) as i64 >> (64 - a_bits);
        let a: Zeroizing<Vec<i64>> = Zeroizing::new((0..degree).map(signed).collect());
        let mut product = Zeroizing::new(ring.lift_wide(&a));
        ring.forward(&mut product);
        ring.mul_assign(&mut product, &self.values);
        ring.inverse(&mut product);
        let phase = |i: usize| {
            let product = ring.centred(ring.coefficient(&product, i)) as u64;
            (product << (64 - a_bits)).wrapping_add(bits.take(b_bits) << (64 - b_bits))
        };
        Ok(Zeroizing::new((0..degree).map(phase).collect()))
    }
}

/// Draws a fresh public seed.
pub(super) fn fresh_seed(rng: &mut SecretRng) -> Seed {
    let mut seed = [0; Seed::BYTES];
    rng.fill(&mut seed);
    Seed::new(declassify(seed, "the seed of a ciphertext's uniform half travels with it"))
}

/// Appends numbers of `bits` bits each, 1 to 64, lowest bit first and without gaps. Together they
/// must fill whole bytes.
pub(super) fn push_bits(bytes: &mut Vec<u8>, bits: u32, numbers: impl Iterator<Item = u64>) {
    let (mut pending, mut count) = (0u128, 0);
    for number in numbers {
        pending |= u128::from(number) << count;
        count += bits;
        if count >= 64 {
            bytes.extend_from_slice(&(pending as u64).to_le_bytes());
            (pending, count) = (pending >> 64, count - 64);
        }
    }
    debug_assert_eq!(count % 8, 0, "numbers fill whole bytes");
    bytes.extend_from_slice(&pending.to_le_bytes()[..count as usize / 8]);
}

/// Reader of numbers from bytes, lowest bit first, without gaps.
pub(super) struct Bits<'a> {
    bytes: &'a [u8],
    pending: u128,
    count: u32,
}

impl<'a> Bits<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, pending: 0, count: 0 }
    }

    /// Returns the next number of `bits` bits, 1 to 64; zeros follow the end.
    pub(super) fn take(&mut self, bits: u32) -> u64 {
        if self.count < bits {
            let (next, rest) = self.bytes.split_at(self.bytes.len().min(8));
            let mut word = [0; 8];
            word[..next.len()].copy_from_slice(next);
            self.pending |= u128::from(u64::from_le_bytes(word)) << self.count;
            (self.bytes, self.count) = (rest, self.count + 64);
        }
        let number = self.pending as u64 & (u64::MAX >> (64 - bits));
        (self.pending, self.count) = (self.pending >> bits, self.count - bits);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spirea_math::random::public_row;

    #[test]
    fn a_secret_is_read_back_from_its_bytes_and_no_others_are() {
        let mut rng = SecretRng::deterministic_for_tests(7);
        for set in RingSet::ALL {
            let secret = RingSecret::sample(set, &mut rng);
            let bytes = secret.to_bytes();
            let again = RingSecret::from_bytes(set, &bytes).unwrap();
            assert!(again.coefficients == secret.coefficients && again.values == secret.values);
            assert!(RingSecret::from_bytes(set, &bytes[1..]).is_err());
            for wrong in [3, 127, 128, 255] {
                let mut bytes = bytes.clone();
                bytes[4000] = wrong;
                assert!(RingSecret::from_bytes(set, &bytes).is_err(), "{wrong}");
                bytes[7] = wrong;
                assert!(RingSecret::from_bytes(set, &bytes).is_err(), "{wrong} twice");
            }
        }
    }

    #[test]
    fn phases_are_those_of_the_definition() {
        let mut rng = SecretRng::deterministic_for_tests(5);
        for set in RingSet::ALL {
            let secret = RingSecret::sample(set, &mut rng);
            let (a_bits, b_bits) = set.response_bits();
            let degree = RingSet::DEGREE;
            let mut words = vec![0; (a_bits + b_bits) as usize * degree / 32];
            public_row(&Seed::new([3; 32]), 0, &mut words);
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let bit = |i: usize| u64::from(bytes[i / 8] >> (i % 8) & 1);
            let number =
                |start: usize, bits: u32| (0..bits as usize).fold(0, |sum, i| sum | bit(start + i) << i);
            let a: Vec<u64> = (0..degree).map(|i| number(i * a_bits as usize, a_bits)).collect();
            let b: Vec<u64> =
                (0..degree).map(|i| number(degree * a_bits as usize + i * b_bits as usize, b_bits)).collect();
            let prime = secret.ring().limbs()[0].prime().value();
            let s: Vec<i64> = secret.coefficients[..degree]
                .iter()
                .map(|&x| if x > 1 { i64::from(x) - i64::from(prime) } else { i64::from(x) })
                .collect();
            let phases = secret.phases(&bytes, a_bits, b_bits).unwrap();
            for k in (0..degree).step_by(97) {
                let product = (0..degree).fold(0u64, |sum, i| {
                    let s = if i <= k { s[k - i] } else { -s[degree + k - i] };
                    sum.wrapping_add(a[i].wrapping_mul(s as u64))
                });
                let expected = (product << (64 - a_bits)).wrapping_add(b[k] << (64 - b_bits));
                assert_eq!(phases[k], expected, "{}: coefficient {k}", set.name());
            }
            assert!(secret.phases(&bytes[1..], a_bits, b_bits).is_err());
        }
    }

    /// The sum of 4096 products must stay below half the modulus.
    #[test]
    fn coefficients_too_long_for_the_ring_are_refused() {
        let mut rng = SecretRng::deterministic_for_tests(6);
        for (set, most) in [(RingSet::Small, 47), (RingSet::Fast, 74), (RingSet::Onion32, 93)] {
            let secret = RingSecret::sample(set, &mut rng);
            for (a_bits, fits) in [(most.min(56), true), (most + 1, false)] {
                let bytes = vec![0; (a_bits + 8) as usize * RingSet::DEGREE / 8];
                assert_eq!(secret.phases(&bytes, a_bits, 8).is_ok(), fits, "{}: {a_bits} bits", set.name());
            }
        }
    }

    #[test]
    fn numbers_are_read_back_as_they_were_written() {
        for bits in [1, 7, 8, 9, 31, 33, 57, 63, 64] {
            let numbers: Vec<u64> =
                (0..40u64).map(|i| (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits)).collect();
            let mut bytes = Vec::new();
            push_bits(&mut bytes, bits, numbers.iter().copied());
            assert_eq!(bytes.len(), 5 * bits as usize);
            let mut read = Bits::new(&bytes);
            assert!(numbers.iter().all(|&number| read.take(bits) == number), "{bits} bits");
            assert_eq!(read.take(bits), 0, "zeros behind the end");
        }
    }
}
