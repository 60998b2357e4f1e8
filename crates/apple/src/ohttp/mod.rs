//! Oblivious HTTP (RFC 9458): the gateway's keys, the encapsulation of requests and responses, and
//! the binary form of HTTP messages (RFC 9292) inside.
//!
//! A client encrypts a request under a [`GatewayKey`], and a relay forwards it. [`Gateway::open`]
//! removes the encapsulation, [`BinaryRequest::from_bytes`] reads the request, and [`Sealer::seal`]
//! encrypts the response. The algorithms are DHKEM(X25519, HKDF-SHA256), HKDF-SHA256 and
//! AES-128-GCM.

mod gateway;
mod key;
mod message;

pub use self::gateway::{Gateway, OpenError, SealError, Sealer};
pub use self::key::{GatewayKey, GatewayKeyError};
pub use self::message::{BinaryRequest, BinaryResponse, MAX_FIELD_BYTES, MAX_FIELDS, MessageError};

/// Bytes of an X25519 key, public or private, and of an encapsulated key.
const X25519_BYTES: usize = 32;
/// Identifiers of the algorithms, as in RFC 9180 (section 7): KEM, KDF and AEAD.
const KEM: [u8; 2] = [0, 0x20];
const KDF: [u8; 2] = [0, 1];
const AEAD: [u8; 2] = [0, 1];

#[cfg(test)]
mod tests;
