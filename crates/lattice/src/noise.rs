//! Noise of the LWE fold: closed forms, and the probability that a record decodes wrongly.

use crate::lwe::{LweSet, SCALE_BITS};

/// Standard deviation of the noise of an answer's entry for a database row with the given sum of squared
/// bytes: sigma sqrt(sum of squares), since the noise of the columns is independent.
pub fn fold_deviation(sum_of_squares: f64) -> f64 {
    LweSet::SIGMA * sum_of_squares.sqrt()
}

/// The largest deviation that any database of `columns` columns can cause: every byte 255.
pub fn worst_fold_deviation(columns: usize) -> f64 {
    fold_deviation(columns as f64 * 255.0 * 255.0)
}

/// The error that decoding to a byte tolerates: half a step of 2^24, less what rounding the answer to its
/// upper `answer_bits` bits takes at most.
pub fn budget(answer_bits: u32) -> f64 {
    2f64.powi(SCALE_BITS as i32 - 1) - 2f64.powi(31 - answer_bits as i32)
}

/// log2 of the probability that a Gaussian exceeds `z` standard deviations on either side.
///
/// For z of at least 1 the bound erfc(z / sqrt 2) <= sqrt(2 / pi) exp(-z^2 / 2) / z, which is within 0.1
/// bit of the truth from z = 4 on; 0 (no claim) below.
pub fn two_sided_tail_log2(z: f64) -> f64 {
    if z < 1.0 {
        return 0.0;
    }
    (-z * z / 2.0 * std::f64::consts::LOG2_E - z.log2() + 0.5 * std::f64::consts::FRAC_2_PI.log2()).min(0.0)
}

/// log2 of a bound on the probability that any of `entries` bytes decodes wrongly, for the worst database
/// of `columns` columns.
pub fn failure_log2(columns: usize, answer_bits: u32, entries: usize) -> f64 {
    let z = budget(answer_bits) / worst_fold_deviation(columns);
    (two_sided_tail_log2(z) + (entries as f64).log2()).min(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lwe::{DEGREE, LweEncryptor, PublicMatrix};
    use spirea_math::random::SecretRng;

    #[test]
    fn measured_noise_of_a_fold_is_within_a_tenth_of_a_bit_of_its_closed_form() {
        let columns = 256;
        let mut rng = SecretRng::deterministic_for_tests(4);
        for set in LweSet::ALL {
            let matrix = PublicMatrix::new(set, [5; 32], columns);
            let (entries, encryptor) = (matrix.entries(), LweEncryptor::new(matrix));
            let (mut measured, mut predicted) = (0.0, 0.0);
            // One row a query: rows of one query share its noise, and their errors would not be independent.
            for _ in 0..2000 {
                let (bodies, secret) = encryptor.encrypt_unit(77, &mut rng);
                let mut row = vec![0; columns];
                rng.fill(&mut row);
                let phase = row.iter().zip(&bodies).zip(entries.chunks_exact(DEGREE)).fold(
                    0u32,
                    |sum, ((&byte, body), a)| {
                        sum.wrapping_add(
                            u32::from(byte).wrapping_mul(body.wrapping_add(secret.inner_product(a))),
                        )
                    },
                );
                let error = phase.wrapping_sub(u32::from(row[77]) << SCALE_BITS) as i32;
                measured += f64::from(error).powi(2);
                predicted += fold_deviation(row.iter().map(|&x| f64::from(x).powi(2)).sum()).powi(2);
            }
            let bits = f64::log2(measured / predicted) / 2.0;
            assert!(bits.abs() < 0.1, "{}: measured noise is {bits} bits off its closed form", set.name());
        }
    }

    #[test]
    fn tails_agree_with_known_values() {
        for (z, log2) in [(6.0, -28.92), (9.3, -66.0), (13.5, -135.9), (20.0, -293.0)] {
            assert!((two_sided_tail_log2(z) - log2).abs() < 1.0, "z = {z}: {}", two_sided_tail_log2(z));
        }
    }

    #[test]
    fn a_database_of_32_gib_and_records_of_a_mebibyte_stay_below_the_required_failure() {
        assert!(failure_log2(1 << 18, 16, 1 << 20) < -60.0);
        assert!(failure_log2(1 << 20, 16, 1) < -60.0);
        assert!(failure_log2(1 << 23, 16, 1) > -60.0);
    }
}
