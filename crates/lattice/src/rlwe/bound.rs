//! A bound on the noise of a response for every database under a public pad: what a coefficient exceeds with which
//! probability over the pad, the client's secret and keys, and the query. `docs/protocols/onion.md` has the theorem, its
//! proof and its assumptions; the names of its parts are those of the members here.
//!
//! Leaves of an expansion are not independent: the noise of one substitution reaches all leaves below it, and plaintexts
//! whose signs follow the tree would add it up. Under a pad plaintexts are uniform whatever is stored, and what a
//! coefficient of a fold gets is a bilinear form in them and in the noise of the keys.

use std::f64::consts::{LN_2, PI};

use spirea_math::{Expansion, Gadget};

use super::RingSet;
use crate::noise::square_sum_excess;

/// log2 of the probability with which each of the few events may happen that the bound leaves out: far below what is
/// required, and so far that they cost the rest little.
const EXCEPTION_LOG2: f64 = -128.0;
/// Exceptions: of the expansion's digits (their squares in each value, and in all), the selectors' noise, the
/// secret's values and the conversion key's noise.
const EXCEPTIONS: f64 = 5.0;
/// What small terms add to squares at most: plaintexts' and selectors' means of -1/2, the query's own noise, the two
/// ends of the highest digit, which are 4 in its width.
const SMALL_TERMS: f64 = 1.01;
/// The variance of an entry of a secret, which is its proxy.
const TERNARY: f64 = 2.0 / 3.0;
/// What the roundings of substitutions weigh: they all meet one secret, so that deviations of levels add, which are
/// shares 1/2, 1/4, ... of a square (their sum squared is below 6); and they share it with the rounding of a response,
/// of which a tenth is added there (11 for 1 + 1/0.1).
const DROPPED_WEIGHT: f64 = 66.0;
const SWITCHED_WEIGHT: f64 = 1.1;

/// A fold over the first leaves of an expansion and a tournament by the next ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PaddedFold {
    /// The parameters.
    pub set: RingSet,
    /// Leaves of the first dimension.
    pub columns: usize,
    /// Levels of the tournament.
    pub depth: usize,
    /// The tree that all leaves come from.
    pub expansion: Expansion,
}

/// Squares of the singular values of a linear map of noise, by their sum and the greatest.
#[derive(Clone, Copy, Debug)]
struct Squares {
    sum: f64,
    greatest: f64,
}

impl Squares {
    /// What the squared length of the image stays below, but with the probability of an exception.
    fn exceeded(self) -> f64 {
        self.sum * square_sum_excess(self.sum / self.greatest, EXCEPTION_LOG2)
    }
}

fn degree() -> f64 {
    RingSet::DEGREE as f64
}

/// The expected squared length of a secret.
fn secret() -> f64 {
    TERNARY * degree()
}

/// The dropped low bits of a gadget's rounding: at most half of this is off.
fn step(gadget: Gadget) -> f64 {
    match gadget {
        Gadget::Residues => 0.0,
        Gadget::Digits { dropped: 0, .. } => 0.0,
        Gadget::Digits { dropped, .. } => 2f64.powi(dropped as i32),
    }
}

