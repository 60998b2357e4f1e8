//! Deltas: the changes of a table since its base was built, as a small keyword table beside it.
//!
//! A delta maps a key, or the index of a row ([`index_key`]), to a [`Change`]. A client queries
//! base and delta in one request, always both, so that the server does not learn which of them has
//! the answer. The delta overrides the base.

use spirea_math::random::Seed;
use spirea_math::secret::declassify;

use crate::{ProtocolError, Salt, Version};

/// A delta's entry for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// The key now has this value.
    Put(&'a [u8]),
    /// The key no longer has a value.
    Delete,
}

const DELETE: u8 = 0;
const PUT: u8 = 1;

impl<'a> Change<'a> {
    /// Encodes the change as a value of the delta's table: a byte for the kind, then the value.
    pub fn to_bytes(self) -> Vec<u8> {
        match self {
            Self::Put(value) => [&[PUT], value].concat(),
            Self::Delete => vec![DELETE],
        }
    }

    /// Parses a value of the delta's table.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] if the bytes are no change.
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, ProtocolError> {
        // In a version with base and delta, this declassification reveals for each of the two
        // whether it has the key.
        let kind = |&byte| declassify(byte, "a delta says whether a key has a new value or none");
        match bytes.split_first().map(|(first, value)| (kind(first), value)) {
            Some((PUT, value)) => Ok(Self::Put(value)),
            Some((DELETE, [])) => Ok(Self::Delete),
            _ => Err(ProtocolError::malformed("change", "it is neither a value nor a deletion")),
        }
    }
}

/// Returns the key in the delta for row `index` of a table that is looked up by position.
pub fn index_key(index: u64) -> [u8; 8] {
    index.to_le_bytes()
}

/// Returns the version of a database: that of its base alone, or a hash of both versions.
pub fn version(base: Version, delta: Option<Version>) -> Version {
    delta.map_or(base, |delta| {
        let mut hasher = blake3::Hasher::new_derive_key("spirea 2026 version of a base and its delta");
        hasher.update(base.as_bytes()).update(delta.as_bytes());
        hasher.finalize().into()
    })
}

/// Returns the seed of the public matrices of all deltas of a base, for clients that hold a hint.
/// With one seed, the hints of two deltas of one shape differ only where their records differ.
pub fn seed(base: &Version) -> Seed {
    Seed::new(blake3::derive_key(
        "spirea 2026 seed of the public matrices of a base's deltas",
        base.as_bytes(),
    ))
}

/// Returns the salt of all deltas of a base.
///
/// Anyone who knows the base knows the salt before contributing keys, but cannot exploit it: tags
/// only decide whether two keys are distinguished. Matching the tag of a given key takes 2^96
/// hashes. Finding two keys with equal tags takes 2^48 hashes. A delta that contains both keys is
/// refused, but a delta of the next base has another salt and is not refused. The positions of
/// entries depend on the table's places, which cannot be predicted.
pub fn salt(base: &Version) -> Salt {
    Salt::new(blake3::derive_key("spirea 2026 salt of a base's deltas", base.as_bytes()))
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
    fn each_base_has_its_own_seed_and_salt() {
        let [one, two] = [1, 2].map(|byte| Version::new([byte; 32]));
        assert!(seed(&one) != seed(&two) && salt(&one) != salt(&two));
        assert!(seed(&one).as_bytes() != salt(&one).as_bytes());
    }

    #[test]
    fn versions_tell_bases_and_deltas_apart() {
        let [one, two] = [1, 2].map(|byte| Version::new([byte; 32]));
        let versions = [version(one, None), version(one, Some(two)), version(two, Some(one))];
        assert_eq!(versions[0], one);
        assert!(versions[0] != versions[1] && versions[1] != versions[2] && versions[0] != versions[2]);
    }
}
