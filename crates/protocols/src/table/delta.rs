//! Deltas: what has changed of a table since its base was built, as a small keyword table beside it.
//!
//! A delta maps a key, or the index of a row ([`index_key`]), to a [`Change`]. A client asks the base and the delta
//! in one request, always both, so that the server does not learn which of them had the answer. What the delta
//! says goes before what the base says; where it says nothing, the base is right.

use spirea_math::secret::declassify;

use crate::ProtocolError;

/// What a delta says of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// It has this value now.
    Put(&'a [u8]),
    /// It has none any more.
    Delete,
}

const DELETE: u8 = 0;
const PUT: u8 = 1;

impl<'a> Change<'a> {
    /// The change as a value of the delta's table: a byte that tells which, and the value.
    pub fn to_bytes(self) -> Vec<u8> {
        match self {
            Self::Put(value) => [&[PUT], value].concat(),
            Self::Delete => vec![DELETE],
        }
    }

    /// Reads a value of the delta's table.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] if it is none.
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, ProtocolError> {
        // Base and delta show apart where a version has both.
        let kind = |&byte| declassify(byte, "a delta says whether a key has a new value or none");
        match bytes.split_first().map(|(first, value)| (kind(first), value)) {
            Some((PUT, value)) => Ok(Self::Put(value)),
            Some((DELETE, [])) => Ok(Self::Delete),
            _ => Err(ProtocolError::malformed("change", "it is neither a value nor a deletion")),
        }
    }
}

/// The key by which a delta knows row `index` of a table that is looked up by position.
pub fn index_key(index: u64) -> [u8; 8] {
    index.to_le_bytes()
}

/// The version of a database: that of its base alone, or a hash of those of both.
pub fn version(base: [u8; 32], delta: Option<[u8; 32]>) -> [u8; 32] {
    delta.map_or(base, |delta| {
        let mut hasher = blake3::Hasher::new_derive_key("spirea 2026 version of a base and its delta");
        hasher.update(&base).update(&delta);
        hasher.finalize().into()
    })
}

/// The seed of the public matrices of all deltas of a base whose clients hold a hint: two of one shape differ in their
/// hints only where their records differ.
pub fn seed(base: &[u8; 32]) -> [u8; 32] {
    blake3::derive_key("spirea 2026 seed of the public matrices of a base's deltas", base)
}

/// The salt of all deltas of a base.
///
/// Whoever knows the base knows it before contributing keys, and can do nothing with it: what tags decide is whether
/// two keys are told apart. To have a given key's tag takes 2^96 hashes; two keys of one's own with one tag take 2^48,
/// and a delta with both is refused, but not one of the next base, whose salt is another. Where entries lie is decided by a table's places,
/// which follow from nothing.
pub fn salt(base: &[u8; 32]) -> [u8; 32] {
    blake3::derive_key("spirea 2026 salt of a base's deltas", base)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn changes_survive(value: Vec<u8>) {
            for change in [Change::Put(&value), Change::Delete] {
                let bytes = change.to_bytes();
                prop_assert_eq!(Change::from_bytes(&bytes).unwrap(), change);
            }
        }

        #[test]
        fn any_bytes_are_a_change_or_an_error(bytes: Vec<u8>) {
            if let Ok(change) = Change::from_bytes(&bytes) {
                prop_assert_eq!(change.to_bytes(), bytes);
            }
        }
    }

    #[test]
    fn versions_tell_bases_and_deltas_apart() {
        let versions =
            [version([1; 32], None), version([1; 32], Some([2; 32])), version([2; 32], Some([1; 32]))];
        assert_eq!(versions[0], [1; 32]);
        assert!(versions[0] != versions[1] && versions[1] != versions[2] && versions[0] != versions[2]);
    }
}
