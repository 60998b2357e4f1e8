//! Noise of the LWE fold: closed forms, and the probability that a record decodes incorrectly;
//! tails of distributions.
//!
//! A variable X is *sub-Gaussian* with proxy v if E exp(t X) is at most exp(t^2 v / 2) for every t.
//! Then |X| exceeds z sqrt(v) with probability at most 2 exp(-z^2 / 2), and proxies of independent
//! variables add. The noise of every encryption is a discrete Gaussian, with proxy sigma^2. A
//! variable is strictly sub-Gaussian if its variance is a proxy, as for uniform numbers of an
//! interval around 0, and uniform ternary numbers.

use std::f64::consts::LOG2_E;

use crate::lwe::{LweSet, SCALE_BITS};

/// Returns the minimum of a convex function between 0 and `most`, up to floating-point precision.
/// The result is always a value of the function. If every value of the function is a valid bound,
/// so is the result.
pub(crate) fn least_of_convex(function: impl Fn(f64) -> f64, most: f64) -> f64 {
    let (mut low, mut high) = (0.0, most);
    for _ in 0..200 {
        let third = (high - low) / 3.0;
        if function(low + third) < function(high - third) {
            high -= third;
        } else {
            low += third;
        }
    }
    function(low)
}

/// Returns the variance added by rounding a body to a multiple of 2^k, k = `dropped_bits`. It is
/// the variance of a number from -2^(k-1) to 2^(k-1) that is uniform, except that the two extremes
/// are half as likely. A body is uniform over the choice of A, so for a given A this is an
/// estimate.
pub fn rounding_variance(dropped_bits: u32) -> f64 {
    match dropped_bits {
        0 => 0.0,
        bits => (4f64.powi(bits as i32) + 2.0) / 12.0,
    }
}

/// Returns the standard deviation of the noise in an answer's entry. The database row has the given
/// sum of squared bytes, and bodies lack their `dropped_bits` lowest bits. The result is the
/// deviation of a body times sqrt(sum of squares), since the noise of the columns is independent.
pub fn fold_deviation(sum_of_squares: f64, dropped_bits: u32) -> f64 {
    ((LweSet::SIGMA.powi(2) + rounding_variance(dropped_bits)) * sum_of_squares).sqrt()
}

/// Returns the maximum deviation over all databases of `columns` columns: every byte is 255.
pub fn worst_fold_deviation(columns: usize, dropped_bits: u32) -> f64 {
    fold_deviation(columns as f64 * 255.0 * 255.0, dropped_bits)
}

/// Returns the error that decoding to a byte tolerates: half a step of 2^24, less the maximum error
/// of rounding the answer to its upper `answer_bits` bits.
pub fn budget(answer_bits: u32) -> f64 {
    2f64.powi(SCALE_BITS as i32 - 1) - 2f64.powi(31 - answer_bits as i32)
}

/// Returns log2 of a bound on the probability that the magnitude of a sub-Gaussian variable exceeds
/// `z` times the root of its proxy.
pub fn sub_gaussian_tail_log2(z: f64) -> f64 {
    (1.0 - z.max(0.0).powi(2) / 2.0 * LOG2_E).min(0.0)
}

/// Returns the factor x such that a sum of squares exceeds x times its mean with probability at
/// most 2^`log2`. The sum is over independent sub-Gaussian variables whose proxies add up to
/// `freedom` times the greatest proxy. It may also be over the images of such variables under a
/// linear map; then the squared singular values of the map add up to `freedom` times the greatest.
///
/// The sum exceeds x times the sum of the proxies with probability at most exp(-freedom (x - 1 - ln
/// x) / 2): Markov's inequality for exp(t times the sum), whose mean is at most the product of (1 -
/// 2 t proxy)^(-1/2).
pub fn square_sum_excess(freedom: f64, log2: f64) -> f64 {
    let needed = -2.0 * log2 / LOG2_E / freedom;
    // x - 1 - ln x increases from 0 at x = 1, and is at least x / 2 - 1.
    let (mut least, mut most) = (1.0, 2.0 * (needed + 1.0));
    for _ in 0..64 {
        let x = (least + most) / 2.0;
        if x - 1.0 - f64::ln(x) < needed {
            least = x;
        } else {
            most = x;
        }
    }
    most
}

