use std::fmt;

use hpke::aead::{AeadTag, AesGcm128};
use hpke::inout::InOutBuf;
use hpke::kdf::HkdfSha256;
use hpke::kem::X25519HkdfSha256;
use hpke::{Deserializable as _, Kem, OpModeR, setup_receiver};
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{self, HKDF_SHA256, Salt};
use zeroize::Zeroizing;

use super::{AEAD, BinaryResponse, GatewayKey, GatewayKeyError, KDF, KEM, X25519_BYTES};

/// Bytes of a request's header: the key's id and the algorithms.
const HEADER_BYTES: usize = 7;
/// Bytes before a request's ciphertext: the header and the encapsulated key.
const HEAD_BYTES: usize = HEADER_BYTES + X25519_BYTES;
/// Bytes of an authentication tag of AES-GCM.
const TAG_BYTES: usize = 16;
/// Bytes of a response's nonce: the longer of key and nonce of AES-128-GCM.
const RESPONSE_NONCE_BYTES: usize = 16;
/// Info of the HPKE context, before a zero byte and the header.
const REQUEST_LABEL: &[u8] = b"message/bhttp request\0";
/// Context of the exported secret.
const RESPONSE_LABEL: &[u8] = b"message/bhttp response";

/// Reason why the encapsulation of a request cannot be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The message is shorter than any encapsulated request.
    #[error("the message is shorter than an encapsulated request")]
    Truncated,
    /// No key of the gateway has the id.
    #[error("the gateway has no key with the id {0}")]
    Key(u8),
    /// The request is for other algorithms.
    #[error("the gateway's key is for DHKEM(X25519, HKDF-SHA256), HKDF-SHA256 and AES-128-GCM")]
    Algorithms,
    /// The request was encrypted under another key, or changed on its way.
    #[error("the request cannot be decrypted with the key of its id")]
    Decryption,
}

/// Reason why a response cannot be encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// There is no randomness for the response's nonce.
    #[error("the operating system gives no randomness for a nonce")]
    NoEntropy,
    /// The response exceeds the maximum length for AES-GCM.
    #[error("the response is too long to be encrypted")]
    TooLong,
}

/// Keys of a gateway. Any of them opens requests; clients choose the first one.
#[derive(Debug)]
pub struct Gateway(Vec<GatewayKey>);

impl Gateway {
    /// Creates a gateway.
    ///
    /// # Errors
    /// [`GatewayKeyError::None`] and [`GatewayKeyError::SameId`].
    pub fn new(keys: Vec<GatewayKey>) -> Result<Self, GatewayKeyError> {
        let repeated = |i: usize| keys[..i].iter().any(|other| other.id == keys[i].id);
        match (0..keys.len()).find(|&i| repeated(i)) {
            Some(i) => Err(GatewayKeyError::SameId(keys[i].id)),
            None if keys.is_empty() => Err(GatewayKeyError::None),
            None => Ok(Self(keys)),
        }
    }

    /// Returns the keys; the first key is for new requests.
    pub fn keys(&self) -> &[GatewayKey] {
        &self.0
    }

    /// Returns the key configurations as `application/ohttp-keys` (RFC 9458, section 3.2).
    pub fn key_configs(&self) -> Vec<u8> {
        let configs = self.0.iter().map(GatewayKey::config);
        configs.flat_map(|config| [&(config.len() as u16).to_be_bytes()[..], &config].concat()).collect()
    }

