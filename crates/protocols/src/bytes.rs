//! Little-endian words and variable-length lengths.

use spirea_math::secret::{declassify, opaque};

use crate::oblivious::equal;

/// Converts words to little-endian bytes.
pub(crate) fn words_to_bytes(words: &[u32]) -> Vec<u8> {
    words.iter().map(|word| word.to_le_bytes()).collect::<Vec<_>>().into_flattened()
}

/// Appends the words of little-endian `bytes`, whose length must be a multiple of 4.
pub(crate) fn extend_words(words: &mut Vec<u32>, bytes: &[u8]) {
    debug_assert!(bytes.len().is_multiple_of(4));
    words.extend(bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])));
}

/// Appends a multiple of 8 words without their `dropped` lowest bits, which must be 0. The
/// remaining bits of the words follow each other without gaps, lowest bits first.
pub(crate) fn extend_upper_bits(bytes: &mut Vec<u8>, words: &[u32], dropped: u32) {
    if dropped == 0 {
        bytes.reserve(size_of_val(words));
        words.iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
        return;
    }
    let bits = u32::BITS - dropped;
    let (mut pending, mut count) = (0u64, 0);
    for &word in words {
        pending |= u64::from(word >> dropped) << count;
        count += bits;
        while count >= 8 {
            bytes.push(pending as u8);
            (pending, count) = (pending >> 8, count - 8);
        }
    }
    debug_assert_eq!(count, 0, "words are a multiple of 8");
}

/// Fills `words`, whose number is a multiple of 8, with the words that [`extend_upper_bits`] wrote
/// to `bytes`.
///
/// # Panics
/// If the lengths do not fit together, or if `dropped` exceeds 16.
pub(crate) fn words_of_upper_bits(words: &mut [u32], bytes: &[u8], dropped: u32) {
    match dropped {
        0 => words_of_groups::<32>(words, bytes),
        1 => words_of_groups::<31>(words, bytes),
        2 => words_of_groups::<30>(words, bytes),
        3 => words_of_groups::<29>(words, bytes),
        4 => words_of_groups::<28>(words, bytes),
        5 => words_of_groups::<27>(words, bytes),
        6 => words_of_groups::<26>(words, bytes),
        7 => words_of_groups::<25>(words, bytes),
        8 => words_of_groups::<24>(words, bytes),
        9 => words_of_groups::<23>(words, bytes),
        10 => words_of_groups::<22>(words, bytes),
        11 => words_of_groups::<21>(words, bytes),
        12 => words_of_groups::<20>(words, bytes),
        13 => words_of_groups::<19>(words, bytes),
        14 => words_of_groups::<18>(words, bytes),
        15 => words_of_groups::<17>(words, bytes),
        16 => words_of_groups::<16>(words, bytes),
        _ => panic!("{dropped} dropped bits: at most 16"),
    }
}

/// Fills `words` with the upper `BITS` bits of each word: eight words from a group of `BITS` bytes.
/// The constant fixes the position of every load at compile time.
fn words_of_groups<const BITS: usize>(words: &mut [u32], bytes: &[u8]) {
    let ((words, no_words), (groups, no_bytes)) = (words.as_chunks_mut::<8>(), bytes.as_chunks::<BITS>());
    assert!(no_words.is_empty() && no_bytes.is_empty(), "whole groups of eight words");
    assert_eq!(words.len(), groups.len(), "a group of bytes for each group of words");
    for (words, group) in words.iter_mut().zip(groups) {
        for (i, word) in words.iter_mut().enumerate() {
            // The last loads begin earlier, so that no load reads beyond the group.
            let start = (i * BITS / 8).min(BITS - 8);
            let loaded = u64::from_le_bytes(*group[start..].first_chunk().expect("eight bytes"));
            // The left shift removes the bits of the next word.
            *word = ((loaded >> (i * BITS - 8 * start)) as u32) << (32 - BITS);
        }
    }
}

/// Maximum bytes of an encoded length.
pub(crate) const MAX_LENGTH_BYTES: usize = 5;

/// Appends a length below 2^35 in LEB128: seven bits a byte, low ones first.
pub(crate) fn push_length(out: &mut Vec<u8>, mut length: usize) {
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
}

/// Returns the number of bytes that [`push_length`] writes.
pub(crate) fn length_bytes(length: usize) -> usize {
    (usize::BITS - (length | 1).leading_zeros()).div_ceil(7) as usize
}

/// Reason for declassifying a length in a requested value.
pub(crate) const LENGTH_IS_TOLD: &str = "the application gets the value's length";

/// Takes a length off the front. `None` if it is truncated, too long, or not in its shortest form.
pub(crate) fn take_length(bytes: &mut &[u8]) -> Option<usize> {
    let mut length = 0;
    for i in 0..MAX_LENGTH_BYTES {
        let byte = declassify(*bytes.get(i)?, LENGTH_IS_TOLD);
        length |= usize::from(byte & 0x7f) << (7 * i);
        if byte & 0x80 == 0 {
            *bytes = &bytes[i + 1..];
            return (byte != 0 || i == 0).then_some(length);
        }
    }
    None
}