/// Returns log2 of the probability that the magnitude of a Gaussian exceeds `z` standard
/// deviations, for estimates.
///
/// For z of at least 1, the result is the bound erfc(z / sqrt 2) <= sqrt(2 / pi) exp(-z^2 / 2) / z,
/// which is within 0.1 bit of the true value from z = 4 on. For z below 1, it is 0 (no claim).
pub fn two_sided_tail_log2(z: f64) -> f64 {
    if z < 1.0 {
        return 0.0;
    }
    (-z * z / 2.0 * LOG2_E - z.log2() + 0.5 * std::f64::consts::FRAC_2_PI.log2()).min(0.0)
}

/// Rounding of a hint's entries to the nearest numbers with fewer bits: only upper bits are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HintRounding {
    /// Number of rounded entries in a row: at most the length of the secret.
    pub entries: usize,
    /// Bits that each entry keeps; 32 if it is exact.
    pub bits: u32,
}

impl HintRounding {
    /// Bits of an exact entry.
    pub const EXACT_BITS: u32 = u32::BITS;
    /// Least number of bits that this software packs. No bound of a fold permits fewer bits.
    pub const LEAST_BITS: u32 = 16;
    /// Number of low bits of a row's entries that may depend on each other through the content: a
    /// byte other than 0 is no multiple of 2^8.
    const TIED_BITS: u32 = 8;
    /// A hint without rounded entries.
    pub const NONE: Self = Self { entries: 0, bits: Self::EXACT_BITS };

    /// Returns a proxy of the error that the rounding adds to a phase, for every database and every
    /// public matrix: `entries` * 2/3 * (2^(31 - `bits`))^2.
    ///
    /// The error is the sum of e_i s_i, where e_i is the rounding error of entry i. Database and
    /// matrix determine e_i, whose magnitude is at most 2^(31 - `bits`); both are fixed before the
    /// secret is drawn. An entry s_i of the secret is uniform ternary, so strictly sub-Gaussian
    /// with variance 2/3, and independent of the others. The proxy assumes every e_i at its
    /// maximum: content chosen against the matrix may come near it. For content that does not
    /// depend on the matrix, the average is a third of this proxy.
    pub fn proxy(self) -> f64 {
        match self.bits {
            Self::EXACT_BITS.. => 0.0,
            bits => self.entries as f64 * 2.0 / 3.0 * 4f64.powi(31 - bits as i32),
        }
    }

    /// Returns a proxy of an entry's rounding error around a mean, plus the square of that mean,
    /// for content that was fixed before the public matrix.
    ///
    /// Over the matrix, the upper 24 bits of a row's entries are uniform and independent for each
    /// value of the lower 8, or the row is 0 (`docs/protocols/double.md`). The errors of an entry
    /// are then equally likely numbers at distances of 2^8: strictly sub-Gaussian around a mean of
    /// at most 2^7.
    fn proxy_of_entry(self) -> f64 {
        let worst = 4f64.powi(31 - self.bits as i32);
        let tied = f64::from(1 << Self::TIED_BITS);
        let [range, mean] = [2f64.powi(32 - self.bits as i32), tied / 2.0];
        ((range.powi(2) - tied.powi(2)) / 12.0 + mean.powi(2)).min(worst)
    }

