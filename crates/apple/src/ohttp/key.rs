use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hpke::kem::X25519HkdfSha256;
use hpke::{Deserializable as _, Kem, Serializable as _};
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use super::{AEAD, KDF, KEM, X25519_BYTES};

/// DER of a PKCS#8 private key of X25519 (RFC 8410) up to the key.
const HEAD: &[u8; 16] = b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x6e\x04\x22\x04\x20";

/// Private key of a gateway. Erased when dropped; `Debug` does not print it.
pub struct GatewayKey {
    pub(super) id: u8,
    pub(super) private: <X25519HkdfSha256 as Kem>::PrivateKey,
    public: [u8; X25519_BYTES],
}

/// Reason why there is no key for a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GatewayKeyError {
    /// The bytes are not a key.
    #[error("a gateway's private key is X25519, as PKCS#8")]
    Malformed,
    /// No key could be made, for want of randomness.
    #[error("the operating system gives no randomness for a key")]
    NoEntropy,
    /// A gateway needs a key.
    #[error("there is no private key")]
    None,
    /// A client could not tell which of two keys a gateway would use.
    #[error("two keys have the id {0}: replace one by a new key")]
    SameId(u8),
}

impl GatewayKey {
    /// Creates a key.
    ///
    /// # Errors
    /// [`GatewayKeyError::NoEntropy`].
    pub fn generate() -> Result<Self, GatewayKeyError> {
        let mut bytes = Zeroizing::new([0; X25519_BYTES]);
        getrandom::fill(&mut *bytes).map_err(|_| GatewayKeyError::NoEntropy)?;
        Self::new(&bytes)
    }

    /// Parses DER of PKCS#8 as `openssl genpkey -algorithm X25519` makes it.
    ///
    /// # Errors
    /// [`GatewayKeyError::Malformed`] for anything but an X25519 key.
    pub fn from_pkcs8(der: &[u8]) -> Result<Self, GatewayKeyError> {
        let bytes = der.strip_prefix(HEAD).and_then(|bytes| bytes.try_into().ok());
        Self::new(bytes.ok_or(GatewayKeyError::Malformed)?)
    }

    /// Derives the id from the public key, so that a key has the same id in every file.
    pub(super) fn new(bytes: &[u8; X25519_BYTES]) -> Result<Self, GatewayKeyError> {
        let private = <X25519HkdfSha256 as Kem>::PrivateKey::from_bytes(bytes)
            .map_err(|_| GatewayKeyError::Malformed)?;
        let public: [u8; X25519_BYTES] = X25519HkdfSha256::sk_to_pk(&private).to_bytes().into();
        Ok(Self { id: Sha256::digest(public)[0], private, public })
    }

    /// Returns the key as PEM of PKCS#8.
    pub fn to_pem(&self) -> Zeroizing<String> {
        let mut der = Zeroizing::new([0; HEAD.len() + X25519_BYTES]);
        let (head, bytes) = der.split_at_mut(HEAD.len());
        head.copy_from_slice(HEAD);
        self.private.write_exact(bytes);
        // 48 bytes are one line of Base64.
        let text = Zeroizing::new(STANDARD.encode(*der));
        Zeroizing::new(format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", *text))
    }

    /// Returns the identifier by which requests name the key: the first byte of the SHA-256 of the
    /// public key.
    pub fn id(&self) -> u8 {
        self.id
    }

    /// Returns the key configuration (RFC 9458, section 3.1): identifier, public key, algorithms.
    pub fn config(&self) -> Vec<u8> {
        [&[self.id][..], &KEM, &self.public, &[0, 4], &KDF, &AEAD].concat()
    }
}

impl fmt::Debug for GatewayKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GatewayKey({})", self.id)
    }
}
