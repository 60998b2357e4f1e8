use base64::Engine as _;
use base64::alphabet::URL_SAFE;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};

use super::{RSA_BYTES, TOKEN_TYPE};

/// Scheme of the header `Authorization`.
const SCHEME: &str = "PrivateToken";
/// Bytes of a type, a nonce, a challenge's digest and a key's id: the part that is signed.
const SIGNED_BYTES: usize = 2 + 3 * 32;
/// Bytes of a token.
const TOKEN_BYTES: usize = SIGNED_BYTES + RSA_BYTES;
/// Length of a token as Base64.
const TEXT_BYTES: usize = TOKEN_BYTES.div_ceil(3) * 4;
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

// Padding would make two lengths possible.
const _: () = assert!(TOKEN_BYTES.is_multiple_of(3));

/// A token as a client sends it, not yet verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token([u8; TOKEN_BYTES]);

/// Reason why bytes are not a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The header is not of the scheme `PrivateToken`.
    #[error("the header Authorization has no private token: send Authorization: PrivateToken token=...")]
    Scheme,
    /// The token is not Base64 of a token's length.
    #[error("the private token is not Base64 (base64url) of {TOKEN_BYTES} bytes")]
    Encoding,
    /// The token has another type.
    #[error("the private token has the type {0}: this server takes type 2 (blind RSA, 2048 bits)")]
    Type(u16),
}

impl Token {
    /// Parses the value of a header `Authorization`: the scheme `PrivateToken`, and the parameter
    /// `token` with base64url, in quotes or without them.
    ///
    /// # Errors
    /// [`TokenError`] for everything else, before anything is allocated.
    pub fn from_authorization(value: &[u8]) -> Result<Self, TokenError> {
        let (scheme, rest) = value.split_at_checked(SCHEME.len()).ok_or(TokenError::Scheme)?;
        if !scheme.eq_ignore_ascii_case(SCHEME.as_bytes()) || !rest.starts_with(b" ") {
            return Err(TokenError::Scheme);
        }
        let (name, text) = rest.trim_ascii().split_at_checked(6).ok_or(TokenError::Scheme)?;
        if !name.eq_ignore_ascii_case(b"token=") {
            return Err(TokenError::Scheme);
        }
        let quoted = text.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\""));
        let text = quoted.unwrap_or(text);
        if text.len() != TEXT_BYTES {
            return Err(TokenError::Encoding);
        }
        let mut bytes = [0; TOKEN_BYTES];
        match BASE64.decode_slice(text, &mut bytes) {
            Ok(TOKEN_BYTES) => Self::from_bytes(&bytes),
            _ => Err(TokenError::Encoding),
        }
    }

    /// Parses a token's bytes.
    ///
    /// # Errors
    /// [`TokenError::Encoding`] for another length, [`TokenError::Type`] for another type.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, TokenError> {
        let token = Self(bytes.try_into().map_err(|_| TokenError::Encoding)?);
        match token.token_type() {
            TOKEN_TYPE => Ok(token),
            other => Err(TokenError::Type(other)),
        }
    }

    /// Returns the token's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    fn token_type(&self) -> u16 {
        u16::from_be_bytes([self.0[0], self.0[1]])
    }

    /// Returns the nonce, which no other token of an honest client has.
    pub fn nonce(&self) -> &[u8; 32] {
        self.part(0)
    }

    /// Returns SHA-256 of the challenge that the token answers.
    pub fn challenge_digest(&self) -> &[u8; 32] {
        self.part(1)
    }

    /// Returns the id of the key that signed the token.
    pub fn key_id(&self) -> &[u8; 32] {
        self.part(2)
    }

    fn part(&self, number: usize) -> &[u8; 32] {
        self.0[2 + 32 * number..].first_chunk().expect("a token has three such parts")
    }

    /// Returns the signed part.
    pub(super) fn signed(&self) -> &[u8] {
        &self.0[..SIGNED_BYTES]
    }

    /// Returns the signature.
    pub(super) fn authenticator(&self) -> &[u8] {
        &self.0[SIGNED_BYTES..]
    }
}
