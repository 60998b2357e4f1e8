//! Comparisons and copies of secrets: no branch and no address depends on them.
//!
//! A mask is all ones or zero.

use spirea_math::secret::opaque;

/// Returns all ones if `a` equals `b`.
#[inline(always)]
pub(crate) fn equal(a: u64, b: u64) -> u64 {
    let differs = a ^ b;
    // A number or its negative has the sign bit set, unless the number is 0.
    opaque(((differs | differs.wrapping_neg()) >> 63).wrapping_sub(1))
}

/// Returns all ones if `a > b`; both must be below 2^63.
#[inline(always)]
pub(crate) fn above(a: u64, b: u64) -> u64 {
    opaque((b.wrapping_sub(a) >> 63).wrapping_neg())
}

/// Returns `a` if `mask` is all ones, `b` if it is 0.
#[inline(always)]
pub(crate) fn select(mask: u64, a: u64, b: u64) -> u64 {
    (a & mask) | (b & !mask)
}

/// Returns quotient and remainder of a secret number below 2^40 by a public one of 2 to 2^12. Uses
/// no division instruction, since some processors take longer to divide larger numbers.
///
/// The reciprocal exceeds 2^64 / `by` by less than 1, so the product exceeds 2^64 `number` / `by`
/// by less than 2^40. This is less than 2^64 / `by`, so the quotient is exact.
pub(crate) fn divide(number: u64, by: u32) -> (u64, u64) {
    debug_assert!(number < 1 << 41 && (2..=1 << 12).contains(&by));
    let reciprocal = u64::MAX / u64::from(by) + 1;
    let quotient = ((u128::from(number) * u128::from(reciprocal)) >> 64) as u64;
    (quotient, number - quotient * u64::from(by))
}

/// Moves the bytes from the secret position `start` on to the front. The last bytes are meaningless
/// afterwards.
///
/// For each power of two in turn, a mask selects whether all bytes move by that power or stay. The
/// work depends on the number of bytes only.
pub(crate) fn move_to_front(bytes: &mut [u8], start: usize) {
    for bit in 0..usize::BITS - bytes.len().leading_zeros() {
        let step = 1 << bit;
        let mask = opaque(0u8.wrapping_sub((start >> bit & 1) as u8));
        for i in 0..bytes.len() - step {
            bytes[i] = (bytes[i + step] & mask) | (bytes[i] & !mask);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn quotients_are_those_of_divisions(number in 0u64..1 << 40, multiple in 0u64..1 << 28, by in 2u32..=4096) {
            let by = u64::from(by);
            for number in [number, multiple * by, (multiple * by).saturating_sub(1), (1 << 40) - 1, 0] {
                prop_assert_eq!(divide(number, by as u32), (number / by, number % by));
            }
        }

        #[test]
        fn masks_are_those_of_the_comparisons(a: u64, b: u64, shift in 1u32..64) {
            let (a, b) = (a >> shift, b >> shift);
            for (a, b) in [(a, b), (a, a), (a, a + 1), (a + 1, a), (0, a)] {
                prop_assert_eq!(equal(a, b), u64::from(a == b).wrapping_neg());
                prop_assert_eq!(above(a, b), u64::from(a > b).wrapping_neg());
                prop_assert_eq!([select(u64::MAX, a, b), select(0, a, b)], [a, b]);
            }
        }

        #[test]
        fn what_lies_behind_a_place_moves_to_the_front(bytes in proptest::collection::vec(any::<u8>(), 0..300), start: usize) {
            let start = start % (bytes.len() + 1);
            let mut moving = bytes.clone();
            move_to_front(&mut moving, start);
            prop_assert_eq!(&moving[..bytes.len() - start], &bytes[start..]);
        }
    }
}
