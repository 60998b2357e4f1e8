use super::KeywordHash;
use crate::AppleError;

/// Maximum number of values in a bucket.
pub const MAX_SLOTS: usize = u8::MAX as usize;
/// Maximum length of a value in bytes.
pub const MAX_VALUE_BYTES: usize = u16::MAX as usize;

/// Bytes of a slot beyond its value: the hash and the length.
const SLOT_BYTES: usize = 8 + 2;
/// Bytes of a bucket beyond its slots: their number.
pub(super) const BUCKET_BYTES: usize = 1;

/// The values of the keywords that hash to one bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    pub(super) slots: Vec<(KeywordHash, Vec<u8>)>,
}

/// Returns the bytes of a value in a bucket.
pub(super) fn slot_bytes(value: &[u8]) -> usize {
    slot_bytes_of(value.len())
}

/// Returns the bytes of a value of `length` bytes in a bucket.
pub(super) fn slot_bytes_of(length: usize) -> usize {
    SLOT_BYTES + length
}

impl Bucket {
    /// Returns the serialised length in bytes.
    pub fn serialized_bytes(&self) -> usize {
        BUCKET_BYTES + self.slots.iter().map(|(_, value)| slot_bytes(value)).sum::<usize>()
    }

    /// Returns the value of a keyword's hash.
    pub fn value(&self, hash: KeywordHash) -> Option<&[u8]> {
        self.slots.iter().find(|(found, _)| *found == hash).map(|(_, value)| &value[..])
    }

    /// Returns the serialised bucket: the number of slots, then for each slot the hash, the length
    /// of the value, little-endian, and the value.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.serialized_bytes());
        bytes.push(self.slots.len() as u8);
        for (hash, value) in &self.slots {
            bytes.extend(hash.0.to_le_bytes());
            bytes.extend((value.len() as u16).to_le_bytes());
            bytes.extend(value);
        }
        bytes
    }

    /// Parses a bucket, padded or not. A zero byte is the empty bucket.
    ///
    /// # Errors
    /// [`AppleError::Malformed`] if a slot is cut off, or the padding is not zero.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, AppleError> {
        let cut_off = || AppleError::malformed("bucket", "a slot is cut off");
        let (&count, mut rest) = bytes.split_first().ok_or_else(cut_off)?;
        let mut slots = Vec::new();
        for _ in 0..count {
            let (hash, tail) = rest.split_first_chunk().ok_or_else(cut_off)?;
            let (length, tail) = tail.split_first_chunk().ok_or_else(cut_off)?;
            let length = u16::from_le_bytes(*length).into();
            let (value, tail) = tail.split_at_checked(length).ok_or_else(cut_off)?;
            slots.push((KeywordHash(u64::from_le_bytes(*hash)), value.to_vec()));
            rest = tail;
        }
        if rest.iter().any(|&byte| byte != 0) {
            return Err(AppleError::malformed("bucket", "the padding is not zero"));
        }
        Ok(Self { slots })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn buckets_are_read_back_with_any_padding(
            slots in proptest::collection::vec(
                (any::<u64>().prop_map(KeywordHash), proptest::collection::vec(any::<u8>(), 0..30)), 0..20,
            ),
            padding in 0..40usize,
        ) {
            let bucket = Bucket { slots };
            let mut bytes = bucket.to_bytes();
            prop_assert_eq!(bytes.len(), bucket.serialized_bytes());
            bytes.resize(bytes.len() + padding, 0);
            prop_assert_eq!(Bucket::from_bytes(&bytes), Ok(bucket));
        }

        #[test]
        fn any_bytes_are_a_bucket_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(bucket) = Bucket::from_bytes(&bytes) {
                let mut again = bucket.to_bytes();
                again.resize(bytes.len(), 0);
                prop_assert_eq!(again, bytes);
            }
        }
    }

    #[test]
    fn the_bytes_of_a_bucket_are_the_format() {
        let bucket = Bucket { slots: vec![(KeywordHash(0x0102_0304_0506_0708), b"ab".to_vec())] };
        assert_eq!(bucket.to_bytes(), [1, 8, 7, 6, 5, 4, 3, 2, 1, 2, 0, b'a', b'b']);
        assert_eq!(Bucket::default().to_bytes(), [0]);
        assert!(Bucket::from_bytes(&[]).is_err() && Bucket::from_bytes(&[1, 8]).is_err());
        assert!(Bucket::from_bytes(&[0, 1]).is_err());
    }
}
