//! Public values of 32 bytes that clients and servers exchange, each with a type of its own: names
//! of versions, keys and files, and the salts of tables.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident),+) => {$(
        $(#[$doc])*
        ///
        /// It is shown, serialised and parsed as 64 lower-case hexadecimal digits. The default, all
        /// zeros, stands for none.
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(#[serde(with = "crate::hex")] [u8; 32]);

        impl $name {
            /// Returns the value with these bytes.
            pub const fn new(bytes: [u8; 32]) -> Self {
                Self(bytes)
            }

            /// Returns the bytes.
            pub const fn as_bytes(&self) -> &[u8; 32] {
                &self.0
            }

            /// Returns the value that the text shows; `None` if it is not 64 hexadecimal digits.
            /// Upper-case digits are accepted.
            pub fn from_hex(text: impl AsRef<[u8]>) -> Option<Self> {
                blake3::Hash::from_hex(text).ok().map(Self::from)
            }
        }

        impl From<[u8; 32]> for $name {
            fn from(bytes: [u8; 32]) -> Self {
                Self(bytes)
            }
        }

        impl From<blake3::Hash> for $name {
            fn from(hash: blake3::Hash) -> Self {
                Self(hash.into())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                blake3::Hash::from_bytes(self.0).to_hex().as_str().fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }
    )+};
}

names! {
    /// Version of a database: the hash of a snapshot's manifest, or of the versions of a base and
    /// its delta ([`delta::version`](crate::delta::version)).
    Version,
    /// Name of evaluation keys: BLAKE3 of their bytes.
    KeysHash,
    /// Name of a file: BLAKE3 of its bytes.
    FileHash,
    /// Public key of the hashes that a table stores: of its tags and checksums, or of its inclusion
    /// proofs.
    Salt,
    /// Public key of the hash that places a table's entries
    /// ([`EntryPlace`](crate::keyword::EntryPlace)).
    PlaceSalt
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_written_and_read_as_hexadecimal_digits() {
        let version = Version::new([0xab; 32]);
        let digits = "ab".repeat(32);
        assert_eq!(version.to_string(), digits);
        assert_eq!(format!("{version:.4}"), "abab");
        assert_eq!(format!("{version:?}"), format!("Version({digits})"));
        assert_eq!(serde_json::to_string(&version).unwrap(), format!("\"{digits}\""));
        assert_eq!(serde_json::from_str::<Version>(&format!("\"{digits}\"")).unwrap(), version);
        assert_eq!(Version::from_hex(&digits), Some(version));
        assert_eq!(Version::from_hex(digits.to_uppercase()), Some(version));
        for wrong in [&digits[1..], "", &"xy".repeat(32)] {
            assert_eq!(Version::from_hex(wrong), None, "{wrong}");
            assert!(serde_json::from_str::<Version>(&format!("\"{wrong}\"")).is_err());
        }
        assert!(serde_json::from_str::<Version>(&format!("\"{}\"", digits.to_uppercase())).is_err());
    }
}
