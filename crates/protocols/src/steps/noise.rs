//! The probability that a number of a response is off by more than a share of what decoding tolerates.
//!
//! Of packing it is an estimate: variances are added as if the terms were independent, and LWE ciphertexts' entries and
//! roundings are taken for uniform. They are for content that does not depend on the public matrix. Of folds of
//! polynomials under a pad it is a bound.

use spirea_lattice::noise::{two_sided_tail_log2, worst_fold_deviation};
use spirea_lattice::rlwe::bound::PaddedFold;
use spirea_lattice::rlwe::noise::{RingNoise, lwe_rounding};
use spirea_lattice::{LweSet, RingSet};

use super::lwe::ROUNDED_BITS;
use super::ring::RingShape;

/// The variance of a fold of `columns` columns, as a share of the modulus, for the worst database.
fn fold(columns: usize) -> f64 {
    (worst_fold_deviation(columns) / 2f64.powi(32)).powi(2)
}

/// log2 of an estimate for any of `entries` bytes whose error has this variance and is as good as Gaussian.
fn byte_exceedance_log2(variance: f64, entries: usize, share: f64) -> f64 {
    let z = share * 2f64.powi(-(u8::BITS as i32) - 1) / variance.sqrt();
    (two_sided_tail_log2(z) + (entries as f64).log2()).min(0.0)
}

/// Estimate for bytes whose LWE ciphertexts under `set` are rounded as a whole.
pub(crate) fn rounded_exceedance_log2(set: LweSet, columns: usize, entries: usize, share: f64) -> f64 {
    byte_exceedance_log2(fold(columns) + lwe_rounding(set, ROUNDED_BITS), entries, share)
}

/// Estimate for bytes that are folded over `columns` columns under `set`, packed, and selected if the shape says so.
pub(crate) fn packed_exceedance_log2(
    set: LweSet,
    columns: usize,
    shape: &RingShape,
    entries: usize,
    share: f64,
) -> f64 {
    let noise = RingNoise::new(shape.set, shape.expansion().levels());
    let steps = noise.pack(set) + shape.depth as f64 * noise.tournament_level();
    let lwe = fold(columns) + lwe_rounding(set, shape.set.plaintext_bits());
    byte_exceedance_log2(noise.response(steps) + lwe, entries, share)
}

/// Bound for `parts` polynomials under a pad that are folded over the shape's columns and selected.
pub(crate) fn padded_exceedance_log2(shape: &RingShape, parts: usize, share: f64) -> f64 {
    let fold = PaddedFold {
        set: shape.set,
        columns: shape.columns,
        depth: shape.depth,
        expansion: shape.expansion(),
    };
    fold.exceedance_log2(parts * RingSet::DEGREE, share)
}

/// log2 of the sum of two probabilities.
pub(crate) fn either(a: f64, b: f64) -> f64 {
    (a.max(b) + (-(a - b).abs()).exp2().ln_1p() / std::f64::consts::LN_2).min(0.0)
}
