//! One-hot queries under fresh secrets.

use spirea_math::random::SecretRng;
use spirea_math::sample::{LWE_NOISE, ternary};
use spirea_math::secret::{declassify, opaque};
use spirea_math::{Modulus, NttPlan, PrimePair, ShoupWord};
use zeroize::Zeroizing;

use super::{BlindingFactor, LweSet, PublicMatrix, RING_DEGREE, SCALE_BITS, Structure};

/// A ternary LWE secret. It is made with a query, used for the query's answer, and erased when
/// dropped.
///
/// The type does not allow reuse: A is fixed, so the difference of two queries under one secret is
/// the difference of their plaintexts plus small noise, which a server could read.
pub struct LweSecret(Zeroizing<Box<[i8]>>);

impl LweSecret {
    fn sample(set: LweSet, rng: &mut SecretRng) -> Self {
        Self(Zeroizing::new((0..set.degree()).map(|_| ternary(rng)).collect()))
    }

    /// Returns its n entries, each -1, 0 or 1. A server that packs needs them encrypted.
    pub fn entries(&self) -> &[i8] {
        &self.0
    }

    /// Returns `a s` mod 2^32 for a row `a` of n words, using masks: no branch depends on the
    /// secret.
    ///
    /// # Panics
    /// If the row does not have n words.
    pub fn inner_product(&self, row: &[u32]) -> u32 {
        assert_eq!(row.len(), self.0.len());
        row.iter().zip(self.0.iter()).fold(0u32, |sum, (&a, &s)| {
            let s = i32::from(s);
            // -a = !a + 1: the sign mask inverts a and adds 1; the last mask drops a if s is 0.
            let negative = (s >> 31) as u32;
            let nonzero = (-(s & 1)) as u32;
            sum.wrapping_add(((a ^ negative).wrapping_sub(negative)) & nonzero)
        })
    }
}

/// An encrypted unit vector, multiplied by a secret factor.
pub struct BlindedUnit {
    /// The bodies, one for each column: public.
    pub bodies: Vec<u32>,
    /// The factor, which the client removes from decoded numbers.
    pub factor: BlindingFactor,
}

/// A prepared public matrix, with which a client encrypts many queries.
pub struct LweEncryptor {
    matrix: PublicMatrix,
    ring: Option<RingProduct>,
    dropped_bits: u32,
}

impl LweEncryptor {
    /// Prepares `matrix`. For a structured matrix, transforms its polynomials, which takes 8 bytes
    /// for each coefficient of a polynomial and each prime.
    pub fn new(matrix: PublicMatrix) -> Self {
        let ring = match matrix.set().structure() {
            Structure::Module => Some(RingProduct::new(&matrix)),
            Structure::Uniform => None,
        };
        Self { matrix, ring, dropped_bits: 0 }
    }

    /// Returns the encryptor with bodies rounded to multiples of 2^`dropped_bits`, so that these
    /// bits need not be sent. Rounding applies to finished ciphertexts, so finding the plaintext
    /// stays as hard.
    #[must_use]
    pub fn rounding(self, dropped_bits: u32) -> Self {
        Self { dropped_bits, ..self }
    }

    /// Encrypts the unit vector of `position` under a fresh secret. Returns the bodies `b = -A s +
    /// e + 2^24 u`, one for each column, and the secret.
    ///
    /// # Panics
    /// If `position` is not a column.
    pub fn encrypt_unit(&self, position: usize, rng: &mut SecretRng) -> (Vec<u32>, LweSecret) {
        let secret = LweSecret::sample(self.matrix.set(), rng);
        (self.encrypt(&secret, position, 1 << SCALE_BITS, rng), secret)
    }

    /// Encrypts the unit vector of `position` times a fresh factor c, under a fresh secret. The
    /// bodies are `b = -A s + e + round(2^32 c / 257) u`.
    ///
    /// # Panics
    /// If `position` is not a column.
    pub fn encrypt_blinded(&self, position: usize, rng: &mut SecretRng) -> (BlindedUnit, LweSecret) {
        let secret = LweSecret::sample(self.matrix.set(), rng);
        (self.encrypt_blinded_under(&secret, position, rng), secret)
    }

    /// Runs [`Self::encrypt_blinded`] under the secret of another part of the same query. The other
    /// part must use another public matrix; otherwise a server could read both.
    ///
    /// # Panics
    /// If `position` is not a column.
    pub fn encrypt_blinded_under(
        &self,
        secret: &LweSecret,
        position: usize,
        rng: &mut SecretRng,
    ) -> BlindedUnit {
        let factor = BlindingFactor::sample(rng);
        BlindedUnit { bodies: self.encrypt(secret, position, factor.encoded(), rng), factor }
    }

