//! A bucket's bytes: a count, then for each entry its tag, the length of its value, and its value.

use super::TAG_BYTES;
use crate::ProtocolError;
use crate::bytes::{length_bytes, push_length, take, take_length};

/// Bytes that an entry with a value of `value_bytes` takes in its bucket.
pub fn entry_bytes(value_bytes: usize) -> usize {
    TAG_BYTES + length_bytes(value_bytes) + value_bytes
}

/// A bucket that is being filled.
#[derive(Clone, Debug, Default)]
pub struct Bucket {
    entries: usize,
    bytes: Vec<u8>,
}

impl Bucket {
    /// The most bytes that a count of entries takes.
    pub const COUNT_BYTES: usize = crate::bytes::MAX_LENGTH_BYTES;

    /// Adds an entry.
    pub fn push(&mut self, tag: &[u8; TAG_BYTES], value: &[u8]) {
        self.entries += 1;
        self.bytes.extend_from_slice(tag);
        push_length(&mut self.bytes, value.len());
        self.bytes.extend_from_slice(value);
    }

    /// The bucket as the payload of a record.
    pub fn payload(&self) -> Vec<u8> {
        let mut payload = Vec::with_capacity(Self::COUNT_BYTES + self.bytes.len());
        push_length(&mut payload, self.entries);
        payload.extend_from_slice(&self.bytes);
        payload
    }

    /// Empties it, keeping its memory.
    pub fn clear(&mut self) {
        self.entries = 0;
        self.bytes.clear();
    }
}

/// The entries in the payload of a bucket, tags with values, in their order.
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
    let tag = take(rest, TAG_BYTES)?.first_chunk()?;
    let length = take_length(rest)?;
    Some((tag, take(rest, length)?))
}

fn cut_off() -> ProtocolError {
    ProtocolError::malformed("bucket", "an entry is cut off")
}

/// The value with this tag in the payload of a bucket, or `None` if the bucket has none. Every entry is
/// visited, wherever the tag is.
///
/// # Errors
/// [`ProtocolError::Malformed`] if the payload is not a bucket.
pub fn find(payload: &[u8], tag: &[u8; TAG_BYTES]) -> Result<Option<Vec<u8>>, ProtocolError> {
    let mut found = None;
    for entry in entries(payload) {
        let (entry_tag, value) = entry?;
        if entry_tag == tag {
            found = Some(value);
        }
    }
    Ok(found.map(<[u8]>::to_vec))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
            let _ = find(&payload, &tag);
        }
    }
}
