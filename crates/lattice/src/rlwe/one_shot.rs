//! Queries that carry their keys: each has its own secret, under uniform halves that are constants
//! of a database.
//!
//! A server computes everything that depends on uniform halves only once. Two ciphertexts under one
//! secret and one uniform half would differ by their messages and small noise, so a secret for
//! these halves must be used for one query only. It is drawn where the query is made
//! ([`UniformHalves::ask`]), and the returned [`AnswerSecret`] can only decrypt an answer.

use spirea_math::random::{SecretRng, Seed};
use spirea_math::{Rotations, SentChunks};
use zeroize::Zeroizing;

use super::query::Rounding;
use super::secret::push_bits;
use super::{LatticeError, RingSecret, RingSet, push_values, uniform_half};

/// Name for deriving the key of the uniform halves.
const NAME: &str = "spirea v1: uniform halves of queries that bring their keys";

/// Shape of a query with its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OneShotQuery {
    /// Ring set with rounded queries.
    pub set: RingSet,
    /// Form of the chunks, which determines the keys.
    pub chunks: SentChunks,
    /// Rotations of the chunks.
    pub rotations: Rotations,
}

impl OneShotQuery {
    /// Returns the number of ciphertexts in the keys.
    fn key_ciphertexts(&self) -> usize {
        self.chunks.keys() * self.set.expansion_gadget().levels(self.set.ring())
    }

    /// Returns the number of ciphertexts that follow the keys.
    fn ciphertexts(&self) -> usize {
        self.chunks.ciphertexts(self.rotations)
    }

    /// Returns the rounding of the ciphertexts that follow the keys.
    fn rounding(&self) -> Rounding {
        let dropped = match self.chunks {
            SentChunks::Expanded(_) => self.set.dropped_bits(),
            SentChunks::Apart => self.set.chunk_dropped_bits(),
        };
        Rounding { set: self.set, dropped }
    }

    fn key_bytes(&self) -> usize {
        self.key_ciphertexts() * self.set.ring().words() * self.set.prime_bits() as usize / 8
    }

    /// Returns the number of bytes of a query with its keys: the `b` halves of the keys in the
    /// order of [`SentChunks::exponents`], then the rounded `b` halves of the ciphertexts that
    /// follow the keys.
    pub fn bytes(&self) -> usize {
        self.key_bytes() + self.ciphertexts() * self.rounding().bytes()
    }

    /// Parses the `b` halves of a query into values: first the halves of the keys, then the halves
    /// of the ciphertexts that follow.
    ///
    /// # Errors
    /// [`LatticeError`] if the length is wrong, or a word is not below its prime.
    pub fn parse(&self, bytes: &[u8]) -> Result<Vec<u32>, LatticeError> {
        let malformed = |detail: String| LatticeError { what: "query", detail };
        let (expected, found) = (self.bytes(), bytes.len());
        let (keys, ciphertexts) = bytes
            .split_at_checked(self.key_bytes())
            .filter(|_| found == expected)
            .ok_or_else(|| malformed(format!("it has {found} bytes where the parameters say {expected}")))?;
        let ring = self.set.ring();
        let polynomials = self.key_ciphertexts() + self.ciphertexts();
        let mut words = Vec::with_capacity(polynomials * ring.words());
        push_values(ring, "query", keys, self.set.prime_bits(), &mut words)?;
        let halves = ciphertexts.chunks_exact(self.rounding().bytes());
        words.extend(halves.flat_map(|half| self.rounding().values(half)));
        Ok(words)
    }
}

/// The uniform halves of a database's queries and of their keys.
pub struct UniformHalves {
    shape: OneShotQuery,
    words: Vec<u32>,
}

impl UniformHalves {
    /// Derives the halves from the public `seed`. As for public matrices, the key of their streams
    /// is a hash of the seed, so that nobody can choose the key.
    pub fn new(shape: OneShotQuery, seed: &Seed) -> Self {
        let key = blake3::derive_key(NAME, seed.as_bytes()).into();
        let polynomials = 0..shape.key_ciphertexts() + shape.ciphertexts();
        let halves = polynomials.map(|i| uniform_half(shape.set.ring(), &key, i));
        Self { shape, words: halves.flatten().collect() }
    }

    /// Returns the shape of the queries.
    pub fn shape(&self) -> OneShotQuery {
        self.shape
    }

