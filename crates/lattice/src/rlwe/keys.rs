//! Evaluation keys: encryptions of functions of a client's secret, which a server computes with.

use spirea_math::random::{SecretRng, Seed};
use spirea_math::{Expansion, Gadget, Ring, Rotations};
use zeroize::Zeroizing;

use super::secret::{fresh_seed, push_bits};
use super::{LatticeError, RingSecret, RingSet, parse_seeded, seeded_bytes, uniform_half};

/// Conversion of expanded ciphertexts to RGSW encryptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Conversion {
    /// No conversion.
    None,
    /// Conversion: the keys contain RGSW(s).
    Rgsw,
}

/// Operations that a client's keys must support.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyShape {
    /// Ring set.
    pub set: RingSet,
    /// Levels of the expansion.
    pub levels: u32,
    /// Rotations, if the protocol rotates.
    pub rotations: Option<Rotations>,
    /// Conversion to RGSW.
    pub conversion: Conversion,
}

/// Keys as words: ciphertexts [a | b], as values, concatenated.
pub struct EvaluationKeyWords {
    /// For each level, with exponent k, and each digit i of the expansion's gadget: phase `factor_i
    /// s(X^k)`.
    pub expansion: Vec<u32>,
    /// Ciphertexts with the phases of `expansion`, for each exponent of [`Rotations::keys`]; empty
    /// without rotations.
    pub rotations: Vec<u32>,
    /// Phase `factor_i s` for each digit of the conversion's gadget, then phase `factor_i s^2` for
    /// each digit; empty without conversion.
    pub conversion: Vec<u32>,
}

/// Writes the shape's name; equal names mean equal shapes.
impl std::fmt::Display for KeyShape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { set, levels, rotations, conversion } = self;
        write!(f, "{} {levels} {rotations:?} {conversion:?}", set.name())
    }
}

impl KeyShape {
    /// Returns the exponents of all substitutions: level by level, then those of the rotations.
    pub(super) fn exponents(&self) -> impl Iterator<Item = usize> {
        let degree = self.set.ring().degree();
        let rotations = self.rotations.map(|rotations| rotations.keys(degree));
        let levels = (0..self.levels).map(move |level| Expansion::exponent(degree, level));
        levels.chain(rotations.into_iter().flatten())
    }

    /// Returns the number of ciphertexts for a substitution.
    fn digits(&self) -> usize {
        self.set.expansion_gadget().levels(self.set.ring())
    }

    /// Returns the number of ciphertexts in the keys.
    pub(super) fn ciphertexts(&self) -> usize {
        let conversion = match self.conversion {
            Conversion::None => 0,
            Conversion::Rgsw => 2 * self.set.conversion_gadget().levels(self.set.ring()),
        };
        self.exponents().count() * self.digits() + conversion
    }

    /// Returns the number of bytes of the keys: a seed and the `b` halves.
    pub fn bytes(&self) -> usize {
        seeded_bytes(self.set, self.ciphertexts())
    }

    /// Parses keys and derives their uniform halves.
    ///
    /// # Errors
    /// [`LatticeError`] if the length is wrong, or a word is not below its prime.
    pub fn parse(&self, bytes: &[u8]) -> Result<EvaluationKeyWords, LatticeError> {
        let ring = self.set.ring();
        let mut expansion = parse_seeded(self.set, "keys", bytes, self.ciphertexts())?;
        let of_level = self.digits() * 2 * ring.words();
        let mut rotations = expansion.split_off(self.levels as usize * of_level);
        let rotated = self.rotations.map_or(0, |_| Rotations::KEYS);
        let conversion = rotations.split_off(rotated * of_level);
        Ok(EvaluationKeyWords { expansion, rotations, conversion })
    }
}

impl RingSecret {
    /// Makes fresh evaluation keys: a 32-byte seed, then the `b` halves, in the form of
    /// docs/wire/ring.md (11.3).
    ///
    /// # Panics
    /// If `shape` belongs to another set.
    pub fn evaluation_keys(&self, shape: &KeyShape, rng: &mut SecretRng) -> Vec<u8> {
        assert_eq!(shape.set, self.set(), "keys are of their secret's set");
        let ring = self.ring();
        let mut keys = Keys { seed: fresh_seed(rng), count: 0, bytes: Vec::with_capacity(shape.bytes()) };
        keys.bytes.extend(keys.seed.as_bytes());
        for exponent in shape.exponents() {
            keys.push(self, shape.set.expansion_gadget(), &self.image(exponent), rng);
        }
        if shape.conversion == Conversion::Rgsw {
            let mut square = self.values.clone();
            ring.mul_assign(&mut square, &self.values);
            keys.push(self, shape.set.conversion_gadget(), &self.values, rng);
            keys.push(self, shape.set.conversion_gadget(), &square, rng);
        }
        keys.bytes
    }

