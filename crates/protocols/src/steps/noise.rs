//! Bounds on the probability that a response decodes wrongly, whatever the database holds.

use spirea_lattice::RingSet;
use spirea_lattice::noise::{two_sided_tail_log2, worst_fold_deviation};
use spirea_lattice::rlwe::noise::{RingNoise, lwe_rounding};

use super::lwe::ROUNDED_BITS;
use super::ring::RingShape;

/// The variance of a fold of `columns` columns, as a share of the modulus, for the worst database.
fn fold(columns: usize) -> f64 {
    (worst_fold_deviation(columns) / 2f64.powi(32)).powi(2)
}

/// log2 of a bound on the failure of any of `entries` numbers of `bits` bits with this variance.
fn failure_log2(variance: f64, bits: u32, entries: usize) -> f64 {
    let z = 2f64.powi(-(bits as i32) - 1) / variance.sqrt();
    (two_sided_tail_log2(z) + (entries as f64).log2()).min(0.0)
}

/// Of bytes whose LWE ciphertexts are rounded as a whole.
pub(crate) fn rounded_failure_log2(columns: usize, entries: usize) -> f64 {
    failure_log2(fold(columns) + lwe_rounding(ROUNDED_BITS), u8::BITS, entries)
}

/// Of bytes that are folded over `columns` columns, packed, and selected if the shape says so.
pub(crate) fn packed_failure_log2(columns: usize, shape: &RingShape, entries: usize) -> f64 {
    let noise = noise(shape);
    let steps = noise.pack() + shape.depth as f64 * noise.tournament_level();
    let lwe = fold(columns) + lwe_rounding(shape.set.plaintext_bits());
    failure_log2(noise.response(steps) + lwe, u8::BITS, entries)
}

/// Of `parts` polynomials that are folded over the shape's columns and selected. The worst database has all
/// coefficients near half of p.
pub(crate) fn folded_failure_log2(shape: &RingShape, parts: usize) -> f64 {
    let (noise, bits) = (noise(shape), shape.set.plaintext_bits());
    let worst = 4f64.powi(bits as i32) / 4.0;
    let steps = noise.fold(shape.columns, worst) + shape.depth as f64 * noise.tournament_level();
    failure_log2(noise.response(steps), bits, parts * RingSet::DEGREE)
}

fn noise(shape: &RingShape) -> RingNoise {
    RingNoise::new(shape.set, shape.expansion().levels())
}

/// log2 of the sum of two probabilities.
pub(crate) fn either(a: f64, b: f64) -> f64 {
    (a.max(b) + (-(a - b).abs()).exp2().ln_1p() / std::f64::consts::LN_2).min(0.0)
}
