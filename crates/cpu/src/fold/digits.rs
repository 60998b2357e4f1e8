//! Balanced digits of query words.
//!
//! Processors multiply narrow signed numbers exactly and add the products in 32 bits: `vpdpbusd`
//! four bytes at a time, `pmaddwd` two 16-bit words. A word v is therefore written in balanced
//! digits, v = sum of d_k 2^(8k) with -128 <= d_k < 128 (or 2^(16k), -2^15 <= d_k < 2^15). The
//! lowest digit is the low bits of v read as a signed number; v minus that digit, shifted, has the
//! other digits. The carry out of the last digit is a multiple of 2^32 and vanishes. Sums are kept
//! by digit, modulo 2^32, and joined by shifts at the very end, so nothing is ever rounded or
//! saturated.

use super::{Operand, RowLanes};

/// Packs four words of a query for lanes of type `L`. Word `phase * DIGITS + k` of the operand has
/// digit k of columns `phase`, `phase + PHASES`, ..., with the lowest column in the lowest bits.
#[inline(always)]
pub(super) fn pack<L: RowLanes>(words: [u32; 4]) -> Operand {
    match L::PHASES {
        1 => bytes(words),
        2 => halves(words),
        _ => words,
    }
}

/// Packs byte digits: word k has digit k of the four columns.
#[inline(always)]
fn bytes(mut words: [u32; 4]) -> Operand {
    let mut operand = [0; 4];
    for digits in &mut operand {
        for (column, word) in words.iter_mut().enumerate() {
            let digit = *word as i8;
            *digits |= u32::from(digit as u8) << (8 * column);
            *word = word.wrapping_sub(digit as u32) >> 8;
        }
    }
    operand
}

/// Packs 16-bit digits: words 0 and 1 have the low and the high digits of columns 0 and 2, words 2
/// and 3 those of columns 1 and 3.
#[inline(always)]
fn halves(words: [u32; 4]) -> Operand {
    let pair = |a: u32, b: u32| (a & 0xFFFF) | (b << 16);
    let high = |word: u32| word.wrapping_sub(word as i16 as u32) >> 16;
    let [a, b, c, d] = words;
    [pair(a, c), pair(high(a), high(c)), pair(b, d), pair(high(b), high(d))]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn awkward() -> impl Strategy<Value = u32> {
        prop_oneof![
            any::<u32>(),
            prop::sample::select(vec![
                0,
                1,
                0x7F,
                0x80,
                0x7FFF,
                0x8000,
                0x7FFF_8000,
                0xFFFF_8000,
                0x8080_8080,
                0x7F7F_7F80,
                0x7FFF_FFFF,
                0x8000_0000,
                u32::MAX,
            ]),
        ]
    }

    proptest! {
        #[test]
        fn byte_digits_stand_for_the_words(words in prop::array::uniform4(awkward())) {
            let operand = bytes(words);
            for (column, &word) in words.iter().enumerate() {
                let sum = (0..4).fold(0u32, |sum, k| {
                    let digit = (operand[k] >> (8 * column)) as i8;
                    sum.wrapping_add((digit as u32) << (8 * k))
                });
                prop_assert_eq!(sum, word);
            }
        }

        #[test]
        fn half_digits_stand_for_the_words(words in prop::array::uniform4(awkward())) {
            let operand = halves(words);
            for (column, &word) in words.iter().enumerate() {
                let (phase, shift) = (column % 2, 16 * (column / 2));
                let [low, high] = [0, 1].map(|k| (operand[2 * phase + k] >> shift) as i16 as u32);
                prop_assert_eq!(low.wrapping_add(high << 16), word);
            }
        }
    }
}