    /// Returns log2 of a bound on the probability that the magnitude of X + sum of e_i s_i exceeds
    /// `tolerated`, where X is independent noise with this proxy, and e_i s_i are the errors of
    /// [`Self::proxy`]. The database was fixed before the public matrix was drawn; the probability
    /// is over the matrix, too.
    ///
    /// Bounds E exp(t X) E exp(t sum e_i s_i) for the best t. Given the entries' lower bits, the
    /// second factor is a product: a third of the s_i are 0, and the others contribute a variable
    /// of mean 0 with the proxy of an entry. The square of the maximum magnitude of e_i replaces
    /// that proxy if the square is smaller.
    pub fn independent_tail_log2(self, tolerated: f64, proxy: f64) -> f64 {
        const NOT_ZERO: f64 = 2.0 / 3.0;
        let (entries, of_entry) = match self.bits {
            Self::EXACT_BITS.. => (0.0, 0.0),
            _ => (self.entries as f64, self.proxy_of_entry()),
        };
        let exponent = |t: f64| {
            let of_secret = (NOT_ZERO * (t * t * of_entry / 2.0).exp_m1()).ln_1p();
            t * t * proxy / 2.0 + entries * of_secret - t * tolerated
        };
        // The exponent is convex in t. The t of its minimum is at most the best t for a Gaussian
        // with variance proxy + 2/3 entries of_entry. This holds because the derivative of
        // of_secret is at least 2/3 t of_entry.
        let most = tolerated.max(0.0) / (proxy + entries * NOT_ZERO * of_entry);
        (1.0 + least_of_convex(exponent, most) * LOG2_E).min(0.0)
    }

    /// Returns the fewest bits for which `failure_log2` is at most `most_log2`, or
    /// [`Self::EXACT_BITS`] if no rounding satisfies it. The failure must not rise with the bits.
    pub fn fewest_bits(most_log2: f64, failure_log2: impl Fn(u32) -> f64) -> u32 {
        (Self::LEAST_BITS..Self::EXACT_BITS)
            .find(|&bits| failure_log2(bits) <= most_log2)
            .unwrap_or(Self::EXACT_BITS)
    }
}