    /// Decrypts an encapsulated request in place. Returns the message in binary form, and the
    /// sealer for its response.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(&self, mut message: Vec<u8>) -> Result<(Vec<u8>, Sealer), OpenError> {
        let end = message.len().checked_sub(TAG_BYTES).filter(|&end| end >= HEAD_BYTES);
        let end = end.ok_or(OpenError::Truncated)?;
        let (head, rest) = message.split_at_mut(HEAD_BYTES);
        let (ciphertext, tag) = rest.split_at_mut(end - HEAD_BYTES);
        let (header, encapsulated) = head.split_at(HEADER_BYTES);
        let (id, algorithms) = (header[0], &header[1..]);
        let key = self.0.iter().find(|key| key.id == id).ok_or(OpenError::Key(id))?;
        if algorithms != [KEM, KDF, AEAD].as_flattened() {
            return Err(OpenError::Algorithms);
        }
        let info = [REQUEST_LABEL, header].concat();
        let undecryptable = |_| OpenError::Decryption;
        let encapped =
            <X25519HkdfSha256 as Kem>::EncappedKey::from_bytes(encapsulated).map_err(undecryptable)?;
        let mut context = setup_receiver::<AesGcm128, HkdfSha256, X25519HkdfSha256>(
            &OpModeR::Base,
            &key.private,
            &encapped,
            &info,
        )
        .map_err(undecryptable)?;
        let tag = AeadTag::from_bytes(tag).map_err(undecryptable)?;
        context.open_inout_detached(InOutBuf::from(ciphertext), &[], &tag).map_err(undecryptable)?;
        let mut secret = Zeroizing::new([0; RESPONSE_NONCE_BYTES]);
        context.export(RESPONSE_LABEL, &mut *secret).map_err(undecryptable)?;
        let encapsulated = encapsulated.try_into().expect("the head has an encapsulated key");
        message.copy_within(HEAD_BYTES..end, 0);
        message.truncate(end - HEAD_BYTES);
        Ok((message, Sealer { secret, encapsulated }))
    }
}

/// Encrypts the response to a request.
pub struct Sealer {
    /// Secret that the client knows too.
    secret: Zeroizing<[u8; RESPONSE_NONCE_BYTES]>,
    /// The request's encapsulated key.
    encapsulated: [u8; X25519_BYTES],
}

impl Sealer {
    /// Number of bytes by which an encapsulated response is longer than its message.
    pub const OVERHEAD: usize = RESPONSE_NONCE_BYTES + TAG_BYTES;

    /// Encrypts a response under a fresh nonce. So if a request is sent twice, its two responses
    /// are encrypted under different keys.
    ///
    /// # Errors
    /// [`SealError`].
    pub fn seal(self, response: &BinaryResponse<'_>) -> Result<Vec<u8>, SealError> {
        let mut nonce = [0; RESPONSE_NONCE_BYTES];
        getrandom::fill(&mut nonce).map_err(|_| SealError::NoEntropy)?;
        let mut message = Vec::with_capacity(response.encoded_bytes() + Self::OVERHEAD);
        message.extend_from_slice(&nonce);
        response.encode(&mut message);
        self.seal_in_place(message)
    }

    /// Encrypts a message that follows its nonce (RFC 9458, section 4.4).
    pub(super) fn seal_in_place(self, mut message: Vec<u8>) -> Result<Vec<u8>, SealError> {
        let (nonce, plaintext) = message.split_at_mut(RESPONSE_NONCE_BYTES);
        let salt = [&self.encapsulated[..], nonce].concat();
        let random = Salt::new(HKDF_SHA256, &salt).extract(&*self.secret);
        let key = UnboundKey::from(random.expand(&[b"key"], &AES_128_GCM).expect("16 bytes are few"));
        let mut iv = [0; NONCE_LEN];
        let expanded = random.expand(&[b"nonce"], IvLength).expect("12 bytes are few");
        expanded.fill(&mut iv).expect("the length is that asked for");
        let (iv, key) = (Nonce::assume_unique_for_key(iv), LessSafeKey::new(key));
        let tag =
            key.seal_in_place_separate_tag(iv, Aad::empty(), plaintext).map_err(|_| SealError::TooLong)?;
        message.extend_from_slice(tag.as_ref());
        Ok(message)
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sealer")
    }
}

/// Length of a nonce of AES-GCM.
struct IvLength;

impl hkdf::KeyType for IvLength {
    fn len(&self) -> usize {
        NONCE_LEN
    }
}
