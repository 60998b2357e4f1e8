//! Probability that the error of a number in a response exceeds a given fraction of the error that
//! decoding tolerates.
//!
//! For packing it is an estimate: variances are added as if the terms were independent, and the
//! entries of LWE ciphertexts and roundings are assumed uniform. The estimate holds for content
//! that does not depend on the public matrix. For folds of polynomials under a pad, and for folds
//! without packing, it is a bound.

use spirea_lattice::lwe::{ENCODING_ERROR, FIELD_ORDER};
use spirea_lattice::noise::two_sided_tail_log2;

/// Returns log2 of the estimated probability that the error of any of `entries` numbers in the
/// field of 257 elements exceeds the fraction `share` of the tolerated error. These errors have the
/// variance `variance` and are nearly Gaussian. Decoding tolerates half a step; the rounding of
/// encoded factors takes part of it.
pub(crate) fn field_exceedance_log2(variance: f64, entries: usize, share: f64) -> f64 {
    let tolerated = share / f64::from(2 * FIELD_ORDER) - ENCODING_ERROR / 2f64.powi(32);
    let z = tolerated / variance.sqrt();
    (two_sided_tail_log2(z) + (entries as f64).log2()).min(0.0)
}

/// Returns log2 of the sum of two probabilities.
pub(crate) fn either(a: f64, b: f64) -> f64 {
    (a.max(b) + (-(a - b).abs()).exp2().ln_1p() / std::f64::consts::LN_2).min(0.0)
}