/// Returns log2 of a bound on the probability that the error of any of `entries` bytes exceeds the
/// fraction `share` of the error that decoding tolerates, for every database of `columns` columns.
/// The database is fixed before noise and secret are drawn, and the rounding error of the answer is
/// bounded.
pub fn exceedance_log2(
    columns: usize,
    hint: HintRounding,
    answer_bits: u32,
    entries: usize,
    share: f64,
) -> f64 {
    let rounded = 2f64.powi(SCALE_BITS as i32 - 1) - budget(answer_bits);
    let proxy = worst_fold_deviation(columns, 0).powi(2) + hint.proxy();
    let z = (share * 2f64.powi(SCALE_BITS as i32 - 1) - rounded) / proxy.sqrt();
    (sub_gaussian_tail_log2(z) + (entries as f64).log2()).min(0.0)
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use spirea_math::random::{SecretRng, Seed};

    use super::*;
    use crate::lwe::{LweEncryptor, PublicMatrix};

    #[test]
    fn measured_noise_of_a_fold_is_within_a_tenth_of_a_bit_of_its_closed_form() {
        let columns = 256;
        let mut rng = SecretRng::deterministic_for_tests(4);
        for (set, dropped_bits) in LweSet::ALL.into_iter().flat_map(|set| [(set, 0), (set, 5)]) {
            let matrix = PublicMatrix::new(set, Seed::new([5; 32]), columns);
            let (entries, encryptor) = (matrix.entries(), LweEncryptor::new(matrix).rounding(dropped_bits));
            let (mut measured, mut predicted) = (0.0, 0.0);
            // Each query gives one row: rows of one query share its noise, so their errors would be
            // dependent.
            for _ in 0..2000 {
                let (bodies, secret) = encryptor.encrypt_unit(77, &mut rng);
                let mut row = vec![0; columns];
                rng.fill(&mut row);
                let phase = row.iter().zip(&bodies).zip(entries.chunks_exact(set.degree())).fold(
                    0u32,
                    |sum, ((&byte, body), a)| {
                        sum.wrapping_add(
                            u32::from(byte).wrapping_mul(body.wrapping_add(secret.inner_product(a))),
                        )
                    },
                );
                let error = phase.wrapping_sub(u32::from(row[77]) << SCALE_BITS) as i32;
                measured += f64::from(error).powi(2);
                let squares = row.iter().map(|&x| f64::from(x).powi(2)).sum();
                predicted += fold_deviation(squares, dropped_bits).powi(2);
            }
            let bits = f64::log2(measured / predicted) / 2.0;
            let name = set.name();
            assert!(
                bits.abs() < 0.1,
                "{name} less {dropped_bits}: measured noise is {bits} bits off its closed form"
            );
        }
    }

    #[test]
    fn variances_and_budgets_are_those_of_their_definitions() {
        for bits in 0..10 {
            // Enumerates all roundings of numbers whose lowest bits are uniform; halves go up and
            // down.
            let step = 1i32 << bits;
            let errors = (0..step).flat_map(|low| match (2 * low).cmp(&step) {
                Ordering::Less => [-low; 2],
                Ordering::Equal => [-low, low],
                Ordering::Greater => [step - low; 2],
            });
            let variance = errors.map(|error| f64::from(error).powi(2)).sum::<f64>() / f64::from(2 * step);
            assert!((rounding_variance(bits) - variance).abs() < 1e-9, "{bits} bits");
            let of_two = (9.0 + 16.0) * (LweSet::SIGMA.powi(2) + variance);
            assert!((fold_deviation(25.0, bits).powi(2) / of_two - 1.0).abs() < 1e-12, "{bits} bits");
        }
        assert_eq!(worst_fold_deviation(3, 5), fold_deviation(3.0 * 65025.0, 5));
        // Half a step, less half a unit of the bits that an answer keeps.
        for (bits, budget_of) in [(8, 0), (9, 1 << 22), (16, (1 << 23) - (1 << 15)), (31, (1 << 23) - 1)] {
            assert_eq!(budget(bits), f64::from(budget_of), "{bits} bits");
        }
    }

    #[test]
    fn tails_have_their_closed_forms() {
        // 2 exp(-z^2 / 2), which is no bound for z below sqrt(2 ln 2).
        for (z, bound) in [(0.0, 1.0), (1.0, 1.0), (2.0, 2.0 * f64::exp(-2.0)), (5.0, 2.0 * f64::exp(-12.5))]
        {
            assert!((sub_gaussian_tail_log2(z).exp2() - bound).abs() < 1e-12 * bound, "z = {z}");
        }
        // sqrt(2 / pi) exp(-z^2 / 2) / z for z of at least 1.
        for z in [1.0f64, 1.5, 3.0, 8.0] {
            let bound = (2.0 / std::f64::consts::PI).sqrt() * f64::exp(-z * z / 2.0) / z;
            assert!((two_sided_tail_log2(z).exp2() / bound - 1.0).abs() < 1e-9, "z = {z}");
        }
        assert_eq!([-7.0, 0.0, 0.5, 0.99].map(two_sided_tail_log2), [0.0; 4]);
    }

    #[test]
    fn exceedance_counts_entries_and_takes_rounding_off_the_budget() {
        for (columns, bits, entries, share) in [(1 << 18, 16, 1 << 20, 1.0), (1 << 20, 12, 3, 0.75)] {
            let tolerated = share * f64::from(1 << 23) - f64::from(1 << (31 - bits));
            let z = tolerated / (LweSet::SIGMA * 255.0 * f64::from(columns).sqrt());
            let expected = f64::from(entries).log2() + sub_gaussian_tail_log2(z);
            let found = exceedance_log2(columns as usize, HintRounding::NONE, bits, entries as usize, share);
            assert!((found - expected).abs() < 1e-9 && expected < -20.0, "{found}, not {expected}");
        }
        assert_eq!(exceedance_log2(1 << 30, HintRounding::NONE, 16, 1, 1.0), 0.0);
    }

    #[test]
    fn tails_agree_with_known_values() {
        for (z, log2) in [(6.0, -28.92), (9.3, -66.0), (13.5, -135.9), (20.0, -293.0)] {
            assert!((two_sided_tail_log2(z) - log2).abs() < 1.0, "z = {z}: {}", two_sided_tail_log2(z));
        }
    }

    #[test]
    fn bounds_on_tails_hold_and_are_not_far_from_a_gaussians() {
        for z in [1.0, 4.0, 9.3, 20.0] {
            let above = sub_gaussian_tail_log2(z) - two_sided_tail_log2(z);
            assert!((0.0..6.0).contains(&above), "z = {z}: {above}");
        }
        assert_eq!(sub_gaussian_tail_log2(-3.0), 0.0);
        // The tail of a sum of two squares is exp(-x) at x times its mean; the bound has x - 1 - ln
        // x.
        for (freedom, log2) in [(2.0, -64.0), (8.0, -64.0), (4096.0, -100.0), (0.5, -20.0)] {
            let x = square_sum_excess(freedom, log2);
            let found = -freedom / 2.0 * (x - 1.0 - x.ln()) * LOG2_E;
            assert!((found - log2).abs() < 1e-6, "{freedom} degrees of freedom: 2^{found} beyond {x}");
        }
    }

    #[test]
    fn a_database_of_32_gib_and_records_of_a_mebibyte_stay_below_the_required_failure() {
        assert!(exceedance_log2(1 << 18, HintRounding::NONE, 16, 1 << 20, 1.0) < -60.0);
        assert!(exceedance_log2(1 << 20, HintRounding::NONE, 16, 1, 1.0) < -60.0);
        assert!(exceedance_log2(1 << 23, HintRounding::NONE, 16, 1, 1.0) > -60.0);
    }
    /// Measures the deviation of the sum of e_i s_i over fresh secrets: first with every rounding
    /// error at its maximum, then with uniform rounding errors.
    #[test]
    fn measured_errors_of_rounded_hints_are_near_their_proxy() {
        let mut rng = SecretRng::deterministic_for_tests(7);
        for set in LweSet::ALL {
            let encryptor = LweEncryptor::new(PublicMatrix::new(set, Seed::new([6; 32]), 256));
            for bits in [16, 17, 20] {
                let hint = HintRounding { entries: set.degree(), bits };
                let most = 1u32 << (31 - bits);
                let mut at_most = vec![0; set.degree()];
                let mut on_average = at_most.clone();
                let mut coins = vec![0; set.degree()];
                let [mut largest, mut usual] = [0.0, 0.0];
                let secrets = 400;
                for _ in 0..secrets {
                    rng.fill(&mut coins);
                    for (word, coin) in at_most.iter_mut().zip(&coins) {
                        *word = if coin & 1 == 0 { most } else { most.wrapping_neg() };
                    }
                    for word in &mut on_average {
                        *word = ((rng.next_u64() as u32) >> bits).wrapping_sub(most);
                    }
                    let (_, secret) = encryptor.encrypt_unit(0, &mut rng);
                    largest += f64::from(secret.inner_product(&at_most) as i32).powi(2);
                    usual += f64::from(secret.inner_product(&on_average) as i32).powi(2);
                }
                for (measured, proxy) in [(largest, hint.proxy()), (usual, hint.proxy() / 3.0)] {
                    let off = f64::log2(measured / f64::from(secrets) / proxy) / 2.0;
                    assert!(off.abs() < 0.2, "{} at {bits} bits: {off} bits off its proxy", set.name());
                }
            }
        }
    }

    #[test]
    fn exact_hints_add_nothing_and_each_bit_quarters_what_others_add() {
        let hint = |bits| HintRounding { entries: 1280, bits };
        assert_eq!([HintRounding::NONE, hint(32)].map(HintRounding::proxy), [0.0; 2]);
        assert_eq!(hint(16).proxy(), 1280.0 * 2.0 / 3.0 * 2f64.powi(30));
        for bits in 16..31 {
            assert_eq!(hint(bits).proxy(), 4.0 * hint(bits + 1).proxy());
        }
        let exact = exceedance_log2(1 << 15, hint(32), 16, 64, 1.0);
        assert_eq!(exact, exceedance_log2(1 << 15, HintRounding::NONE, 16, 64, 1.0));
    }

    /// Multiplies modulo X^4 + 1 and 16.
    fn multiply(a: [u32; 4], b: [u32; 4]) -> [u32; 4] {
        let mut product = [0u32; 4];
        for (i, j) in (0..4).flat_map(|i| (0..4).map(move |j| (i, j))) {
            let term = a[i] * b[j];
            let sign = if i + j < 4 { term } else { term.wrapping_neg() };
            product[(i + j) % 4] = product[(i + j) % 4].wrapping_add(sign) % 16;
        }
        product
    }

    /// Returns the digits of `number` in base 2^`bits`.
    fn digits(number: u32, bits: u32) -> [u32; 4] {
        [0, 1, 2, 3].map(|i| number >> (bits * i) & ((1 << bits) - 1))
    }

    /// Checks the step of the bound's proof about products, for all elements of a small ring. If
    /// the coefficients of `row` are below 2^m and `a` is uniform, all values of row * a with the
    /// same lower m bits are equally likely. Here m is 2; in the proof, m is 8.
    #[test]
    fn products_of_any_row_and_a_uniform_polynomial_have_independent_upper_bits() {
        const TIED: u32 = 2;
        let mut tied_above_one_bit = false;
        for row in (1..1 << (4 * TIED)).map(|number| digits(number, TIED)) {
            let mut counts = vec![0; 1 << 16];
            for a in 0..1 << 16 {
                let product = multiply(row, digits(a, 4));
                counts[(0..4).map(|i| product[i] << (4 * i)).sum::<u32>() as usize] += 1;
            }
            let depends_on = |bits: u32| {
                let lower = (0..4).map(|i| ((1 << bits) - 1) << (4 * i)).sum::<usize>();
                (0..1 << 16).all(|value| counts[value] == counts[value & lower])
            };
            assert!(depends_on(TIED), "{row:?}");
            tied_above_one_bit |= !depends_on(TIED - 1);
        }
        assert!(tied_above_one_bit, "a smaller m would do");
    }

    /// Tests the errors of rounded rows of content that does not depend on the matrix: constant
    /// rows of an odd and of an even byte, an alternating row, and a single byte.
    #[test]
    fn errors_of_rows_that_do_not_depend_on_the_matrix_stay_below_their_bound() {
        const COLUMNS: usize = 256;
        const MATRICES: usize = 200;
        let mut rng = SecretRng::deterministic_for_tests(8);
        let rows: [fn(usize) -> u32; 4] = [|_| 255, |_| 128, |i| (i % 2) as u32 * 255, |i| u32::from(i == 3)];
        for set in [LweSet::Module1280, LweSet::Paper] {
            let hint = HintRounding { entries: set.degree(), bits: 16 };
            let mut errors: [Vec<f64>; 4] = Default::default();
            for seed in 0..MATRICES {
                let matrix =
                    PublicMatrix::new(set, Seed::new(*blake3::hash(&seed.to_le_bytes()).as_bytes()), COLUMNS);
                let entries = matrix.entries();
                let (_, secret) = LweEncryptor::new(matrix).encrypt_unit(0, &mut rng);
                for (row, errors) in rows.iter().zip(&mut errors) {
                    let mut words = vec![0u32; set.degree()];
                    for (column, a) in entries.chunks_exact(set.degree()).enumerate() {
                        let byte = row(column);
                        words.iter_mut().zip(a).for_each(|(h, a)| *h = h.wrapping_add(byte.wrapping_mul(*a)));
                    }
                    // Replaces each word by the error of rounding it to its upper 16 bits.
                    words.iter_mut().for_each(|h| {
                        *h = (h.wrapping_add(1 << 15) & !0xffff).wrapping_sub(*h);
                    });
                    errors.push(f64::from(secret.inner_product(&words) as i32));
                }
            }
            for (errors, number) in errors.iter().zip(0..) {
                let deviation = (hint.proxy() / 3.0).sqrt();
                let measured = (errors.iter().map(|e| e * e).sum::<f64>() / MATRICES as f64).sqrt();
                let bits = (measured / deviation).log2();
                assert!(bits.abs() < 0.25, "{}, row {number}: {bits} bits off", set.name());
                for z in [2.0, 2.5, 3.0] {
                    let beyond = errors.iter().filter(|error| error.abs() > z * deviation).count() as f64;
                    let bound = hint.independent_tail_log2(z * deviation, 0.0).exp2() * MATRICES as f64;
                    // Allows three standard deviations of a count with mean `bound`.
                    assert!(beyond <= bound + 3.0 * bound.sqrt(), "{beyond} beyond {z}, bound {bound}");
                }
            }
        }
    }

    #[test]
    fn the_bound_for_independent_content_is_near_a_gaussians_and_below_the_one_for_every_content() {
        for (bits, columns) in [(16, 1 << 15), (16, 256), (17, 1 << 15), (20, 1 << 18), (31, 1 << 15)] {
            let hint = HintRounding { entries: 1280, bits };
            let proxy = worst_fold_deviation(columns, 0).powi(2);
            let tolerated = budget(16);
            let found = hint.independent_tail_log2(tolerated, proxy);
            let every = sub_gaussian_tail_log2(tolerated / (proxy + hint.proxy()).sqrt());
            assert!(found <= every + 1e-9, "{bits} bits, {columns} columns: {found}, {every}");
            let average = proxy + hint.proxy() / 3.0;
            let gaussian = two_sided_tail_log2(tolerated / average.sqrt());
            // The bound loses the factor sqrt(pi / 2) z, and more through the fourth moments of the
            // products e_i s_i.
            let loss = found - gaussian;
            assert!(loss > 0.0 && loss < 8.0 - 0.05 * gaussian, "{bits} bits, {columns} columns: {loss}");
        }
        // Without roundings, the bound is the sub-Gaussian tail.
        for z in [1.0, 3.0, 12.0] {
            let found = HintRounding::NONE.independent_tail_log2(z * 7.0, 49.0);
            assert!((found - sub_gaussian_tail_log2(z)).abs() < 1e-6, "{z}: {found}");
        }
        assert_eq!(HintRounding::NONE.independent_tail_log2(-1.0, 49.0), 0.0);
        // With 24 kept bits, 8 bits are rounded away, and the proxy is the squared maximum
        // magnitude. With fewer kept bits, the mean counts little.
        let of_entry = |bits| HintRounding { entries: 1, bits }.proxy_of_entry();
        assert_eq!([of_entry(24), of_entry(31)], [2f64.powi(14), 1.0]);
        assert!((of_entry(16) / (2f64.powi(32) / 12.0) - 1.0).abs() < 1e-4);
    }

    /// For average errors 16 bits would suffice, with z = 15. For content chosen against the
    /// matrix, z is only 8.6.
    #[test]
    fn the_fewest_bits_are_those_of_the_largest_errors_and_not_of_average_ones() {
        for set in LweSet::ALL {
            for columns in [256, 1 << 13, 1 << 15, 1 << 17] {
                for entries in [1, 256, 1 << 20] {
                    let of = |bits, degree| {
                        exceedance_log2(columns, HintRounding { entries: degree, bits }, 16, entries, 1.0)
                    };
                    let chosen = HintRounding::fewest_bits(-60.0, |bits| of(bits, set.degree()));
                    // The mean square of an error is a third of its maximum square.
                    let average = HintRounding::fewest_bits(-60.0, |bits| of(bits, set.degree() / 3));
                    assert_eq!((chosen, average), (17, 16), "{}: {columns}, {entries}", set.name());
                    assert!(of(17, set.degree()) < -60.0 && of(16, set.degree()) > -60.0);
                }
            }
        }
        // 8355840 / sqrt((3.2 * 255)^2 * 32768 + 2/3 1280 2^28) = 16.68, and 8.63 with 2^30 in
        // place of 2^28.
        let z = |bits| -> f64 {
            let log2 = exceedance_log2(1 << 15, HintRounding { entries: 1280, bits }, 16, 1, 1.0);
            (2.0 * (1.0 - log2) / LOG2_E).sqrt()
        };
        assert!((z(17) - 16.70).abs() < 0.05 && (z(16) - 8.63).abs() < 0.05, "{} and {}", z(17), z(16));
        // Even without the noise of a fold, 16 bits do not suffice.
        let least = exceedance_log2(0, HintRounding { entries: 1280, bits: 16 }, 16, 1, 1.0);
        assert!(least > -60.0, "{least}");
        // If the noise alone exceeds the allowed failure, no rounding is small enough.
        assert_eq!(HintRounding::fewest_bits(-60.0, |_| -59.0), 32);
    }
}