impl PaddedFold {
    /// log2 of a bound on the probability that any of `coefficients` coefficients of responses to one query is off by
    /// more than `share` of half a step of q / p, which decoding tolerates.
    pub fn exceedance_log2(&self, coefficients: usize, share: f64) -> f64 {
        let q = self.set.ring().modulus() as f64;
        let fold = self.leaves(0, self.columns);
        let (_, b_bits) = self.set.response_bits();
        let p = 2f64.powi(self.set.plaintext_bits() as i32);
        // What rounding takes at most: of the scale, of a response's b, and of what selectors multiply, where all
        // entries of the secret may have the worst sign.
        let rounded = p / 2.0
            + q / 2f64.powi(b_bits as i32 + 1)
            + self.depth as f64 * (degree() + 1.0) * step(self.set.selector_gadget()) / 2.0;
        let tolerated = share * q / p / 2.0 - rounded;
        if tolerated <= 0.0 {
            return 0.0;
        }
        let added = self.switched() + self.selected();
        // ln E exp(t noise) is at most this: plaintexts first, a Gaussian proxy p^2 / 12 each, then the keys' noise.
        let plaintext = p * p / 12.0;
        let exponent = |t: f64| {
            let shrunk = (-t * t * plaintext * fold.greatest).ln_1p();
            t * t * added / 2.0 - fold.sum / fold.greatest / 2.0 * shrunk - t * tolerated
        };
        // Convex in t, which is below what makes the logarithm infinite.
        let (mut low, mut high) = (0.0, (1.0 - 1e-9) / (plaintext * fold.greatest).sqrt());
        for _ in 0..200 {
            let third = (high - low) / 3.0;
            if exponent(low + third) < exponent(high - third) {
                high -= third;
            } else {
                low += third;
            }
        }
        // Selectors' digits are not quite uniform, on either half and each level.
        let ragged = 2.0 * self.depth as f64 * self.ragged(self.set.selector_gadget());
        let either_side = (2.0 * coefficients as f64).log2();
        let exceeded = (exponent(low).min(0.0) + ragged) / LN_2 + either_side;
        (exceeded.exp2() + EXCEPTIONS * EXCEPTION_LOG2.exp2() + self.vanishing()).log2().min(0.0)
    }

    /// The probability that all digits of some node vanish together in a value modulo a prime: then its children's a
    /// halves are not made uniform by the keys'.
    fn vanishing(&self) -> f64 {
        let ring = self.set.ring();
        let digits = self.set.expansion_gadget().levels(ring) as i32;
        let of_node: f64 =
            ring.limbs().iter().map(|limb| degree() * f64::from(limb.prime().value()).powi(-digits)).sum();
        self.expansion.substitutions() as f64 * of_node
    }

    /// The map from the noise of keys (and the secret, as far as digits drop bits) to the noise of `count` leaves from
    /// `first` on, all but sure bounds over the uniform halves.
    ///
    /// A substitution of level l reaches 2^(L-l-1) leaves' worth of each leaf below it, on the average of its spectrum
    /// and exactly so in the sum of squares; in no direction it is more than 4^(L-l-1) for each of its children.
    fn leaves(&self, first: usize, count: usize) -> Squares {
        let levels = self.expansion.levels();
        let gadget = self.set.expansion_gadget();
        let (mut digits, dropped) = gadget.digit_mean_squares(self.set.ring());
        digits.iter_mut().for_each(|digit| *digit *= RingSet::SIGMA.powi(2));
        digits.push(DROPPED_WEIGHT * TERNARY * dropped);
        let digits =
            Squares { sum: digits.iter().sum(), greatest: digits.iter().copied().fold(0.0, f64::max) };
        // Squares of the digits of a node: in each of N / 2 complex values, and in all coefficients.
        let nodes = f64::from(levels);
        let log2 = EXCEPTION_LOG2 - nodes - self.ragged(gadget) / LN_2;
        let freedom = digits.sum / digits.greatest;
        let of_value = square_sum_excess(2.0 * freedom, log2 - (degree() / 2.0).log2());
        let of_all = square_sum_excess(degree() * freedom, log2);
        let above = |level: u32| {
            let height = levels - level;
            let nodes = ((first + count - 1) >> height) - (first >> height) + 1;
            nodes as f64 * 4f64.powi(height as i32)
        };
        let substitution = degree() * digits.sum;
        let value = (substitution * of_value).sqrt() + self.means(gadget);
        let doubled = (1..=levels).map(above).sum::<f64>();
        let all = count as f64 * (2f64.powi(levels as i32) - 1.0);
        Squares {
            sum: SMALL_TERMS * degree() * substitution * of_all * all.max(1.0),
            greatest: SMALL_TERMS * value.powi(2) * doubled.max(1.0),
        }
    }

