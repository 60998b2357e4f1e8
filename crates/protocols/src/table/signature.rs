//! Signed versions: proof of a version's publisher, and protection against older versions.
//!
//! An operator's Ed25519 key signs the name of a dataset, a version of it, a sequence number and a
//! time. The sequence number increases with every published version, even when an operator returns
//! to an earlier version. A client that pins the key refuses unsigned versions, versions signed by
//! another key, and lower sequence numbers than it has seen.
//!
//! A signature does not prove that the content is true, or that a server shows all clients the same
//! latest version.

use std::fmt;
use std::str::FromStr;

use ed25519_dalek::{Signer as _, SigningKey, VerifyingKey};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::{ProtocolError, Version};

/// Maximum bytes of a signature as JSON.
pub const MAX_SIGNATURE_BYTES: u64 = 1024;
/// Bytes of an Ed25519 signature.
const ED25519_BYTES: usize = 64;

/// A public key, as clients pin it: 64 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PublicKey(#[serde(with = "crate::hex")] [u8; 32]);

impl FromStr for PublicKey {
    type Err = ProtocolError;

    fn from_str(text: &str) -> Result<Self, ProtocolError> {
        let bytes = blake3::Hash::from_hex(text).ok().map(|bytes| *bytes.as_bytes());
        match bytes.filter(|bytes| VerifyingKey::from_bytes(bytes).is_ok_and(|key| !key.is_weak())) {
            Some(bytes) => Ok(Self(bytes)),
            None => Err(ProtocolError::malformed(
                "public key",
                "it is not the 64 hexadecimal digits that `spirea key new` printed",
            )),
        }
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        blake3::Hash::from_bytes(self.0).to_hex().fmt(f)
    }
}

/// A signing key, erased from memory when dropped.
pub struct PrivateKey(SigningKey);

impl PrivateKey {
    /// Creates the key from 32 secret bytes.
    pub fn from_bytes(bytes: &[u8; 32]) -> Self {
        Self(SigningKey::from_bytes(bytes))
    }

    /// Returns its 32 secret bytes, erased when dropped.
    pub fn to_bytes(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(self.0.to_bytes())
    }

    /// Returns the public key, which clients pin.
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key().to_bytes())
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateKey of {}", self.public())
    }
}

/// An operator's signature of a version of a dataset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signature {
    /// Sequence number, which increases with every published version of the dataset.
    pub sequence: u64,
    /// Time of signing: RFC 3339 in UTC, to the second.
    pub created: String,
    /// Key that signed; a client compares it with its pinned key.
    pub key: PublicKey,
    /// The signature.
    #[serde(with = "ed25519_hex")]
    ed25519: [u8; ED25519_BYTES],
}

impl Signature {
    /// Signs version `version` of dataset `name`.
    pub fn new(key: &PrivateKey, name: &str, version: &Version, sequence: u64, created: &str) -> Self {
        let ed25519 = key.0.sign(&statement(name, version, sequence, created)).to_bytes();
        Self { sequence, created: created.into(), key: key.public(), ed25519 }
    }

