//! A bound on the noise of a response that holds for every database under a public pad. The
//! probability is over the pad, the client's secret and keys, and the query.
//! `docs/protocols/onion.md` has the theorem, its proof and its assumptions, and uses the names of
//! the members here.
//!
//! The leaves of an expansion are dependent: the noise of one substitution reaches all leaves below
//! it, and plaintexts whose signs follow the tree would add this noise up. Under a pad, plaintexts
//! are uniform for every database, and the noise of a fold's coefficient is a bilinear form in them
//! and in the noise of the keys.

use std::f64::consts::{LN_2, PI};

use spirea_math::{Expansion, Gadget};

use super::RingSet;
use crate::noise::{least_of_convex, square_sum_excess};

/// log2 of the probability of each of the few events that the bound excludes. It is far below the
/// required failure probability, and small enough to leave the rest of the bound nearly unchanged.
const EXCEPTION_LOG2: f64 = -128.0;
/// Number of excluded events. Two concern the squares of the expansion's digits: in each value, and
/// in all coefficients. The others concern the selectors' noise, the secret's values and the
/// conversion key's noise.
const EXCEPTIONS: f64 = 5.0;
/// Maximum factor of small terms in squares: plaintexts' and selectors' means of -1/2, the query's
/// own noise, and the two ends of the highest digit, which are 4 in its width.
const SMALL_TERMS: f64 = 1.01;
/// Variance of a secret's entry, which is also its proxy.
const TERNARY: f64 = 2.0 / 3.0;
/// Weight of the roundings of substitutions, 6 * 11. All roundings are multiplied by one secret, so
/// the deviations of levels add. Their squares are 1/2, 1/4, ... of the total, so the square of
/// their sum is below 6 times the total. The rounding of a response is multiplied by the same
/// secret. That rounding is weighted 1 + 0.1; hence the factor 11 = 1 + 1/0.1 here.
const DROPPED_WEIGHT: f64 = 66.0;
const SWITCHED_WEIGHT: f64 = 1.1;

/// A fold over the first leaves of an expansion, and a tournament by the following leaves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PaddedFold {
    /// Ring set.
    pub set: RingSet,
    /// Number of leaves of the first dimension.
    pub columns: usize,
    /// Number of levels of the tournament.
    pub depth: usize,
    /// Expansion that all leaves come from.
    pub expansion: Expansion,
}

/// Squared singular values of a linear map of noise: their sum and the greatest.
#[derive(Clone, Copy, Debug)]
struct Squares {
    sum: f64,
    greatest: f64,
}

impl Squares {
    /// Returns a bound that the squared length of the image exceeds only with the probability of
    /// one excluded event.
    fn exceeded(self) -> f64 {
        self.sum * square_sum_excess(self.sum / self.greatest, EXCEPTION_LOG2)
    }
}

fn degree() -> f64 {
    RingSet::DEGREE as f64
}

/// Returns the expected squared length of a secret.
fn secret() -> f64 {
    TERNARY * degree()
}

/// Returns the step of a gadget's rounding of dropped low bits; the rounding error is at most half
/// of it.
fn step(gadget: Gadget) -> f64 {
    match gadget {
        Gadget::Residues => 0.0,
        Gadget::Digits { dropped: 0, .. } => 0.0,
        Gadget::Digits { dropped, .. } => 2f64.powi(dropped as i32),
    }
}

impl PaddedFold {
    /// Returns log2 of a bound on the probability that the error of any of `coefficients`
    /// coefficients in the responses to one query exceeds the fraction `share` of half a step of q
    /// / p, the error that decoding tolerates.
    pub fn exceedance_log2(&self, coefficients: usize, share: f64) -> f64 {
        let q = self.set.ring().modulus() as f64;
        let fold = self.leaves(0, self.columns);
        let (_, b_bits) = self.set.response_bits();
        let p = 2f64.powi(self.set.plaintext_bits() as i32);
        // Maximum rounding errors: of the scale, of a response's b, and of the ciphertexts that
        // selectors multiply, where all entries of the secret may have the worst sign.
        let rounded = p / 2.0
            + q / 2f64.powi(b_bits as i32 + 1)
            + self.depth as f64 * (degree() + 1.0) * step(self.set.selector_gadget()) / 2.0;
        let tolerated = share * q / p / 2.0 - rounded;
        if tolerated <= 0.0 {
            return 0.0;
        }
        let added = self.switched() + self.selected();
        // ln E exp(t noise) is at most this expression: first the plaintexts, each with a Gaussian
        // proxy p^2 / 12, then the keys' noise.
        let plaintext = p * p / 12.0;
        let exponent = |t: f64| {
            let shrunk = (-t * t * plaintext * fold.greatest).ln_1p();
            t * t * added / 2.0 - fold.sum / fold.greatest / 2.0 * shrunk - t * tolerated
        };
        // The exponent is convex in t below the point where the logarithm diverges.
        let least = least_of_convex(exponent, (1.0 - 1e-9) / (plaintext * fold.greatest).sqrt());
        // Selectors' digits are not exactly uniform, in either half and at each level.
        let ragged = 2.0 * self.depth as f64 * self.ragged(self.set.selector_gadget());
        let either_side = (2.0 * coefficients as f64).log2();
        let exceeded = (least.min(0.0) + ragged) / LN_2 + either_side;
        (exceeded.exp2() + EXCEPTIONS * EXCEPTION_LOG2.exp2() + self.vanishing()).log2().min(0.0)
    }

