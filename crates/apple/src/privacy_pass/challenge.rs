use sha2::{Digest as _, Sha256};

use super::TOKEN_TYPE;

/// Challenge that a token answers. Apple's devices make it themselves: it names the issuer, and has
/// neither a redemption context nor an origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge(Vec<u8>);

/// Error for an issuer's name that no challenge can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an issuer's name has 1 to 253 characters of ASCII, without spaces, such as issuer.example.net")]
pub struct ChallengeError;

impl Challenge {
    /// Creates the challenge of an issuer.
    ///
    /// # Errors
    /// [`ChallengeError`] if the name is not a host's name.
    pub fn new(issuer: &str) -> Result<Self, ChallengeError> {
        let visible = issuer.bytes().all(|byte| byte.is_ascii_graphic());
        if !visible || !(1..=253).contains(&issuer.len()) {
            return Err(ChallengeError);
        }
        let mut bytes = TOKEN_TYPE.to_be_bytes().to_vec();
        bytes.extend((issuer.len() as u16).to_be_bytes());
        bytes.extend(issuer.as_bytes());
        // An empty redemption context (a length of one byte) and an empty origin (of two).
        bytes.extend([0; 3]);
        Ok(Self(bytes))
    }

    /// Returns the serialized challenge.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the digest that tokens of this challenge have.
    pub fn digest(&self) -> [u8; 32] {
        Sha256::digest(&self.0).into()
    }
}