    /// Returns the halves as values: one for each ciphertext of the keys, then one for each
    /// ciphertext that follows the keys.
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// Makes a query: keys, then ciphertexts, each of which encrypts scale times number at some
    /// coefficients. Positions and scales are public, numbers secret. The secret of the query is
    /// drawn here and encrypts nothing else.
    ///
    /// # Panics
    /// If the number of ciphertexts is not that of the shape, or a position is not below the
    /// degree.
    pub fn ask<N: AsRef<[(usize, u128, i8)]>>(
        &self,
        ciphertexts: &[N],
        rng: &mut SecretRng,
    ) -> (Vec<u8>, AnswerSecret) {
        let (shape, ring) = (self.shape, self.shape.set.ring());
        assert_eq!(ciphertexts.len(), shape.ciphertexts(), "the numbers of each ciphertext");
        let secret = RingSecret::sample(shape.set, rng);
        let factors = shape.set.expansion_gadget().factors(ring);
        let mut bytes = Vec::with_capacity(shape.bytes());
        let mut halves = self.words.chunks_exact(ring.words()).map(<[u32]>::to_vec);
        let mut next = || halves.next().expect("a half for each ciphertext");
        for exponent in shape.chunks.exponents(ring.degree(), shape.rotations) {
            let image = secret.image(exponent);
            for &factor in &factors {
                let mut message = secret.key_message(factor, &image, rng);
                secret.mask(next(), &mut message);
                push_bits(&mut bytes, shape.set.prime_bits(), message.iter().map(|&word| word.into()));
            }
        }
        for numbers in ciphertexts {
            let mut message = secret.numbers(numbers.as_ref(), rng);
            ring.forward(&mut message);
            secret.mask(next(), &mut message);
            shape.rounding().push(message, &mut bytes);
        }
        (bytes, AnswerSecret(secret))
    }
}

/// The secret of a query that was made. It decrypts the answer and cannot encrypt.
pub struct AnswerSecret(RingSecret);

impl AnswerSecret {
    /// Returns [`RingSecret::phases`] of a switched ciphertext whose halves are given separately.
    ///
    /// # Errors
    /// Those of [`RingSecret::phases`].
    pub fn phases(
        &self,
        [a, b]: [&[u8]; 2],
        a_bits: u32,
        b_bits: u32,
    ) -> Result<Zeroizing<Vec<u64>>, LatticeError> {
        self.0.phases(&[a, b].concat(), a_bits, b_bits)
    }
}

#[cfg(test)]
mod tests {
    use spirea_math::Expansion;

    use super::*;

    fn shapes(set: RingSet) -> [OneShotQuery; 2] {
        let forms = [SentChunks::Expanded(Expansion::partial(4, 5)), SentChunks::Apart];
        forms.map(|chunks| OneShotQuery { set, chunks, rotations: Rotations::new(256, 5, 8) })
    }

    #[test]
    fn keys_and_numbers_have_their_phases_up_to_noise() {
        let of_sets = [
            (RingSet::Fast, [21 * 44_544 + 29_184, 6 * 44_544 + 5 * 29_184]),
            (RingSet::Brief, [14 * 44_544 + 29_184, 4 * 44_544 + 5 * 23_552]),
            (RingSet::Small, [56 * 30_720 + 26_624, 16 * 30_720 + 5 * 26_624]),
        ];
        for (set, bytes) in of_sets {
            shapes(set).into_iter().zip(bytes).for_each(|(shape, bytes)| check_phases(shape, bytes));
        }
    }

