//! Numbers of a fixed number of bits in bytes, the most significant bit first, without gaps.

/// Appends the `width` low bits of each number; `width` is 1 to 32. Zero bits fill the last byte.
pub fn push(bytes: &mut Vec<u8>, width: u32, numbers: impl IntoIterator<Item = u32>) {
    let (mut pending, mut count) = (0u64, 0);
    for number in numbers {
        pending = pending << width | u64::from(number) & low_bits(width);
        count += width;
        while count >= 8 {
            count -= 8;
            bytes.push((pending >> count) as u8);
        }
    }
    if count > 0 {
        bytes.push((pending << (8 - count)) as u8);
    }
}

/// Returns all complete numbers of `width` bits in `bytes`; `width` is 1 to 32.
pub fn numbers(bytes: &[u8], width: u32) -> impl Iterator<Item = u32> {
    let (mut pending, mut count) = (0u64, 0);
    let mut bytes = bytes.iter();
    std::iter::from_fn(move || {
        while count < width {
            pending = pending << 8 | u64::from(*bytes.next()?);
            count += 8;
        }
        count -= width;
        Some((pending >> count & low_bits(width)) as u32)
    })
}

fn low_bits(width: u32) -> u64 {
    (1 << width) - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_are_their_bits_in_order(
            (width, values) in (1u32..=32).prop_flat_map(|width| {
                (Just(width), proptest::collection::vec(0..=low_bits(width) as u32, 0..40))
            }),
        ) {
            let mut bytes = Vec::new();
            push(&mut bytes, width, values.iter().copied());
            let text: String = values.iter().map(|value| format!("{value:00$b}", width as usize)).collect();
            let expected: Vec<u8> = text.as_bytes().chunks(8).map(|bits| {
                bits.iter().enumerate().fold(0, |byte, (i, &bit)| byte | (bit - b'0') << (7 - i))
            }).collect();
            prop_assert_eq!(&bytes, &expected);
            prop_assert!(numbers(&bytes, width).take(values.len()).eq(values));
        }
    }
}
