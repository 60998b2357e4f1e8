use std::fmt;

use getrandom::SysRng;
use rsa::hazmat::rsa_decrypt_and_check;
use rsa::pkcs8::{DecodePrivateKey as _, EncodePrivateKey as _, LineEnding};
use rsa::traits::PublicKeyParts as _;
use rsa::{BoxedUint, PrivateKey};
use zeroize::Zeroizing;

use super::{RSA_BYTES, TOKEN_TYPE, TokenKey};

/// Bits of a modulus.
const RSA_BITS: u32 = 8 * RSA_BYTES as u32;
/// Bytes of a request: the type, the last byte of the key's id, and the blinded message.
const REQUEST_BYTES: usize = 2 + 1 + RSA_BYTES;

/// Private key of an issuer. Erased when dropped; `Debug` does not print it.
pub struct IssuerKey {
    private: PrivateKey,
    public: TokenKey,
}

/// Reason why there is no private key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IssuerKeyError {
    /// The text is not a key.
    #[error("an issuer's private key is RSA of 2048 bits with the exponent 65537, as PEM of PKCS#8")]
    Malformed,
    /// No key could be made, for want of randomness.
    #[error("the operating system gives no randomness for a key")]
    NoEntropy,
}

/// Reason why a request for a token is refused. RFC 9578 (6.2) asks for status 422.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The length is not that of a request.
    #[error("a request for a token has {REQUEST_BYTES} bytes")]
    Length,
    /// The request is for another type.
    #[error("the request is for tokens of type {0}: this issuer signs type 2 (blind RSA, 2048 bits)")]
    Type(u16),
    /// The request is for another key.
    #[error("the request is for another key: GET /token-key-for-user-token gives the user's key")]
    Key,
    /// The blinded message is not below the modulus.
    #[error("the blinded message is not below the key's modulus")]
    Message,
    /// The signature failed.
    #[error("the token could not be signed")]
    Signing,
}

/// Request for a token, as a client sends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenRequest {
    key: u8,
    blinded: [u8; RSA_BYTES],
}

impl TokenRequest {
    /// Number of bytes of a request.
    pub const BYTES: usize = REQUEST_BYTES;

    /// Parses a request.
    ///
    /// # Errors
    /// [`RequestError::Length`] and [`RequestError::Type`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, RequestError> {
        let bytes: &[u8; REQUEST_BYTES] = bytes.try_into().map_err(|_| RequestError::Length)?;
        let [high, low, key, blinded @ ..] = *bytes;
        match u16::from_be_bytes([high, low]) {
            TOKEN_TYPE => Ok(Self { key, blinded }),
            other => Err(RequestError::Type(other)),
        }
    }
}

impl IssuerKey {
    /// Creates a key.
    ///
    /// # Errors
    /// [`IssuerKeyError::NoEntropy`].
    pub fn generate() -> Result<Self, IssuerKeyError> {
        let key = PrivateKey::new(&mut SysRng, RSA_BITS as usize).map_err(|_| IssuerKeyError::NoEntropy)?;
        Self::new(key)
    }

    /// Parses PEM of PKCS#8.
    ///
    /// # Errors
    /// [`IssuerKeyError::Malformed`] for anything but a valid key of 2048 bits.
    pub fn from_pem(text: &str) -> Result<Self, IssuerKeyError> {
        Self::new(PrivateKey::from_pkcs8_pem(text).map_err(|_| IssuerKeyError::Malformed)?)
    }

    fn new(private: PrivateKey) -> Result<Self, IssuerKeyError> {
        let standard = private.e_bytes().as_ref() == [1, 0, 1] && private.validate().is_ok();
        let public = TokenKey::from_modulus(&private.n_bytes()).ok().filter(|_| standard);
        Ok(Self { private, public: public.ok_or(IssuerKeyError::Malformed)? })
    }

    /// Returns the key as PEM of PKCS#8.
    ///
    /// # Errors
    /// [`IssuerKeyError::Malformed`] does not occur for a key of this type.
    pub fn to_pem(&self) -> Result<Zeroizing<String>, IssuerKeyError> {
        self.private.to_pkcs8_pem(LineEnding::LF).map_err(|_| IssuerKeyError::Malformed)
    }

    /// Returns the public key.
    pub fn public(&self) -> &TokenKey {
        &self.public
    }

    /// Signs the blinded message of a request. The message may be chosen by an attacker. So the
    /// library blinds it again, computes in constant time with blinded exponents, and checks the
    /// result.
    ///
    /// # Errors
    /// [`RequestError::Key`], [`RequestError::Message`] and [`RequestError::Signing`].
    pub fn sign(&self, request: &TokenRequest) -> Result<[u8; RSA_BYTES], RequestError> {
        if request.key != self.public.truncated_id() {
            return Err(RequestError::Key);
        }
        let message =
            BoxedUint::from_be_slice(&request.blinded, RSA_BITS).map_err(|_| RequestError::Message)?;
        if message >= *self.private.n().as_ref() {
            return Err(RequestError::Message);
        }
        let signature = rsa_decrypt_and_check(&self.private, Some(&mut SysRng), &message)
            .map_err(|_| RequestError::Signing)?;
        signature.to_be_bytes().as_ref().try_into().map_err(|_| RequestError::Signing)
    }
}

impl fmt::Debug for IssuerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IssuerKey({:?})", self.public)
    }
}