    fn check_phases(shape: OneShotQuery, bytes: usize) {
        let mut rng = SecretRng::deterministic_for_tests(21);
        let (set, ring) = (shape.set, shape.set.ring());
        let uniform = UniformHalves::new(shape, &Seed::new([5; 32]));
        // Each ciphertext encrypts other numbers.
        let numbers: Vec<_> = (0..shape.ciphertexts())
            .map(|i| [(i, set.scale(), 1), (17, ring.modulus() / 3, -1 - i as i8)])
            .collect();
        let (query, AnswerSecret(secret)) = uniform.ask(&numbers, &mut rng);
        assert_eq!((query.len(), uniform.shape().bytes()), (bytes, bytes));
        let halves = uniform.shape().parse(&query).unwrap();
        assert_eq!(halves.len(), uniform.words().len());
        let halves = uniform.words().chunks_exact(ring.words()).zip(halves.chunks_exact(ring.words()));
        let phases = halves.map(|(a, b)| {
            let mut phase = b.to_vec();
            ring.mul_add(&mut phase, a, &secret.values);
            phase
        });
        let exponents = shape.chunks.exponents(ring.degree(), shape.rotations);
        let targets = exponents.into_iter().flat_map(|exponent| {
            let image = secret.image(exponent);
            let scaled = |factor| {
                let mut scaled = image.to_vec();
                ring.scale_assign(&mut scaled, factor);
                scaled
            };
            set.expansion_gadget().factors(ring).into_iter().map(scaled).collect::<Vec<_>>()
        });
        let expected = numbers.iter().map(|numbers| {
            let mut expected = ring.zero();
            for &(place, scale, number) in numbers {
                ring.set_coefficient(&mut expected, place, scale as i128 * i128::from(number));
            }
            ring.forward(&mut expected);
            expected
        });
        let count = shape.key_ciphertexts();
        let mut checked = 0;
        for (i, (mut phase, target)) in phases.zip(targets.chain(expected)).enumerate() {
            ring.sub_assign(&mut phase, &target);
            ring.inverse(&mut phase);
            let coefficients = (0..4096).map(|i| ring.centred(ring.coefficient(&phase, i)).abs());
            let (largest, rounding) = (coefficients.max().unwrap(), 1 << (shape.rounding().dropped - 1));
            let most = if i < count { 31 } else { 31 + rounding };
            assert!((8..=most).contains(&largest), "{} {i}: noise up to {largest}", set.name());
            checked += 1;
        }
        assert_eq!(checked, count + shape.ciphertexts());
    }

    /// Returns the largest coefficient of the difference of two `b` halves (values). This
    /// coefficient is small if both halves have one secret and one uniform half.
    fn largest_difference(ring: &spirea_math::Ring, one: &[u32], other: &[u32]) -> u128 {
        let mut difference = one.to_vec();
        ring.sub_assign(&mut difference, other);
        ring.inverse(&mut difference);
        let coefficients = (0..ring.degree()).map(|i| ring.centred(ring.coefficient(&difference, i)));
        coefficients.map(i128::unsigned_abs).max().unwrap()
    }

    #[test]
    fn every_query_has_a_secret_of_its_own() {
        for shape in shapes(RingSet::Fast) {
            let mut rng = SecretRng::from_os().unwrap();
            let ring = RingSet::Fast.ring();
            let uniform = UniformHalves::new(shape, &Seed::new([5; 32]));
            let mut first_body = || {
                let (query, _) = uniform.ask(&vec![[]; shape.ciphertexts()], &mut rng);
                shape.parse(&query).unwrap()[..ring.words()].to_vec()
            };
            let [one, other] = [first_body(), first_body()];
            assert!(largest_difference(ring, &one, &other) > ring.modulus() >> 8);

            // The difference that a reused secret would leave.
            let mut rng = SecretRng::from_os().unwrap();
            let secret = RingSecret::sample(shape.set, &mut rng);
            let exponents = shape.chunks.exponents(ring.degree(), shape.rotations);
            let image = secret.image(exponents[0]);
            let factor = shape.set.expansion_gadget().factors(ring)[0];
            let [one, other] = [(); 2].map(|()| {
                let mut message = secret.key_message(factor, &image, &mut rng).to_vec();
                secret.mask(uniform.words()[..ring.words()].to_vec(), &mut message);
                message
            });
            assert!(one != other && largest_difference(ring, &one, &other) < 64);
        }
    }

    #[test]
    fn damaged_queries_are_refused() {
        for shape in shapes(RingSet::Fast) {
            let mut rng = SecretRng::deterministic_for_tests(22);
            let uniform = UniformHalves::new(shape, &Seed::new([6; 32]));
            let (query, _) = uniform.ask(&vec![[]; shape.ciphertexts()], &mut rng);
            for length in [0, 1, shape.key_bytes(), query.len() - 1] {
                assert!(shape.parse(&query[..length]).is_err());
            }
            assert!(shape.parse(&[&query[..], &[0]].concat()).is_err());
            let mut large = query.clone();
            large[shape.key_bytes() - 4..shape.key_bytes()].fill(255);
            assert!(shape.parse(&large).is_err());
            large[shape.key_bytes()..].fill(255);
            large[..shape.key_bytes()].fill(0);
            assert!(shape.parse(&large).is_ok());
        }
    }
}
