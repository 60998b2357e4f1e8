//! Noise of the ring steps: closed forms of the variance of a coefficient.
//!
//! Signed digits and centred lifts make the terms independent with mean 0, so that variances add.
//! With N coefficients, a ternary secret has the squared length S2 = 2N/3.

use super::RingSet;
use crate::LweSet;
use spirea_math::{Gadget, Rotations};

/// The noise of a protocol's ring steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RingNoise {
    set: RingSet,
    levels: u32,
    /// Variance of the noise with which a query's ciphertext was encrypted; 0 if the query divides
    /// this noise away.
    encrypted: f64,
}

impl RingNoise {
    /// Returns the noise under a set, for ciphertexts from an expansion of `levels` levels.
    pub fn new(set: RingSet, levels: u32) -> Self {
        Self { set, levels, encrypted: 0.0 }
    }

    /// Returns the noise for rotated numbers: the encryption's noise is not divided away, and the b
    /// half is rounded.
    pub fn rounded(set: RingSet, levels: u32) -> Self {
        Self { set, levels, encrypted: Self::encrypted(set.dropped_bits()) }
    }

    /// Returns the noise if each chunk has its own ciphertext, without an expansion.
    pub fn apart(set: RingSet) -> Self {
        Self { set, levels: 0, encrypted: Self::encrypted(set.chunk_dropped_bits()) }
    }

    /// Returns the noise variance of an encryption whose coefficients lose their `dropped` lowest
    /// bits by rounding.
    fn encrypted(dropped: u32) -> f64 {
        RingSet::SIGMA.powi(2) + 4f64.powi(dropped as i32) / 12.0
    }

    fn degree() -> f64 {
        RingSet::DEGREE as f64
    }

    /// Returns the expected squared length of a secret.
    fn secret() -> f64 {
        2.0 * Self::degree() / 3.0
    }

    fn mean_squares(&self, gadget: Gadget) -> (f64, f64) {
        gadget.mean_squares(self.set.ring())
    }

    /// Returns the variance of a substitution: N sigma^2 times the digits' mean squares, plus the
    /// dropped bits times s.
    fn substitution(&self) -> f64 {
        let (digits, dropped) = self.mean_squares(self.set.expansion_gadget());
        Self::degree() * RingSet::SIGMA.powi(2) * digits + dropped * Self::secret()
    }

    /// Returns the variance that the substitutions add to a leaf. Each level quadruples the earlier
    /// variance and halves it by splitting, so all levels together give 2^levels - 1.
    fn expanded(&self) -> f64 {
        (2f64.powi(self.levels as i32) - 1.0) * self.substitution()
    }

    /// Returns the variance of a leaf, including the encryption's noise, which is doubled at every
    /// level.
    pub fn leaf(&self) -> f64 {
        self.expanded() + 4f64.powi(self.levels as i32) * self.encrypted
    }

    /// Returns the variance of a sum over `columns` leaves times plaintext polynomials whose
    /// coefficients have this mean square.
    pub fn fold(&self, columns: usize, mean_square: f64) -> f64 {
        columns as f64 * Self::degree() * mean_square * self.leaf()
    }

    /// Returns the variance of step `pack` for a secret of `set`: A is uniform, so plaintexts are
    /// uniform modulo p for every database.
    pub fn pack(&self, set: LweSet) -> f64 {
        self.fold(set.degree(), 4f64.powi(self.set.plaintext_bits() as i32) / 12.0)
    }

    /// Returns the variance of packing by rotations, with chunks as leaves.
    ///
    /// A plaintext is a sum of uniform numbers, one for each entry of a chunk. A leaf has one
    /// substitution for each power of 5, and one more for the sign; a sum over big automorphisms
    /// has one for each of them except the first. The query's numbers are multiplied by the
    /// doublings of the expansion and by the number of automorphisms, together by N, and so is the
    /// noise with which the query was encrypted.
    pub fn pack_rotated(&self, rotations: Rotations) -> f64 {
        let encrypted = rotations.chunks() as f64 * Self::degree().powi(2) * self.encrypted;
        self.rotated(rotations, encrypted, self.substitution())
    }

    /// Returns the variance of packing by rotations if each chunk has its own ciphertext and the
    /// key of the big step is derived, for noise from [`Self::apart`].
    ///
    /// The query's numbers are multiplied by the number n of automorphisms. The noise of the
    /// encryption is not: of its N coefficients, only the constant one has n equal images, and the
    /// squares of all images' sums add up to n N. A row of the derived key has the noise of its
    /// encryption and of the substitutions that made it.
    pub fn pack_apart(&self, rotations: Rotations) -> f64 {
        let images = rotations.entries() as f64 * Self::degree();
        let encrypted = rotations.chunks() as f64 * images * self.encrypted;
        let (digits, dropped) = self.mean_squares(self.set.expansion_gadget());
        let row = RingSet::SIGMA.powi(2) + rotations.derivations() as f64 * self.substitution();
        self.rotated(rotations, encrypted, Self::degree() * row * digits + dropped * Self::secret())
    }

