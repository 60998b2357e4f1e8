use std::fmt;

use ring::signature::{RSA_PSS_2048_8192_SHA384, UnparsedPublicKey};
use sha2::{Digest as _, Sha256};

use super::{RSA_BYTES, Token};

/// DER of a `SubjectPublicKeyInfo` up to the modulus: the algorithm RSASSA-PSS with SHA-384, MGF1
/// with SHA-384 and a salt of 48 bytes, as RFC 9578 (8.2.2) asks, and the heads of the key.
pub(super) const HEAD: &[u8] = b"\x30\x82\x01\x52\x30\x3d\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0a\x30\x30\
    \xa0\x0d\x30\x0b\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02\x02\
    \xa1\x1a\x30\x18\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x08\x30\x0b\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02\x02\
    \xa2\x03\x02\x01\x30\
    \x03\x82\x01\x0f\x00";
/// DER like [`HEAD`], but for the algorithm `rsaEncryption`, which most programs write.
pub(super) const PLAIN_HEAD: &[u8] =
    b"\x30\x82\x01\x22\x30\x0d\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01\x05\x00\
    \x03\x82\x01\x0f\x00";
/// DER of an `RSAPublicKey` up to a modulus of 2048 bits.
const KEY_HEAD: &[u8] = b"\x30\x82\x01\x0a\x02\x82\x01\x01\x00";
/// The exponent 65537.
const KEY_TAIL: &[u8] = b"\x02\x03\x01\x00\x01";

/// Public key of an issuer: RSA of 2048 bits with the exponent 65537.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenKey {
    spki: Vec<u8>,
    id: [u8; 32],
}

/// Error for bytes that are not an issuer's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an issuer's key is RSA of 2048 bits with the exponent 65537, as SubjectPublicKeyInfo")]
pub struct TokenKeyError;

impl TokenKey {
    /// Creates a key from a modulus of 256 bytes, the most significant first. The exponent is
    /// 65537.
    ///
    /// # Errors
    /// [`TokenKeyError`] if the modulus does not have 2048 bits, or is even.
    pub fn from_modulus(modulus: &[u8]) -> Result<Self, TokenKeyError> {
        if modulus.len() != RSA_BYTES || modulus[0] < 0x80 || modulus[RSA_BYTES - 1].is_multiple_of(2) {
            return Err(TokenKeyError);
        }
        let spki = [HEAD, KEY_HEAD, modulus, KEY_TAIL].concat();
        let id = Sha256::digest(&spki).into();
        Ok(Self { spki, id })
    }

    /// Parses a `SubjectPublicKeyInfo` in DER, of the algorithm RSASSA-PSS (as RFC 9578 asks) or
    /// `rsaEncryption` (as most programs write).
    ///
    /// # Errors
    /// [`TokenKeyError`] for other keys and other bytes.
    pub fn from_spki(der: &[u8]) -> Result<Self, TokenKeyError> {
        let rest = der.strip_prefix(HEAD).or_else(|| der.strip_prefix(PLAIN_HEAD)).ok_or(TokenKeyError)?;
        let modulus = rest.strip_prefix(KEY_HEAD).and_then(|rest| rest.strip_suffix(KEY_TAIL));
        Self::from_modulus(modulus.ok_or(TokenKeyError)?)
    }

    /// Returns the key as `SubjectPublicKeyInfo` of the algorithm RSASSA-PSS.
    pub fn spki(&self) -> &[u8] {
        &self.spki
    }

    /// Returns the key's id, SHA-256 of [`TokenKey::spki`]. Tokens name it.
    pub fn id(&self) -> &[u8; 32] {
        &self.id
    }

    /// Returns the last byte of the id. Requests for tokens name it, so the keys of an issuer
    /// differ in it.
    pub fn truncated_id(&self) -> u8 {
        self.id[31]
    }

    /// Returns true if this key signed the token. The token's key id is part of what is signed, but
    /// is not compared.
    pub fn verifies(&self, token: &Token) -> bool {
        // Its algorithm demands a salt of 48 bytes.
        let key = UnparsedPublicKey::new(&RSA_PSS_2048_8192_SHA384, &self.spki[HEAD.len()..]);
        key.verify(token.signed(), token.authenticator()).is_ok()
    }
}

impl fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenKey({:02x?}..)", &self.id[..4])
    }
}