    /// Returns a bound on the probability that all digits of some node vanish together in a value
    /// modulo a prime. The `a` halves of the keys then do not make the `a` halves of the node's
    /// children uniform.
    fn vanishing(&self) -> f64 {
        let ring = self.set.ring();
        let digits = self.set.expansion_gadget().levels(ring) as i32;
        let of_node: f64 =
            ring.limbs().iter().map(|limb| degree() * f64::from(limb.prime().value()).powi(-digits)).sum();
        self.expansion.substitutions() as f64 * of_node
    }

    /// Bounds the linear map from the noise of keys (and the secret, as far as digits drop bits) to
    /// the noise of `count` leaves from `first` on. The bound fails over the uniform halves with
    /// negligible probability.
    ///
    /// A substitution at level l contributes 2^(L-l-1) times its variance to each leaf below it, on
    /// average over its spectrum and exactly in the sum of squares. In every direction it
    /// contributes at most 4^(L-l-1) for each of its children.
    fn leaves(&self, first: usize, count: usize) -> Squares {
        let levels = self.expansion.levels();
        let gadget = self.set.expansion_gadget();
        let (mut digits, dropped) = gadget.digit_mean_squares(self.set.ring());
        digits.iter_mut().for_each(|digit| *digit *= RingSet::SIGMA.powi(2));
        digits.push(DROPPED_WEIGHT * TERNARY * dropped);
        let digits =
            Squares { sum: digits.iter().sum(), greatest: digits.iter().copied().fold(0.0, f64::max) };
        // Squares of a node's digits: in each of N / 2 complex values, and in all coefficients.
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

    /// Returns the weighted contribution of the digits' means of -1/2 in the value where it is
    /// greatest: a sum of N powers of a root next to 1 has length 2N/pi.
    fn means(&self, gadget: Gadget) -> f64 {
        let weights = match gadget {
            Gadget::Residues => 0.0,
            Gadget::Digits { levels, .. } => {
                f64::from(levels) * RingSet::SIGMA.powi(2) + DROPPED_WEIGHT * TERNARY
            }
        };
        degree() / PI * weights.sqrt()
    }

    /// Returns the proxy of a tournament's noise: uniform digits times the noise of selectors.
    fn selected(&self) -> f64 {
        if self.depth == 0 {
            return 0.0;
        }
        let ring = self.set.ring();
        let (selector, conversion) = (self.set.selector_gadget(), self.set.conversion_gadget());
        let rows = self.depth * selector.levels(ring);
        let leaves = self.leaves(self.columns, rows).exceeded();
        // The digits of `a` multiply rows that are leaves times s. Their noise is bounded by the
        // maximum of a product in every value of the transform, plus the conversion's noise and
        // rounding at their worst.
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
        // Digits of `a` and of `b` are dependent, so their deviations add.
        SMALL_TERMS * greatest * (leaves.sqrt() + converted).powi(2)
    }

    /// Returns the proxy of rounding half `a` of a response: at most half a unit in each
    /// coefficient, times s.
    fn switched(&self) -> f64 {
        let unit = self.set.ring().modulus() as f64 / 2f64.powi(self.set.response_bits().0 as i32);
        SWITCHED_WEIGHT * secret() * unit.powi(2) / 4.0
    }

    /// Returns ln of the factor by which digits of a uniform polynomial can be likelier than
    /// independent uniform digits: the range of the highest digit depends on the other digits.
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
    use spirea_math::random::{Seed, public_residues};

    use super::*;
    use crate::rlwe::noise::RingNoise;

    fn fold(set: RingSet, columns: usize) -> PaddedFold {
        PaddedFold { set, columns, depth: 0, expansion: Expansion::covering(columns) }
    }

    /// Compares with vectors that `scripts/noise_vectors.py` computes from the document.
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
                // In a full tree, each value of the transform has the same share, up to its excess.
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
                public_residues(&Seed::new([4; 32]), i as u64, limb.prime(), a);
            }
            let mut values = vec![0.0; RingSet::DEGREE / 2];
            for digit in gadget.decompose(ring, &a).chunks_exact(ring.words()) {
                let digit: Vec<f64> =
                    (0..RingSet::DEGREE).map(|i| ring.centred(ring.coefficient(digit, i)) as f64).collect();
                for (j, value) in values.iter_mut().enumerate() {
                    // Evaluates at the primitive root with exponent 2 j + 1.
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
            // The greatest of 2048 values is about three times the mean; it reaches the bound's
            // value with probability 2^-128.
            assert!((2.0..bound / 2.0).contains(&greatest), "{}: {greatest} of {bound}", set.name());
        }
    }
}
