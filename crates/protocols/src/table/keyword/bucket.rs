//! Encoding of a bucket: a count, then for each entry its tag, the length of its value, and its
//! value.

use spirea_math::secret::declassify;
use zeroize::Zeroizing;

use super::TAG_BYTES;
use crate::ProtocolError;
use crate::bytes::{
    self, LENGTH_IS_TOLD, MAX_LENGTH_BYTES, length_bytes, masked_length, push_length, take_length,
};
use crate::oblivious::{above, equal, move_to_front, select};

/// Returns the number of bytes of a bucket's entry with a value of `value_bytes` bytes.
pub fn entry_bytes(value_bytes: usize) -> usize {
    TAG_BYTES + length_bytes(value_bytes) + value_bytes
}

/// A bucket under construction.
#[derive(Clone, Debug, Default)]
pub struct Bucket {
    entries: usize,
    bytes: Vec<u8>,
}

impl Bucket {
    /// Maximum bytes of the encoded number of entries.
    pub const COUNT_BYTES: usize = MAX_LENGTH_BYTES;

    /// Adds an entry.
    pub fn push(&mut self, tag: &[u8; TAG_BYTES], value: &[u8]) {
        self.entries += 1;
        self.bytes.extend_from_slice(tag);
        push_length(&mut self.bytes, value.len());
        self.bytes.extend_from_slice(value);
    }

    /// Returns the bucket as the payload of a record.
    pub fn payload(&self) -> Vec<u8> {
        let mut payload = Vec::with_capacity(Self::COUNT_BYTES + self.bytes.len());
        push_length(&mut payload, self.entries);
        payload.extend_from_slice(&self.bytes);
        payload
    }

    /// Empties the bucket and keeps its memory.
    pub fn clear(&mut self) {
        self.entries = 0;
        self.bytes.clear();
    }
}

/// Returns the entries in a bucket's payload, tags with values, in order.
///
/// # Errors
/// [`ProtocolError::Malformed`], as the last item, if the payload is not a bucket.
pub fn entries(payload: &[u8]) -> impl Iterator<Item = Result<(&[u8; TAG_BYTES], &[u8]), ProtocolError>> {
    let mut rest = payload;
    let mut left = take_length(&mut rest);
    std::iter::from_fn(move || {
        let count = match left {
            Some(0) => return None,
            Some(count) => count,
            None => {
                left = Some(0);
                return Some(Err(cut_off()));
            }
        };
        let entry = take_entry(&mut rest);
        left = Some(if entry.is_some() { count - 1 } else { 0 });
        Some(entry.ok_or_else(cut_off))
    })
}

fn take_entry<'a>(rest: &mut &'a [u8]) -> Option<(&'a [u8; TAG_BYTES], &'a [u8])> {
    let tag = bytes::take(rest, TAG_BYTES)?.first_chunk()?;
    let length = take_length(rest)?;
    Some((tag, bytes::take(rest, length)?))
}

fn cut_off() -> ProtocolError {
    ProtocolError::malformed("bucket", "an entry is cut off")
}

/// Returns the value with this tag in a bucket's payload, or `None` if the bucket has none.
///
/// The entries of a bucket reveal its number, so no branch or address depends on them: every byte
/// is read as if an entry began there, and masks select the true starts. The result reveals whether
/// the value exists, and its length. The value keeps the memory of the whole bucket, which the
/// caller erases.
///
/// # Errors
/// [`ProtocolError::Malformed`] if the payload is not a bucket.
pub fn find(payload: &[u8], tag: &[u8; TAG_BYTES]) -> Result<Option<Vec<u8>>, ProtocolError> {
    /// Bytes of an entry's tag and length.
    const HEAD: usize = TAG_BYTES + MAX_LENGTH_BYTES;
    let size = payload.len();
    // Zeros after the end make a truncated entry end beyond the payload.
    let mut padded = Zeroizing::new(Vec::with_capacity(size + HEAD));
    padded.extend_from_slice(payload);
    padded.resize(size + HEAD, 0);

    let count = masked_length(&padded);
    let mut malformed = count.malformed | above(count.bytes, size as u64);
    let (mut left, mut next) = (count.length, count.bytes);
    let (mut found, mut place, mut length) = (0, 0, 0);
    for (start, head) in (0..size as u64).zip(padded.windows(HEAD)) {
        let (entry_tag, behind) = head.split_at(TAG_BYTES);
        let value = masked_length(behind);
        let value_place = start + TAG_BYTES as u64 + value.bytes;
        let end = value_place + value.length;
        let here = equal(start, next) & !equal(left, 0);
        malformed |= here & (value.malformed | above(end, size as u64));
        next = select(here, end, next);
        left -= here & 1;
        let hit = here & same_tag(entry_tag, tag);
        found |= hit;
        place = select(hit, value_place, place);
        length = select(hit, value.length, length);
    }
    malformed |= !equal(left, 0);

    if declassify(malformed != 0, "a malformed bucket is reported") {
        return Err(cut_off());
    }
    // The work is the same whether the key exists or not, and for every length, since a server may
    // observe the time.
    move_to_front(&mut padded, place as usize);
    if !declassify(found != 0, "the application is told whether the table has the key") {
        return Ok(None);
    }
    padded.truncate(declassify(length as usize, LENGTH_IS_TOLD));
    Ok(Some(std::mem::take(&mut *padded)))
}

