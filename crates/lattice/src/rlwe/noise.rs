//! Noise of the ring steps: closed forms of the variance of a coefficient.
//!
//! Signed digits and centred lifts make the terms independent and of mean 0, so that variances add. With
//! N coefficients, a ternary secret has the squared length S2 = 2N/3.

use super::RingSet;
use crate::LweSet;
use spirea_math::{Gadget, Rotations};

/// The noise of a protocol's ring steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RingNoise {
    set: RingSet,
    levels: u32,
    /// The variance of what a query's ciphertext was encrypted with; 0 where it is divided away.
    encrypted: f64,
}

impl RingNoise {
    /// The noise under a set, of ciphertexts that come from an expansion of `levels` levels.
    pub fn new(set: RingSet, levels: u32) -> Self {
        Self { set, levels, encrypted: 0.0 }
    }

    /// The same where numbers are rotated: nothing is divided away, and the b half is rounded.
    pub fn rounded(set: RingSet, levels: u32) -> Self {
        let rounding = 4f64.powi(set.dropped_bits() as i32) / 12.0;
        Self { set, levels, encrypted: RingSet::SIGMA.powi(2) + rounding }
    }

    fn degree() -> f64 {
        RingSet::DEGREE as f64
    }

    /// The expected squared length of a secret.
    fn secret() -> f64 {
        2.0 * Self::degree() / 3.0
    }

    fn mean_squares(&self, gadget: Gadget) -> (f64, f64) {
        gadget.mean_squares(self.set.ring())
    }

    /// A substitution's: N sigma^2 times the digits' mean squares, and what the gadget drops times s.
    fn substitution(&self) -> f64 {
        let (digits, dropped) = self.mean_squares(self.set.expansion_gadget());
        Self::degree() * RingSet::SIGMA.powi(2) * digits + dropped * Self::secret()
    }

    /// What the substitutions leave in a leaf: each level doubles the variance of what came before twice over and halves
    /// it by splitting, so that those of all levels add up to 2^levels - 1.
    fn expanded(&self) -> f64 {
        (2f64.powi(self.levels as i32) - 1.0) * self.substitution()
    }

    /// A leaf's: with what was encrypted, doubled at every level.
    pub fn leaf(&self) -> f64 {
        self.expanded() + 4f64.powi(self.levels as i32) * self.encrypted
    }

    /// A sum over `columns` leaves times plaintext polynomials whose coefficients have this mean square.
    pub fn fold(&self, columns: usize, mean_square: f64) -> f64 {
        columns as f64 * Self::degree() * mean_square * self.leaf()
    }

    /// Step `pack` of a secret of `set`: plaintexts are uniform modulo p, whatever the database holds, since A is.
    pub fn pack(&self, set: LweSet) -> f64 {
        self.fold(set.degree(), 4f64.powi(self.set.plaintext_bits() as i32) / 12.0)
    }

    /// The same by rotations of leaves that are chunks: plaintexts are sums of as many uniform numbers as a chunk has
    /// entries, a leaf has been substituted once for each power of 5 and once more for the sign, and each sum over big
    /// automorphisms once for each of them but one. What the query was encrypted with meets numbers that are multiplied
    /// by the doublings of the expansion and by how many automorphisms there are, which is N together.
    pub fn pack_rotated(&self, rotations: Rotations) -> f64 {
        let uniform = 4f64.powi(self.set.plaintext_bits() as i32) / 12.0;
        let entries = rotations.entries() as f64;
        let substituted = |leaf: usize| (leaf / rotations.steps() + leaf % rotations.steps()) as f64;
        let leaves: f64 = (0..rotations.small())
            .map(|leaf| self.expanded() + substituted(leaf) * self.substitution())
            .sum();
        let products = (rotations.chunks() * rotations.big()) as f64 * leaves;
        let encrypted = rotations.chunks() as f64 * Self::degree().powi(2) * self.encrypted;
        (products * Self::degree() + encrypted) * entries * uniform
            + (rotations.big() - 1) as f64 * self.substitution()
    }

    /// The rows of a selector that the digits of a multiply: leaves times s, converted by RGSW(s).
    pub fn converted(&self) -> f64 {
        let (digits, dropped) = self.mean_squares(self.set.conversion_gadget());
        self.leaf() * Self::secret()
            + 2.0 * Self::degree() * digits * RingSet::SIGMA.powi(2)
            + dropped * (1.0 + Self::secret()) * Self::secret()
    }

    /// What each level of a tournament adds.
    pub fn tournament_level(&self) -> f64 {
        let (digits, dropped) = self.mean_squares(self.set.selector_gadget());
        Self::degree() * digits * (self.leaf() + self.converted()) + dropped * (1.0 + Self::secret())
    }

    /// A response's, as a share of the modulus: what the steps left, switched to the set's response bits.
    pub fn response(&self, steps: f64) -> f64 {
        let (a, b) = self.set.response_bits();
        let switched = Self::secret() / 12.0 / 4f64.powi(a as i32) + 1.0 / 12.0 / 4f64.powi(b as i32);
        steps / (self.set.ring().modulus() as f64).powi(2) + switched
    }
}

/// The variance of rounding an LWE ciphertext of `set` to `bits` bits, as a share of the modulus.
pub fn lwe_rounding(set: LweSet, bits: u32) -> f64 {
    (1.0 + 2.0 * set.degree() as f64 / 3.0) / 12.0 / 4f64.powi(bits as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `scripts/noise_vectors.py` computes them from the document.
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
                ("converted", []) => noise.converted(),
                ("tournament_level", []) => noise.tournament_level(),
                ("response", []) => noise.response(noise.leaf()),
                _ => panic!("{line}"),
            };
            let expected: f64 = expected.parse().unwrap();
            assert!((found - expected).abs() <= 1e-12 * expected, "{line}: {found}");
            checked += 1;
        }
        assert_eq!(checked, 216);
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
