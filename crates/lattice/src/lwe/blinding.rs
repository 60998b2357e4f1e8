//! Blinding factors of unit vectors, in the field of 257 elements.
//!
//! All queries under one set of evaluation keys share a ring secret, so a server can add
//! ciphertexts of different queries. If a client asks for row d, such a server can answer `d + v`,
//! where it folded v from an earlier query. Therefore a client encrypts `c u` instead of the unit
//! vector u, with a secret factor c, and multiplies each decoded number by the inverse of c. The
//! sum then decodes to `d + (c' / c) v`, and c' / c is uniform over the 256 units of the field
//! (docs/soundness.md).
//!
//! The field is Z_257, because 257 is the least prime above all bytes. An element x is encoded as
//! round(2^32 x / 257); stored bytes and folds are as in the ring of 256 elements.

use spirea_math::random::SecretRng;
use zeroize::Zeroizing;

/// Number of elements of the plaintext field.
pub const FIELD_ORDER: u32 = 257;

/// Maximum distance, in units of 2^-32, between the phase of a byte times an encoded factor and the
/// exact multiple of 1/257: an encoding is rounded by at most 1/2, and a byte is at most 255.
pub const ENCODING_ERROR: f64 = 127.5;

/// floor(2^32 / 257): 2^32 = 257 * STEP + 1.
const STEP: u32 = 0x00ff_00ff;

/// Secret factor of one encrypted unit vector: a unit of Z_257, erased when dropped.
///
/// Two vectors must not share a factor: the factors of two parts of a query would cancel, and a
/// server could add one part to the other.
pub struct BlindingFactor {
    factor: Zeroizing<u32>,
    inverse: Zeroizing<u32>,
}

impl BlindingFactor {
    /// Draws a factor, uniform over the units 1 to 256.
    pub fn sample(rng: &mut SecretRng) -> Self {
        let mut byte = Zeroizing::new([0u8]);
        rng.fill(&mut *byte);
        Self::of(u32::from(byte[0]) + 1)
    }

    fn of(factor: u32) -> Self {
        Self { factor: Zeroizing::new(factor), inverse: Zeroizing::new(inverse(factor)) }
    }

    /// Returns the factor c as a word: round(2^32 c / 257).
    pub(super) fn encoded(&self) -> u32 {
        let c = *self.factor;
        // The fractional part, c / 257, is above 1/2 for c of 129 and more.
        let up = 128u32.wrapping_sub(c) >> 31;
        c * STEP + up
    }

    /// Decodes a phase, a fraction of 2^64, and removes the factor. Returns a byte, or 256 if the
    /// answer is not one that an honest server gives.
    ///
    /// The arithmetic has neither a branch nor a division: WebAssembly has divisions whose time
    /// depends on their operands.
    pub fn unblind(&self, phase: u64) -> u16 {
        // At most 257, which stands for 0.
        let nearest = ((u128::from(phase) * u128::from(FIELD_ORDER) + (1 << 63)) >> 64) as u32;
        reduce(nearest * *self.inverse) as u16
    }
}

/// Returns the distance of a phase, a fraction of 2^64, from the nearest multiple of 1/257, as a
/// fraction of the error that decoding tolerates.
pub fn field_error(phase: u64) -> f64 {
    phase.wrapping_mul(FIELD_ORDER.into()) as i64 as f64 / 2f64.powi(63)
}

/// Returns `x` modulo 257, for x of at most 257 * 256.
fn reduce(x: u32) -> u32 {
    // 256 is -1, so the upper digit is subtracted. The difference is at most 512.
    let difference = (x & 0xff) + FIELD_ORDER - (x >> 8);
    let above = (FIELD_ORDER - 1).wrapping_sub(difference) >> 31;
    difference - (FIELD_ORDER & above.wrapping_neg())
}

/// Returns the inverse of a unit: its power 255 = 2^8 - 1.
fn inverse(unit: u32) -> u32 {
    (0..7).fold(unit, |power, _| reduce(reduce(power * power) * unit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the phase of field element `x`, rounded to 64 bits.
    fn phase_of(x: u32) -> u64 {
        (((u128::from(x) << 65) / u128::from(FIELD_ORDER)).div_ceil(2)) as u64
    }

    #[test]
    fn every_byte_under_every_factor_is_decoded_within_half_a_step() {
        for c in 1..FIELD_ORDER {
            let factor = BlindingFactor::of(c);
            for byte in 0..=255u32 {
                // Computed modulo 2^32, as by a fold.
                let phase = u64::from(byte.wrapping_mul(factor.encoded())) << 32;
                // Just below half a step, on either side.
                let most = u64::MAX / u64::from(2 * FIELD_ORDER) - ((ENCODING_ERROR as u64 + 1) << 32);
                for noise in [0, most, most.wrapping_neg()] {
                    assert_eq!(u32::from(factor.unblind(phase.wrapping_add(noise))), byte, "{c}");
                }
                let exact = phase_of(byte * c % FIELD_ORDER);
                let error = (phase.wrapping_sub(exact) as i64).unsigned_abs() as f64 / 2f64.powi(32);
                assert!(error <= ENCODING_ERROR, "{c} times {byte}: {error}");
            }
        }
    }

    #[test]
    fn encodings_are_rounded_to_the_nearest_and_inverses_are_inverses() {
        for c in 1..FIELD_ORDER {
            let factor = BlindingFactor::of(c);
            let rounded = ((u64::from(c) << 33) / u64::from(FIELD_ORDER)).div_ceil(2);
            assert_eq!(u64::from(factor.encoded()), rounded, "{c}");
            assert_eq!(c * *factor.inverse % FIELD_ORDER, 1, "{c}");
        }
        for x in 0..=FIELD_ORDER * 256 {
            assert_eq!(reduce(x), x % FIELD_ORDER);
        }
    }

    #[test]
    fn factors_are_uniform_over_the_units() {
        let mut rng = SecretRng::deterministic_for_tests(3);
        let mut counts = [0u32; FIELD_ORDER as usize];
        const DRAWS: u32 = 1 << 16;
        (0..DRAWS).for_each(|_| counts[*BlindingFactor::sample(&mut rng).factor as usize] += 1);
        assert_eq!(counts[0], 0);
        let expected = f64::from(DRAWS) / 256.0;
        let chi: f64 = counts[1..].iter().map(|&n| (f64::from(n) - expected).powi(2) / expected).sum();
        // The statistic has mean 255 and standard deviation 22.6.
        assert!((165.0..345.0).contains(&chi), "{chi}");
    }

    proptest! {
        #[test]
        fn decoding_agrees_with_its_definition(phase: u64, c in 1..FIELD_ORDER) {
            let nearest = (u128::from(phase) * 257 * 2 + (1 << 64)) >> 65;
            let decoded = BlindingFactor::of(c).unblind(phase);
            prop_assert_eq!(u128::from(decoded) * u128::from(c) % 257, nearest % 257);
            prop_assert!(decoded <= 256);
            let distance = (phase.wrapping_sub(phase_of((nearest % 257) as u32)) as i64) as f64;
            prop_assert!((field_error(phase) - distance * 257.0 / 2f64.powi(63)).abs() < 1e-12);
        }
    }
}