    /// What the digits' means of -1/2 are, together, in the value that has most of them, with their weights: a sum of
    /// N powers of a root next to 1 is 2N/pi in length.
    fn means(&self, gadget: Gadget) -> f64 {
        let weights = match gadget {
            Gadget::Residues => 0.0,
            Gadget::Digits { levels, .. } => {
                f64::from(levels) * RingSet::SIGMA.powi(2) + DROPPED_WEIGHT * TERNARY
            }
        };
        degree() / PI * weights.sqrt()
    }

    /// The proxy of what a tournament adds: uniform digits times the noise of selectors.
    fn selected(&self) -> f64 {
        if self.depth == 0 {
            return 0.0;
        }
        let ring = self.set.ring();
        let (selector, conversion) = (self.set.selector_gadget(), self.set.conversion_gadget());
        let rows = self.depth * selector.levels(ring);
        let leaves = self.leaves(self.columns, rows).exceeded();
        // The rows that the digits of a multiply are leaves times s, as far as a product in every value of the
        // transform can be, and the conversion's noise and rounding at their worst.
        let in_value = secret() * square_sum_excess(2.0, EXCEPTION_LOG2 - (degree() / 2.0).log2());
        let keys = 2.0 * conversion.levels(ring) as f64 * degree();
        let key_noise = RingSet::SIGMA.powi(2) * keys * square_sum_excess(keys, EXCEPTION_LOG2);
        let (digits, _) = conversion.mean_squares(ring);
        let largest_digits = 2.0 * 3.0 * degree().powi(2) * digits;
        let rounding = degree() * (step(conversion) / 2.0).powi(2) * (in_value.sqrt() + in_value).powi(2);
        let converted = (in_value * leaves).sqrt()
            + (rows as f64).sqrt() * ((largest_digits * key_noise).sqrt() + rounding.sqrt());
        let (digits, _) = selector.digit_mean_squares(ring);
        let greatest = digits.into_iter().fold(0.0, f64::max);
        // Digits of a and of b are not independent of each other: their deviations add.
        SMALL_TERMS * greatest * (leaves.sqrt() + converted).powi(2)
    }

    /// The proxy of rounding the a half of a response: at most half a unit of each coefficient, times s.
    fn switched(&self) -> f64 {
        let unit = self.set.ring().modulus() as f64 / 2f64.powi(self.set.response_bits().0 as i32);
        SWITCHED_WEIGHT * secret() * unit.powi(2) / 4.0
    }