    /// Parses a signature, without verifying it ([`Signature::verify`]).
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`].
    pub fn from_json(json: &[u8]) -> Result<Self, ProtocolError> {
        let malformed = |detail: String| ProtocolError::malformed("signature", detail);
        if json.len() as u64 > MAX_SIGNATURE_BYTES {
            return Err(malformed(format!("it is longer than {MAX_SIGNATURE_BYTES} bytes")));
        }
        serde_json::from_slice(json).map_err(|error| malformed(error.to_string()))
    }

    /// Returns the signature as JSON.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a signature is plain data")
    }

    /// Verifies that `key` signed version `version` of dataset `name`.
    ///
    /// # Errors
    /// [`ProtocolError::Untrusted`] if the key did not sign it.
    pub fn verify(&self, name: &str, version: &Version, key: &PublicKey) -> Result<(), ProtocolError> {
        if self.key != *key {
            return Err(ProtocolError::Untrusted(format!(
                "{name} is signed by the key {}, and the pinned one is {key}: if the operator has told you of a new key, pin that; otherwise do not trust this server",
                self.key
            )));
        }
        let signed = statement(name, version, self.sequence, &self.created);
        let signature = ed25519_dalek::Signature::from_bytes(&self.ed25519);
        let checked = VerifyingKey::from_bytes(&key.0).and_then(|key| key.verify_strict(&signed, &signature));
        checked.map_err(|_| {
            ProtocolError::Untrusted(format!(
                "the signature of {name} is not one of this version: do not trust this server"
            ))
        })
    }
}

/// Returns the signed statement. Each part of variable length is preceded by its length.
fn statement(name: &str, version: &Version, sequence: u64, created: &str) -> Vec<u8> {
    let mut bytes = b"spirea 2026 signed version\0".to_vec();
    for text in [name, created] {
        bytes.extend((text.len() as u64).to_le_bytes());
        bytes.extend_from_slice(text.as_bytes());
    }
    bytes.extend_from_slice(version.as_bytes());
    bytes.extend(sequence.to_le_bytes());
    bytes
}

/// State of a dataset at a client that pins its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pin {
    /// The key.
    pub key: PublicKey,
    /// Highest sequence number seen, which the client keeps between sessions.
    pub sequence: u64,
}

impl Pin {
    /// Accepts a version that is signed by the pinned key and not older than the latest seen, and
    /// stores its sequence number.
    ///
    /// # Errors
    /// [`ProtocolError::Untrusted`] if the version is unsigned, signed by another key, has an
    /// invalid signature, or is older.
    pub fn accept(
        &mut self,
        name: &str,
        version: &Version,
        signature: Option<&Signature>,
    ) -> Result<(), ProtocolError> {
        let Some(signature) = signature else {
            return Err(ProtocolError::Untrusted(format!(
                "{name} is not signed, and its key is pinned: do not trust this server, or ask its operator to sign"
            )));
        };
        signature.verify(name, version, &self.key)?;
        let (offered, seen) = (signature.sequence, self.sequence);
        if offered < seen {
            return Err(ProtocolError::Untrusted(format!(
                "the server offers {name} with sequence number {offered}, and {seen} has been seen: it is out of date, or withholds what is newer; ask again later, or another server"
            )));
        }
        self.sequence = offered;
        Ok(())
    }
}

/// Encodes a signature's bytes as lower-case hexadecimal.
mod ed25519_hex {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    use super::ED25519_BYTES;

    pub fn serialize<S: Serializer>(bytes: &[u8; ED25519_BYTES], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hex::encode(bytes))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; ED25519_BYTES], D::Error> {
        let text = String::deserialize(deserializer)?;
        let mut bytes = [0; ED25519_BYTES];
        let read = hex::decode_to_slice(&text, &mut bytes);
        if read.is_err() || hex::encode(bytes) != text {
            return Err(D::Error::custom("expected 128 lower-case hexadecimal digits"));
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CREATED: &str = "2026-01-31T23:59:59Z";

    const TWO: Version = Version::new([2; 32]);
    const THREE: Version = Version::new([3; 32]);

    fn key(seed: u8) -> PrivateKey {
        PrivateKey::from_bytes(&[seed; 32])
    }

    #[test]
    fn a_signature_is_for_one_version_of_one_name_and_key() {
        let signature = Signature::new(&key(1), "domains", &TWO, 5, CREATED);
        let again = Signature::from_json(&signature.to_json()).unwrap();
        assert_eq!(again, signature);
        let public = key(1).public();
        again.verify("domains", &TWO, &public).unwrap();
        assert_eq!(public.to_string().parse::<PublicKey>().unwrap(), public);
        assert_eq!(PrivateKey::from_bytes(&key(1).to_bytes()).public(), public);
        let refused = [
            again.verify("domain", &TWO, &public),
            again.verify("domains", &THREE, &public),
            again.verify("domains", &TWO, &key(2).public()),
            Signature { sequence: 6, ..again.clone() }.verify("domains", &TWO, &public),
            Signature { created: "2026-01-31T23:59:58Z".into(), ..again.clone() }
                .verify("domains", &TWO, &public),
            Signature { key: key(2).public(), ..again.clone() }.verify("domains", &TWO, &key(2).public()),
        ];
        for refused in refused {
            assert!(matches!(refused, Err(ProtocolError::Untrusted(_))));
        }
        for bit in 0..512 {
            let mut forged = again.clone();
            forged.ed25519[bit / 8] ^= 1 << (bit % 8);
            assert!(forged.verify("domains", &TWO, &public).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn signatures_of_other_lengths_or_digits_are_refused() {
        let signature = Signature::new(&key(1), "domains", &TWO, 5, CREATED);
        let json = String::from_utf8(signature.to_json()).unwrap();
        let hex = hex::encode(signature.ed25519);
        assert!(json.contains(&hex));
        let read = |other: &str| Signature::from_json(json.replace(&hex, other).as_bytes());
        assert!(read(&hex).is_ok());
        let longer = [&hex[..], "0"].concat();
        let not_hexadecimal = [&hex[..127], "g"].concat();
        let upper_case = [&hex[..127], "A"].concat();
        for wrong in
            ["", &hex[..126], &hex[..127], &longer, &[&hex[..], "00"].concat(), &not_hexadecimal, &upper_case]
        {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_pinned_client_takes_only_signed_and_newer_versions() {
        let mut pin = Pin { key: key(1).public(), sequence: 0 };
        let mut accept = |signer: Option<u8>, version: u8, sequence| {
            let signature = signer.map(|seed| {
                Signature::new(&key(seed), "domains", &Version::new([version; 32]), sequence, CREATED)
            });
            pin.accept("domains", &Version::new([version; 32]), signature.as_ref())
                .map_err(|error| error.to_string())
        };
        accept(Some(1), 1, 10).unwrap();
        accept(Some(1), 1, 10).unwrap();
        assert!(accept(None, 2, 0).unwrap_err().contains("not signed"));
        assert!(accept(Some(2), 2, 11).unwrap_err().contains("pinned"));
        assert!(accept(Some(1), 2, 9).unwrap_err().contains("sequence number 9"));
        accept(Some(1), 2, 12).unwrap();
        // An operator that returns to an old version signs it again.
        accept(Some(1), 1, 13).unwrap();
        assert!(accept(Some(1), 2, 12).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_signature_or_an_error(bytes: Vec<u8>, text: String) {
            let _ = (Signature::from_json(&bytes), text.parse::<PublicKey>());
        }
    }
}