    /// Returns the bodies of the unit vector of `position` times the secret word `scale`.
    fn encrypt(&self, secret: &LweSecret, position: usize, scale: u32, rng: &mut SecretRng) -> Vec<u32> {
        let is_column =
            declassify(position < self.matrix.columns(), "the position is a column of the matrix");
        assert!(is_column, "position out of range");
        let mut bodies = match &self.ring {
            Some(ring) => ring.times(secret),
            None => self.uniform_times(secret),
        };
        for (column, body) in bodies.iter_mut().enumerate() {
            // Every column is compared, so that neither time nor memory accesses reveal the
            // position.
            let differs = (column ^ position) as u64;
            let is_position = opaque(((differs.wrapping_sub(1) >> 63) as u32).wrapping_neg());
            *body = (scale & is_position).wrapping_sub(*body).wrapping_add(LWE_NOISE.sample(rng) as u32);
        }
        if self.dropped_bits > 0 {
            round_bodies(&mut bodies, self.dropped_bits, rng);
        }
        bodies
    }

    /// Computes A s from rows of the stream, one at a time without storing them: A takes 5 KiB or
    /// more for each column.
    fn uniform_times(&self, secret: &LweSecret) -> Vec<u32> {
        let mut row = vec![0; self.matrix.set().degree()];
        (0..self.matrix.columns())
            .map(|column| {
                self.matrix.stream_row(column, &mut row);
                secret.inner_product(&row)
            })
            .collect()
    }
}

/// Rounds words to the nearest multiples of 2^`bits`, where `bits` is at least 1. A random bit
/// decides the direction of halves. If halves were always rounded up, errors would have a mean of
/// 1/2. A fold, the sum over columns of words times bytes, would then have an error of millions.
fn round_bodies(bodies: &mut [u32], bits: u32, rng: &mut SecretRng) {
    let below_half = (1 << (bits - 1)) - 1;
    for bodies in bodies.chunks_mut(u32::BITS as usize) {
        let mut coins = [0; 4];
        rng.fill(&mut coins);
        let coins = u32::from_le_bytes(coins);
        for (i, body) in bodies.iter_mut().enumerate() {
            *body = body.wrapping_add(below_half + (coins >> i & 1)) >> bits << bits;
        }
    }
}

/// Product A s for the structured A: products of polynomials over two primes, recombined modulo
/// 2^32.
///
/// The product is exact: with A's coefficients centred, a sum of n terms is at most 1536 * 2^31 <
/// 2^42, far below half the product of the primes.
struct RingProduct {
    rank: usize,
    halves: [PrimeHalf; 2],
}

struct PrimeHalf {
    plan: NttPlan,
    /// Values of the polynomials with Shoup's companions, so that products with secrets need no
    /// division.
    values: Vec<ShoupWord>,
}

impl PrimeHalf {
    fn new(modulus: Modulus, stream: &[u32]) -> Self {
        let plan = NttPlan::new(modulus, RING_DEGREE);
        let mut values = Vec::with_capacity(stream.len());
        let mut polynomial = [0; RING_DEGREE];
        for coefficients in stream.chunks_exact(RING_DEGREE) {
            for (value, &coefficient) in polynomial.iter_mut().zip(coefficients) {
                *value = modulus.from_signed(i64::from(coefficient as i32));
            }
            plan.forward(&mut polynomial);
            values.extend(polynomial.iter().map(|&value| modulus.shoup(value)));
        }
        Self { plan, values }
    }

    fn transform(&self, secret: &LweSecret) -> Zeroizing<Vec<u32>> {
        let modulus = self.plan.modulus();
        let mut values = Zeroizing::new(secret.0.iter().map(|&s| modulus.lift(s.into())).collect::<Vec<_>>());
        values.chunks_exact_mut(RING_DEGREE).for_each(|polynomial| self.plan.forward(polynomial));
        values
    }

    /// Computes block row `block` of A s: the sum over j of a_j s_j, in coefficients.
    fn block(&self, block: usize, secret: &[u32], sum: &mut [u32; RING_DEGREE]) {
        let modulus = self.plan.modulus();
        let row = &self.values[block * secret.len()..][..secret.len()];
        sum.fill(0);
        for (a, s) in row.chunks_exact(RING_DEGREE).zip(secret.chunks_exact(RING_DEGREE)) {
            for ((sum, &a), &s) in sum.iter_mut().zip(a).zip(s) {
                // The argument is below q + 2q.
                *sum = modulus.reduce_lazy(*sum + modulus.mul_lazy(s, a));
            }
        }
        self.plan.inverse(sum);
    }
}

impl RingProduct {
    const PRIMES: PrimePair = PrimePair::LARGEST;

    fn new(matrix: &PublicMatrix) -> Self {
        let stream = matrix.stream();
        Self {
            rank: matrix.set().rank(),
            halves: [Self::PRIMES.first(), Self::PRIMES.second()]
                .map(|modulus| PrimeHalf::new(modulus, &stream)),
        }
    }