    /// Returns the variance of packing by rotations. `encrypted` is the variance that the noise of
    /// encryption adds for each entry of a chunk, if plaintexts have variance 1. `by_big` is the
    /// variance of a substitution of the big step.
    fn rotated(&self, rotations: Rotations, encrypted: f64, by_big: f64) -> f64 {
        let uniform = 4f64.powi(self.set.plaintext_bits() as i32) / 12.0;
        let entries = rotations.entries() as f64;
        let substituted = |leaf: usize| (leaf / rotations.steps() + leaf % rotations.steps()) as f64;
        // Computed once: the choice of a shape asks for the noise of many candidates.
        let (expanded, substitution) = (self.expanded(), self.substitution());
        let leaves: f64 =
            (0..rotations.small()).map(|leaf| expanded + substituted(leaf) * substitution).sum();
        let products = (rotations.chunks() * rotations.big()) as f64 * leaves;
        (products * Self::degree() + encrypted) * entries * uniform + (rotations.big() - 1) as f64 * by_big
    }

    /// Returns the variance of the selector rows that are multiplied by the digits of `a`: leaves
    /// times s, converted by RGSW(s).
    pub fn converted(&self) -> f64 {
        let (digits, dropped) = self.mean_squares(self.set.conversion_gadget());
        self.leaf() * Self::secret()
            + 2.0 * Self::degree() * digits * RingSet::SIGMA.powi(2)
            + dropped * (1.0 + Self::secret()) * Self::secret()
    }

    /// Returns the variance that each level of a tournament adds.
    pub fn tournament_level(&self) -> f64 {
        let (digits, dropped) = self.mean_squares(self.set.selector_gadget());
        Self::degree() * digits * (self.leaf() + self.converted()) + dropped * (1.0 + Self::secret())
    }

    /// Returns the variance of a response, relative to the squared modulus: that of the steps, plus
    /// switching to the set's response bits.
    pub fn response(&self, steps: f64) -> f64 {
        let (a, b) = self.set.response_bits();
        let switched = Self::secret() / 12.0 / 4f64.powi(a as i32) + 1.0 / 12.0 / 4f64.powi(b as i32);
        steps / (self.set.ring().modulus() as f64).powi(2) + switched
    }
}

/// Returns the variance of rounding an LWE ciphertext of `set` to `bits` bits, relative to the
/// squared modulus.
pub fn lwe_rounding(set: LweSet, bits: u32) -> f64 {
    (1.0 + 2.0 * set.degree() as f64 / 3.0) / 12.0 / 4f64.powi(bits as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with vectors that `scripts/noise_vectors.py` computes from the document.
    #[test]
    fn closed_forms_agree_with_a_second_implementation() {
        let mut checked = 0;
        for line in include_str!("../../tests/vectors/noise.txt").lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let ["noise", set, kind, levels, number, arguments @ .., expected] = &words[..] else { continue };
            let (set, levels) = (RingSet::by_name(set).unwrap(), levels.parse().unwrap());
            let noise = match *kind {
                "new" => RingNoise::new(set, levels),
                "rounded" => RingNoise::rounded(set, levels),
                "apart" => RingNoise::apart(set),
                _ => panic!("{line}"),
            };
            let count = |word: &str| word.parse::<usize>().unwrap();
            let found = match (*number, arguments) {
                ("leaf", []) => noise.leaf(),
                ("fold", &[columns, square]) => noise.fold(count(columns), count(square) as f64),
                ("pack", &[set]) => noise.pack(LweSet::by_name(set).unwrap()),
                ("pack_rotated", &[entries, chunks, steps]) => {
                    noise.pack_rotated(Rotations::new(count(entries), count(chunks), count(steps)))
                }
                ("pack_apart", &[entries, chunks, steps]) => {
                    noise.pack_apart(Rotations::new(count(entries), count(chunks), count(steps)))
                }
                ("converted", []) => noise.converted(),
                ("tournament_level", []) => noise.tournament_level(),
                ("response", []) => noise.response(noise.leaf()),
                _ => panic!("{line}"),
            };
            let expected: f64 = expected.parse().unwrap();
            assert!((found - expected).abs() <= 1e-12 * expected, "{line}: {found}");
            checked += 1;
        }
        assert_eq!(checked, 385);
    }

    #[test]
    fn rounding_an_lwe_ciphertext_adds_a_twelfth_of_a_unit_for_each_entry_and_for_the_body() {
        for (set, squared_length) in [(LweSet::Module1280, 2560.0 / 3.0), (LweSet::Module1536, 1024.0)] {
            let unit: f64 = 1.0 / 1024.0;
            let expected = (1.0 + squared_length) / 12.0 * unit.powi(2);
            assert!((lwe_rounding(set, 10) - expected).abs() < 1e-12 * expected);
        }
    }
}
