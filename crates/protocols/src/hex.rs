//! 32-byte values as lower-case hexadecimal in JSON: seeds, salts, hashes.

use serde::{Deserialize, Deserializer, Serializer, de::Error};

/// Serialises as 64 hexadecimal digits; for `#[serde(with = "spirea_protocols::hex")]`.
///
/// # Errors
/// Those of the serialiser.
pub fn serialize<S: Serializer>(bytes: &[u8; 32], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&blake3::Hash::from_bytes(*bytes).to_hex())
}

/// Reads the output of [`serialize`], and refuses other spellings.
///
/// # Errors
/// If it is not 64 lower-case hexadecimal digits.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; 32], D::Error> {
    let text = String::deserialize(deserializer)?;
    match blake3::Hash::from_hex(&text) {
        Ok(hash) if hash.to_hex().as_str() == text => Ok(*hash.as_bytes()),
        _ => Err(D::Error::custom("expected 64 lower-case hexadecimal digits")),
    }
}

/// Variants for an optional value; for `#[serde(with = "spirea_protocols::hex::optional")]`.
pub mod optional {
    use serde::{Deserialize, Deserializer, Serializer};

    #[derive(Deserialize)]
    #[serde(transparent)]
    struct Bytes(#[serde(with = "super")] [u8; 32]);

    /// Serialises as 64 hexadecimal digits, or as null.
    ///
    /// # Errors
    /// Those of the serialiser.
    pub fn serialize<S: Serializer>(bytes: &Option<[u8; 32]>, serializer: S) -> Result<S::Ok, S::Error> {
        match bytes {
            Some(bytes) => super::serialize(bytes, serializer),
            None => serializer.serialize_none(),
        }
    }

    /// Reads the output of [`serialize`], and refuses other spellings.
    ///
    /// # Errors
    /// If it is neither null nor 64 lower-case hexadecimal digits.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<[u8; 32]>, D::Error> {
        Ok(Option::<Bytes>::deserialize(deserializer)?.map(|Bytes(bytes)| bytes))
    }
}
