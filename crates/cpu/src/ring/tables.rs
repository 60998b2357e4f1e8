//! Tables of a ring, in the order in which the kernels read them.

use std::sync::Arc;

use spirea_backend::BackendError;
use spirea_math::{Expansion, Modulus, Ring, Rotations, ShoupWord};

use super::modular::montgomery_one;

/// Maximum number of primes of a ring: their residues are recombined in the same number of 32-bit
/// limbs.
pub(super) const MOST_PRIMES: usize = 4;
/// Minimum degree: a vector of the widest lanes.
const LEAST_DEGREE: usize = 16;

/// Tables of a ring for vectors of a certain number of lanes.
#[derive(Debug)]
pub struct RingTables {
    ring: Arc<Ring>,
    lanes: usize,
    primes: Vec<PrimeTables>,
    substitutions: Vec<Substitution>,
    /// Automorphisms X -> X^(5^(2^i)).
    powers: Vec<Automorphism>,
    /// Automorphism X -> X^-1.
    sign: Automorphism,
}

/// Tables for transforms modulo one prime, in addition to the plan's own twiddles.
#[derive(Debug)]
pub(super) struct PrimeTables {
    pub q: Modulus,
    /// Twiddles of the forward transform's last layers, see [`tail`].
    pub forward_tail: Vec<u32>,
    /// Twiddles of the inverse transform's first layers, see [`tail`].
    pub inverse_tail: Vec<u32>,
    /// -2^32 divided by the ring's last prime, modulo this prime; 0 for the last prime itself.
    pub minus_inverse_of_last: u32,
}

/// An automorphism X -> X^k on values, for odd k.
///
/// Slot j in bit-reversed order belongs to the root with exponent 2 r + 1, where r is j reversed.
/// Its image has exponent k (2 r + 1), so r becomes k r + (k - 1) / 2. The low bits of r, which are
/// the vector's number, become a function of themselves alone. Whole vectors are therefore mapped
/// to whole vectors, and only the lanes inside are permuted, in one of at most `W` ways.
#[derive(Debug)]
pub(super) struct Automorphism {
    /// For each vector of the image: its source vector, and the number of its permutation.
    pub sources: Vec<(u32, u32)>,
    /// The permutations, `W` places each.
    pub places: Vec<u32>,
}

/// The substitution X -> X^(N / 2^level + 1) of a level of expansion, and the monomial
/// X^(-2^level).
#[derive(Debug)]
pub(super) struct Substitution {
    pub automorphism: Automorphism,
    /// The monomial's values for each prime.
    pub monomials: Vec<Monomial>,
}

/// Values of a monomial modulo one prime with their companions. The roots of 2^level consecutive
/// slots differ by factors whose power by the exponent is 1, so these slots have the same value.
/// From some level on, all slots of a vector have the same value.
#[derive(Debug)]
pub(super) enum Monomial {
    /// For each vector: `W` values, `W` companions.
    Slots(Vec<u32>),
    /// For each vector: the value of all its slots.
    Vectors(Vec<ShoupWord>),
}

impl RingTables {
    pub(crate) fn new(ring: &Arc<Ring>, lanes: usize) -> Result<Self, BackendError> {
        let primes = || ring.limbs().iter().map(|limb| limb.prime().value());
        let spread = primes().min().zip(primes().max());
        let fits = ring.degree() >= LEAST_DEGREE
            && ring.limbs().len() <= MOST_PRIMES
            && spread.is_some_and(|(least, most)| most / 4 < least);
        if !fits {
            return Err(BackendError::Unavailable(format!(
                "the processor's kernels take rings of degree {LEAST_DEGREE} or more and up to {MOST_PRIMES} primes \
                 within a factor of 4 of each other"
            )));
        }
        let (degree, levels) = (ring.degree(), ring.degree().trailing_zeros());
        // Rotations whose big step is 5^(2^log); only this step is used.
        let power = |log: u32| Rotations::new(2 << log, 1, 1 << log).keys(degree)[2];
        let last = primes().next_back().unwrap_or_default();
        let of_prime = |limb: &spirea_math::ring::Limb| {
            let q = limb.prime();
            PrimeTables {
                q,
                forward_tail: tail(limb.plan.forward_twiddles(), lanes),
                inverse_tail: tail(limb.plan.inverse_twiddles(), lanes),
                minus_inverse_of_last: q.neg(q.mul(montgomery_one(q), q.inverse(last % q.value()))),
            }
        };
        Ok(Self {
            ring: Arc::clone(ring),
            lanes,
            primes: ring.limbs().iter().map(of_prime).collect(),
            substitutions: (0..levels).map(|level| Substitution::new(ring, lanes, level)).collect(),
            powers: (0..levels).map(|log| Automorphism::new(degree, lanes, power(log))).collect(),
            sign: Automorphism::new(degree, lanes, 2 * degree - 1),
        })
    }