/// A length read at a secret position, without a branch on it.
pub(crate) struct MaskedLength {
    /// The length.
    pub length: u64,
    /// Bytes of its encoding.
    pub bytes: u64,
    /// All ones if the encoding is too long or not the shortest, else 0.
    pub malformed: u64,
}

/// Reads the length at the start of `bytes` ([`take_length`] with masks). `bytes` must have at
/// least [`MAX_LENGTH_BYTES`].
#[inline(always)]
pub(crate) fn masked_length(bytes: &[u8]) -> MaskedLength {
    let (mut length, mut count, mut malformed) = (0, 0, 0);
    // All ones while bytes belong to the length.
    let mut belongs = u64::MAX;
    for (i, &byte) in (0u64..).zip(&bytes[..MAX_LENGTH_BYTES]) {
        let more = opaque(u64::from(byte >> 7).wrapping_neg());
        length |= (u64::from(byte & 0x7f) << (7 * i)) & belongs;
        count += belongs & 1;
        if i > 0 {
            malformed |= belongs & equal(byte.into(), 0);
        }
        belongs &= more;
    }
    MaskedLength { length, bytes: count, malformed: malformed | belongs }
}

/// Takes `count` bytes off the front.
pub(crate) fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (head, tail) = bytes.split_at_checked(count)?;
    *bytes = tail;
    Some(head)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reads the words that [`extend_upper_bits`] wrote, byte by byte.
    fn read_byte_by_byte(bytes: &[u8], dropped: u32) -> Vec<u32> {
        let bits = u32::BITS - dropped;
        let (mut words, mut pending, mut count) = (Vec::new(), 0u64, 0);
        for &byte in bytes {
            (pending, count) = (pending | u64::from(byte) << count, count + 8);
            if count >= bits {
                words.push((pending as u32) << dropped);
                (pending, count) = (pending >> bits, count - bits);
            }
        }
        words
    }

    #[test]
    #[should_panic(expected = "a group of bytes for each group of words")]
    fn a_missing_group_of_bytes_is_not_read() {
        words_of_upper_bits(&mut [0; 16], &[0; 27], 5);
    }

    #[test]
    #[should_panic(expected = "whole groups")]
    fn a_part_of_a_group_is_not_read() {
        words_of_upper_bits(&mut [0; 8], &[0; 28], 5);
    }

    proptest! {
        #[test]
        fn words_are_those_read_byte_by_byte(
            groups in proptest::collection::vec(proptest::array::uniform32(any::<u8>()), 0..9), dropped in 0u32..17,
        ) {
            let bytes = &groups.concat()[..groups.len() * (32 - dropped as usize)];
            let mut words = vec![u32::MAX; 8 * groups.len()];
            words_of_upper_bits(&mut words, bytes, dropped);
            prop_assert_eq!(words, read_byte_by_byte(bytes, dropped));
        }

        #[test]
        fn upper_bits_of_words_survive(
            words in proptest::collection::vec(proptest::array::uniform8(any::<u32>()), 0..9), dropped in 0u32..17,
        ) {
            let words: Vec<u32> = words.concat().iter().map(|word| word >> dropped << dropped).collect();
            let mut bytes = Vec::new();
            extend_upper_bits(&mut bytes, &words, dropped);
            prop_assert_eq!(bytes.len(), words.len() * (32 - dropped as usize) / 8);
            let bit = |i: usize| u32::from(bytes[i / 8] >> (i % 8) & 1);
            let mut back = vec![0; words.len()];
            words_of_upper_bits(&mut back, &bytes, dropped);
            let bits = (32 - dropped) as usize;
            for (i, word) in words.iter().enumerate() {
                prop_assert_eq!((0..bits).fold(0, |sum, j| sum | bit(i * bits + j) << j) << dropped, *word);
            }
            prop_assert_eq!(back, words);
        }

        #[test]
        fn lengths_survive(length in 0usize..1 << 35) {
            let mut bytes = Vec::new();
            push_length(&mut bytes, length);
            prop_assert_eq!(bytes.len(), length_bytes(length));
            let mut rest = &bytes[..];
            prop_assert_eq!(take_length(&mut rest), Some(length));
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn lengths_are_read_alike_with_masks_and_with_branches(
            bytes in proptest::array::uniform5(prop_oneof![Just(0u8), Just(0x80), Just(0xff), any::<u8>()]),
        ) {
            let mut rest = &bytes[..];
            let masked = masked_length(&bytes);
            match take_length(&mut rest) {
                None => prop_assert_eq!(masked.malformed, u64::MAX),
                Some(length) => {
                    let expected = (length as u64, (bytes.len() - rest.len()) as u64, 0);
                    prop_assert_eq!((masked.length, masked.bytes, masked.malformed), expected);
                }
            }
        }

        #[test]
        fn any_bytes_are_a_length_in_shortest_form_or_none(bytes: Vec<u8>) {
            let mut rest = &bytes[..];
            if let Some(length) = take_length(&mut rest) {
                let mut again = Vec::new();
                push_length(&mut again, length);
                prop_assert_eq!(&bytes[..bytes.len() - rest.len()], &again[..]);
            }
        }
    }
}