    /// ln of how many times likelier digits of a uniform polynomial are than independent uniform ones: the highest
    /// digit has an interval of its own for each value of the others.
    fn ragged(&self, gadget: Gadget) -> f64 {
        match gadget {
            Gadget::Residues => 0.0,
            Gadget::Digits { levels, base_log, dropped } => {
                let highest = self.set.ring().log2_modulus() - f64::from(dropped + (levels - 1) * base_log);
                degree() * 2.0 / highest.exp2()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rlwe::noise::RingNoise;
    use spirea_math::random::public_residues;

    fn fold(set: RingSet, columns: usize) -> PaddedFold {
        PaddedFold { set, columns, depth: 0, expansion: Expansion::covering(columns) }
    }

    /// `scripts/noise_vectors.py` computes them from the document.
    #[test]
    fn every_part_of_the_bound_agrees_with_a_second_implementation() {
        let mut checked = 0;
        for line in include_str!("../../tests/vectors/noise.txt").lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let (&[name, set, columns, depth], rest) = words.split_first_chunk().unwrap();
            if name == "noise" {
                continue;
            }
            let (arguments, expected) = rest.split_at(rest.len() - 1);
            let count = |word: &str| word.parse::<usize>().unwrap();
            let (set, columns, depth) = (RingSet::by_name(set).unwrap(), count(columns), count(depth));
            let rows = depth * set.selector_gadget().levels(set.ring());
            let fold = PaddedFold { set, columns, depth, expansion: Expansion::covering(columns + rows) };
            let found = match (name, arguments) {
                ("sum", &[first, leaves]) => fold.leaves(count(first), count(leaves)).sum,
                ("greatest", &[first, leaves]) => fold.leaves(count(first), count(leaves)).greatest,
                ("selected", []) => fold.selected(),
                ("switched", []) => fold.switched(),
                ("vanishing", []) => fold.vanishing(),
                ("exceedance", &[coefficients, share]) => {
                    fold.exceedance_log2(count(coefficients), share.parse().unwrap())
                }
                _ => panic!("{line}"),
            };
            let expected: f64 = expected[0].parse().unwrap();
            assert!((found - expected).abs() <= 1e-9 * expected.abs(), "{line}: {found}");
            checked += 1;
        }
        assert_eq!(checked, 246);
    }

    #[test]
    fn squares_of_leaves_are_those_of_the_closed_form_and_spread_over_all_values() {
        for set in [RingSet::Onion30, RingSet::Onion32] {
            for columns in [2, 100, 256, 512] {
                let fold = fold(set, columns);
                let leaf = RingNoise::new(set, fold.expansion.levels()).leaf();
                let squares = fold.leaves(0, columns);
                let above = squares.sum / (columns as f64 * degree() * leaf);
                assert!((1.0..1.25).contains(&above), "{}, {columns} columns: {above}", set.name());
                // Where the tree is full, each value of the transform has the same share, but for its excess.
                let spread = squares.sum / squares.greatest / degree();
                assert!((0.03..0.1).contains(&spread), "{}, {columns} columns: {spread}", set.name());
            }
        }
    }

    #[test]
    fn digits_of_uniform_polynomials_are_as_even_as_the_bound_takes_them() {
        for set in [RingSet::Onion30, RingSet::Onion32] {
            let (ring, gadget) = (set.ring(), set.expansion_gadget());
            let mut a = ring.zero();
            for (i, (limb, a)) in ring.limbs().iter().zip(a.chunks_exact_mut(RingSet::DEGREE)).enumerate() {
                public_residues(&[4; 32], i as u64, limb.prime(), a);
            }
            let mut values = vec![0.0; RingSet::DEGREE / 2];
            for digit in gadget.decompose(ring, &a).chunks_exact(ring.words()) {
                let digit: Vec<f64> =
                    (0..RingSet::DEGREE).map(|i| ring.centred(ring.coefficient(digit, i)) as f64).collect();
                for (j, value) in values.iter_mut().enumerate() {
                    // At the primitive root with exponent 2 j + 1.
                    let (sin, cos) = (PI * (2 * j + 1) as f64 / degree()).sin_cos();
                    let (mut re, mut im) = (0.0, 0.0);
                    for &coefficient in digit.iter().rev() {
                        (re, im) = (re * cos - im * sin + coefficient, re * sin + im * cos);
                    }
                    *value += re * re + im * im;
                }
            }
            let (digits, _) = gadget.mean_squares(ring);
            let mean = values.iter().sum::<f64>() / values.len() as f64 / (degree() * digits);
            let greatest = values.iter().copied().fold(0.0, f64::max) / (degree() * digits);
            let fold = fold(set, 2);
            let bound = fold.leaves(0, 2).greatest / (fold.leaves(0, 2).sum / 2.0 / degree());
            assert!((0.95..1.05).contains(&mean), "{}: {mean}", set.name());
            // The greatest of 2048 is some three times the mean; only once in 2^128 it is what the bound takes.
            assert!((2.0..bound / 2.0).contains(&greatest), "{}: {greatest} of {bound}", set.name());
        }
    }
}
