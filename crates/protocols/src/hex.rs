//! 32-byte values as lower-case hexadecimal in JSON: seeds, salts, hashes.

use std::borrow::Borrow;

use serde::{Deserialize, Deserializer, Serializer, de::Error};

/// Serialises as 64 hexadecimal digits; for `#[serde(with = "spirea_protocols::hex")]`.
///
/// # Errors
/// Those of the serialiser.
pub fn serialize<S: Serializer>(value: &impl Borrow<[u8; 32]>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&blake3::Hash::from_bytes(*value.borrow()).to_hex())
}

/// Reads the output of [`serialize`], and refuses other spellings.
///
/// # Errors
/// If it is not 64 lower-case hexadecimal digits.
pub fn deserialize<'de, T: From<[u8; 32]>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    let text = String::deserialize(deserializer)?;
    match blake3::Hash::from_hex(&text) {
        Ok(hash) if hash.to_hex().as_str() == text => Ok(T::from(*hash.as_bytes())),
        _ => Err(D::Error::custom("expected 64 lower-case hexadecimal digits")),
    }
}