    /// Returns the ring.
    pub fn ring(&self) -> &Arc<Ring> {
        &self.ring
    }

    /// Returns the number of lanes of the vectors that these tables are for.
    pub(super) fn lanes(&self) -> usize {
        self.lanes
    }

    pub(super) fn degree(&self) -> usize {
        self.ring.degree()
    }

    /// Returns the words of a polynomial.
    pub(super) fn words(&self) -> usize {
        self.ring.words()
    }

    /// Returns the number of vectors of slots of a polynomial, over all primes.
    pub(super) fn tiles(&self) -> usize {
        self.words() / self.lanes
    }

    /// Returns the prime of a tile.
    pub(super) fn prime_of(&self, tile: usize) -> Modulus {
        self.primes[tile * self.lanes / self.degree()].q
    }

    pub(super) fn primes(&self) -> &[PrimeTables] {
        &self.primes
    }

    /// Returns the automorphisms that take a chunk to its image under 5, this image to the image
    /// under -5, and a result to the next one.
    pub(super) fn rotations(&self, rotations: Rotations) -> [&Automorphism; Rotations::KEYS] {
        [&self.powers[0], &self.sign, &self.powers[rotations.steps().trailing_zeros() as usize]]
    }

    /// Returns the substitution of a level of expansion.
    pub(super) fn substitution(&self, level: u32) -> &Substitution {
        &self.substitutions[level as usize]
    }
}

/// Returns the twiddles of the layers that combine the lanes of a vector, for transposed blocks of
/// `lanes` vectors. Lane l of block number b works on group b `lanes` + l of the layer that joins
/// halves of a vector. Layer s has 2^s twiddles for each of these groups. For each block, layer and
/// i < 2^s, the result has `lanes` values, then their companions. If the degree is too small for a
/// block, there are none.
fn tail(twiddles: &[ShoupWord], lanes: usize) -> Vec<u32> {
    let groups = twiddles.len() / lanes;
    let mut words = Vec::with_capacity(2 * twiddles.len());
    for block in 0..groups / lanes {
        for layer in 0..lanes.trailing_zeros() {
            for i in 0..1 << layer {
                let word = |lane: usize| twiddles[((groups + block * lanes + lane) << layer) + i];
                words.extend((0..lanes).map(|lane| word(lane).value));
                words.extend((0..lanes).map(|lane| word(lane).quotient));
            }
        }
    }
    words
}

impl Automorphism {
    /// Creates X -> X^`exponent`.
    fn new(degree: usize, lanes: usize, exponent: usize) -> Self {
        let reversed = |slot: usize| slot.reverse_bits() >> (usize::BITS - degree.trailing_zeros());
        let source = |slot: usize| {
            let root = (2 * reversed(slot) + 1) * exponent % (2 * degree);
            reversed(root / 2)
        };
        let mut places: Vec<u32> = Vec::new();
        let sources = (0..degree).step_by(lanes).map(|first| {
            let slots: Vec<usize> = (first..first + lanes).map(source).collect();
            let vector = slots[0] / lanes;
            assert!(slots.iter().all(|slot| slot / lanes == vector), "whole vectors go to whole vectors");
            let permutation: Vec<u32> = slots.iter().map(|slot| (slot % lanes) as u32).collect();
            let known = places.chunks_exact(lanes).position(|known| known == permutation);
            let number = known.unwrap_or_else(|| {
                places.extend(permutation);
                places.len() / lanes - 1
            });
            (vector as u32, number as u32)
        });
        Self { sources: sources.collect(), places }
    }
}

impl Substitution {
    fn new(ring: &Ring, lanes: usize, level: u32) -> Self {
        let degree = ring.degree();
        let automorphism = Automorphism::new(degree, lanes, Expansion::exponent(degree, level));
        // X^(-2^level) = -X^(N - 2^level).
        let mut values = ring.mul_monomial(&ring.lift(&[-1]), degree - (1 << level));
        ring.forward(&mut values);
        let monomials = ring.limbs().iter().zip(values.chunks_exact(degree)).map(|(limb, values)| {
            let words = values.iter().map(|&value| limb.prime().shoup(value));
            if 1 << level >= lanes {
                Monomial::Vectors(words.step_by(lanes).collect())
            } else {
                let words: Vec<ShoupWord> = words.collect();
                let vectors = words.chunks_exact(lanes).flat_map(|words| {
                    words.iter().map(|word| word.value).chain(words.iter().map(|word| word.quotient))
                });
                Monomial::Slots(vectors.collect())
            }
        });
        Self { automorphism, monomials: monomials.collect() }
    }
}