/// Returns all ones if two tags are equal.
#[inline(always)]
fn same_tag(a: &[u8], b: &[u8; TAG_BYTES]) -> u64 {
    equal(a.iter().zip(b).fold(0, |differs, (a, b)| differs | u64::from(a ^ b)), 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Defines the result of [`find`]: the value of the last entry with the tag. `None` if any
    /// entry is truncated.
    fn found_by_entries(payload: &[u8], tag: &[u8; TAG_BYTES]) -> Option<Option<Vec<u8>>> {
        let entries: Vec<_> = entries(payload).collect::<Result<_, _>>().ok()?;
        let found = entries.iter().rev().find(|(entry_tag, _)| *entry_tag == tag);
        Some(found.map(|(_, value)| value.to_vec()))
    }

    proptest! {
        #[test]
        fn every_entry_is_found_and_nothing_else(
            values in proptest::collection::btree_map(any::<[u8; TAG_BYTES]>(), proptest::collection::vec(any::<u8>(), 0..300), 0..20),
            absent: [u8; TAG_BYTES],
            padding in 0usize..64,
        ) {
            let mut bucket = Bucket::default();
            for (tag, value) in &values {
                bucket.push(tag, value);
            }
            let mut payload = bucket.payload();
            prop_assert!(payload.len() <= Bucket::COUNT_BYTES + values.values().map(|v| entry_bytes(v.len())).sum::<usize>());
            payload.resize(payload.len() + padding, 0);
            for (tag, value) in &values {
                prop_assert_eq!(find(&payload, tag).unwrap(), Some(value.clone()));
            }
            if !values.contains_key(&absent) {
                prop_assert_eq!(find(&payload, &absent).unwrap(), None);
            }
            let listed: Vec<_> = entries(&payload).map(|entry| entry.unwrap()).collect();
            prop_assert!(listed.into_iter().eq(values.iter().map(|(tag, value)| (tag, value.as_slice()))));
        }

        #[test]
        fn any_bytes_are_a_bucket_or_an_error(payload: Vec<u8>, tag: [u8; TAG_BYTES]) {
            prop_assert_eq!(find(&payload, &tag).ok(), found_by_entries(&payload, &tag));
        }

        #[test]
        fn damaged_buckets_are_read_alike_with_masks_and_with_branches(
            values in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 0..6),
            wanted in 0u8..7, cut in 0usize..40, padding in 0usize..9,
            damage in proptest::collection::vec((any::<usize>(), prop_oneof![Just(0u8), Just(0x80), Just(1), any::<u8>()]), 0..3),
        ) {
            let mut bucket = Bucket::default();
            for (i, value) in values.iter().enumerate() {
                bucket.push(&[i as u8 / 2; TAG_BYTES], value);
            }
            let mut payload = bucket.payload();
            payload.truncate(payload.len().saturating_sub(cut).max(1));
            payload.resize(payload.len() + padding, 0);
            for (place, byte) in damage {
                let place = place % payload.len();
                payload[place] = byte;
            }
            let tag = [wanted; TAG_BYTES];
            prop_assert_eq!(find(&payload, &tag).ok(), found_by_entries(&payload, &tag));
        }
    }
}