    fn times(&self, secret: &LweSecret) -> Vec<u32> {
        let [first, second] = &self.halves;
        let (s0, s1) = (first.transform(secret), second.transform(secret));
        let blocks = first.values.len() / (self.rank * RING_DEGREE);
        let mut product = Vec::with_capacity(blocks * RING_DEGREE);
        let mut sums = Zeroizing::new([[0; RING_DEGREE]; 2]);
        for block in 0..blocks {
            let [r0, r1] = &mut *sums;
            first.block(block, &s0, r0);
            second.block(block, &s1, r1);
            product.extend(r0.iter().zip(r1.iter()).map(|(&r0, &r1)| Self::PRIMES.recombine(r0, r1) as u32));
        }
        product
    }
}

#[cfg(test)]
mod tests {
    use spirea_math::random::Seed;

    use super::*;
    use crate::noise::rounding_variance;
    use proptest::prelude::*;

    fn noise_of(set: LweSet, seed: Seed, blocks: usize, position: usize) -> Vec<i32> {
        let matrix = PublicMatrix::new(set, seed, blocks * RING_DEGREE);
        let (bodies, secret) =
            LweEncryptor::new(matrix).encrypt_unit(position, &mut SecretRng::deterministic_for_tests(9));
        let entries = matrix.entries();
        bodies
            .iter()
            .zip(entries.chunks_exact(set.degree()))
            .enumerate()
            .map(|(column, (body, row))| {
                let plain = if column == position { 1 << SCALE_BITS } else { 0 };
                body.wrapping_add(secret.inner_product(row)).wrapping_sub(plain) as i32
            })
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]
        #[test]
        fn phases_are_the_unit_vector_and_small_noise(seed: [u8; 32], blocks in 1usize..4, position in 0usize..256) {
            for set in LweSet::ALL {
                let noise = noise_of(set, seed.into(), blocks, position + 256 * (blocks - 1));
                prop_assert!(noise.iter().all(|e| e.abs() <= 31), "{noise:?}");
                let variance = noise.iter().map(|&e| f64::from(e).powi(2)).sum::<f64>() / noise.len() as f64;
                prop_assert!((4.0..20.0).contains(&variance), "variance {variance}");
            }
        }

        #[test]
        fn inner_products_agree_with_definition(words in proptest::collection::vec(any::<u32>(), 1536), seed: u64, set in proptest::sample::select(LweSet::ALL.to_vec())) {
            let (row, secret) = (&words[..set.degree()], LweSecret::sample(set, &mut SecretRng::deterministic_for_tests(seed)));
            let expected = row.iter().zip(secret.0.iter()).fold(0u32, |sum, (&a, &s)| sum.wrapping_add(a.wrapping_mul(s as u32)));
            prop_assert_eq!(secret.inner_product(row), expected);
        }
    }

    #[test]
    fn bodies_are_rounded_to_the_nearest_and_halves_either_way() {
        let mut rng = SecretRng::deterministic_for_tests(2);
        for bits in [1, 4, 6] {
            let (step, half) = (1i64 << bits, 1i64 << (bits - 1));
            let words: Vec<u32> = (0..1 << 14).map(|i: u32| i.wrapping_mul(0x9e37_79b1)).collect();
            let mut rounded = words.clone();
            round_bodies(&mut rounded, bits, &mut rng);
            let errors = rounded.iter().zip(&words).map(|(rounded, word)| {
                assert_eq!(i64::from(*rounded) % step, 0);
                i64::from(rounded.wrapping_sub(*word) as i32)
            });
            let errors: Vec<i64> = errors.collect();
            assert!(errors.iter().all(|error| error.abs() <= half));
            assert!([half, -half].iter().all(|tie| errors.contains(tie)), "halves go one way");
            let sums = errors.iter().fold([0.0; 2], |[sum, squares], &error| {
                let error = error as f64;
                [sum + error, squares + error * error]
            });
            let [mean, variance] = sums.map(|sum| sum / errors.len() as f64);
            let expected = rounding_variance(bits);
            assert!(mean.abs() < 4.0 * (expected / errors.len() as f64).sqrt(), "{bits} bits: mean {mean}");
            assert!((variance / expected - 1.0).abs() < 0.06, "{bits} bits: {variance}, not {expected}");
        }
    }

    #[test]
    fn every_query_has_a_secret_of_its_own() {
        let encryptor = LweEncryptor::new(PublicMatrix::new(LweSet::Module1280, Seed::new([3; 32]), 256));
        let mut rng = SecretRng::from_os().unwrap();
        let (first, first_secret) = encryptor.encrypt_unit(7, &mut rng);
        let (second, second_secret) = encryptor.encrypt_unit(7, &mut rng);
        assert_ne!(first_secret.0, second_secret.0);
        // Under one secret, the difference would be noise only, below 2 * 31 everywhere.
        let small =
            first.iter().zip(&second).filter(|(a, b)| (a.wrapping_sub(**b) as i32).abs() < 64).count();
        assert!(small < 8, "{small} of 256 bodies agree up to noise");
    }
}