    /// Returns s(X^`exponent`) (values).
    pub(super) fn image(&self, exponent: usize) -> Zeroizing<Vec<u32>> {
        let mut image = Zeroizing::new(self.ring().automorphism(&self.coefficients, exponent));
        self.ring().forward(&mut image);
        image
    }

    /// Returns the message of a key: `factor` times `target` with fresh noise (values).
    pub(super) fn key_message(
        &self,
        factor: u128,
        target: &[u32],
        rng: &mut SecretRng,
    ) -> Zeroizing<Vec<u32>> {
        let ring = self.ring();
        let mut message = Zeroizing::new(ring.zero());
        self.add_noise(&mut message, rng);
        ring.forward(&mut message);
        let mut scaled = Zeroizing::new(target.to_vec());
        ring.scale_assign(&mut scaled, factor);
        ring.add_assign(&mut message, &scaled);
        message
    }
}

/// Keys under construction.
struct Keys {
    seed: Seed,
    count: usize,
    bytes: Vec<u8>,
}

impl Keys {
    /// Adds an encryption of the factor times `target` (values), for each digit of a gadget.
    fn push(&mut self, secret: &RingSecret, gadget: Gadget, target: &[u32], rng: &mut SecretRng) {
        let ring: &Ring = secret.ring();
        for factor in gadget.factors(ring) {
            let mut message = secret.key_message(factor, target, rng);
            secret.mask(uniform_half(ring, &self.seed, self.count), &mut message);
            push_bits(&mut self.bytes, secret.set().word_bits(), message.iter().map(|&word| word.into()));
            self.count += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn shape(set: RingSet) -> KeyShape {
        let rotations = Some(Rotations::new(256, 5, 8));
        KeyShape { set, levels: 2, rotations, conversion: Conversion::Rgsw }
    }

    #[test]
    fn keys_have_their_phases_up_to_noise() {
        let mut rng = SecretRng::deterministic_for_tests(8);
        for set in RingSet::ALL {
            let (ring, shape) = (set.ring(), shape(set));
            let secret = RingSecret::sample(set, &mut rng);
            let keys = shape.parse(&secret.evaluation_keys(&shape, &mut rng)).unwrap();
            let mut square = secret.values.to_vec();
            ring.mul_assign(&mut square, &secret.values);
            // 390625 is 5^8.
            let images = [4097, 2049, 5, 8191, 390_625 % 8192].map(|exponent| {
                let mut image = ring.automorphism(&secret.coefficients, exponent);
                ring.forward(&mut image);
                image
            });
            let targets: Vec<_> = images
                .into_iter()
                .map(|image| (set.expansion_gadget(), image))
                .chain([secret.values.to_vec(), square].map(|target| (set.conversion_gadget(), target)))
                .collect();
            let words = [keys.expansion, keys.rotations, keys.conversion].concat();
            let mut ciphertexts = words.chunks_exact(2 * ring.words());
            for (gadget, target) in targets {
                for factor in gadget.factors(ring) {
                    let (a, b) = ciphertexts.next().unwrap().split_at(ring.words());
                    let mut phase = b.to_vec();
                    ring.mul_add(&mut phase, a, &secret.values);
                    let mut scaled = target.clone();
                    ring.scale_assign(&mut scaled, factor);
                    ring.sub_assign(&mut phase, &scaled);
                    ring.inverse(&mut phase);
                    let largest =
                        (0..4096).map(|i| ring.centred(ring.coefficient(&phase, i)).abs()).max().unwrap();
                    assert!((8..=31).contains(&largest), "{}: noise up to {largest}", set.name());
                }
            }
            assert!(ciphertexts.next().is_none());
        }
    }

    #[test]
    fn shapes_that_differ_are_written_differently() {
        let one = shape(RingSet::Fast);
        let shapes = [
            one,
            KeyShape { set: RingSet::Small, ..one },
            KeyShape { levels: 3, ..one },
            KeyShape { rotations: None, ..one },
            KeyShape { rotations: Some(Rotations::new(256, 6, 8)), ..one },
            KeyShape { conversion: Conversion::None, ..one },
        ];
        let names: HashSet<String> = shapes.iter().map(KeyShape::to_string).collect();
        assert_eq!(names.len(), shapes.len());
    }

    #[test]
    fn damaged_keys_are_refused() {
        let mut rng = SecretRng::deterministic_for_tests(9);
        let shape = shape(RingSet::Fast);
        let keys = RingSecret::sample(RingSet::Fast, &mut rng).evaluation_keys(&shape, &mut rng);
        assert_eq!(keys.len(), shape.bytes());
        for length in [0, 31, 32, keys.len() - 1] {
            assert!(shape.parse(&keys[..length]).is_err());
        }
        let mut large = keys.clone();
        let end = large.len();
        large[end - 4..].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(shape.parse(&large).is_err());
        assert!(shape.parse(&[keys, vec![0]].concat()).is_err());
    }
}
