use bytes::Bytes;
use prost::Message;

use crate::fields::{Repeated, check, named_version};
use crate::limits::{check_length, of_length};
use crate::{FORMAT, KeysHash, Limits, Part, Version, WireError, check_format, hash, optional_hash, proto};

/// Maximum bytes of a [`KeysResponse`].
pub const MAX_KEYS_RESPONSE_BYTES: u64 = 1 << 10;

const REQUEST: &str = "upload of keys";
const RESPONSE: &str = "response to an upload of keys";
/// Number of the field with the keys.
const KEYS: u32 = 3;

/// A client's evaluation keys, for all its queries to a database.
///
/// `Debug` shows only their length.
#[derive(Clone, PartialEq, Eq)]
pub struct KeysRequest {
    /// A version that the keys are for.
    pub version: Version,
    /// The part of the version that the keys are for.
    pub part: Part,
    /// The keys.
    pub keys: Bytes,
}

impl std::fmt::Debug for KeysRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeysRequest").field("bytes", &self.keys.len()).finish_non_exhaustive()
    }
}

impl KeysRequest {
    /// Encodes the upload as a message.
    pub fn encode(&self) -> Vec<u8> {
        proto::KeysRequest {
            format: FORMAT,
            version: Bytes::copy_from_slice(self.version.as_bytes()),
            keys: self.keys.clone(),
            delta: self.part == Part::Delta,
            start: 0,
            whole: Bytes::new(),
        }
        .encode_to_vec()
    }

    /// Returns the version that an upload names; it decides the limits for [`KeysRequest::decode`].
    ///
    /// # Errors
    /// [`WireError::Format`] if the upload names another format, [`WireError::Malformed`] if it
    /// names no version.
    pub fn version(body: &[u8]) -> Result<Version, WireError> {
        named_version(REQUEST, body)
    }

    /// Decodes an upload. The keys share the memory of `body`.
    ///
    /// # Errors
    /// Those of [`KeysUpload::decode`]; [`WireError::Malformed`] if the upload is a piece.
    pub fn decode(body: Bytes, limits: &Limits) -> Result<Self, WireError> {
        match KeysUpload::decode(body, limits)? {
            KeysUpload::Whole(request) => Ok(request),
            KeysUpload::Piece(_) => Err(WireError::malformed(REQUEST, "it is a piece of keys")),
        }
    }
}

/// A piece of a client's evaluation keys. The pieces of one set come in order, without overlap.
///
/// `Debug` shows only its length.
#[derive(Clone, PartialEq, Eq)]
pub struct KeysPiece {
    /// A version that the keys are for.
    pub version: Version,
    /// The part of the version that the keys are for.
    pub part: Part,
    /// BLAKE3 of the whole keys.
    pub whole: KeysHash,
    /// Position of the piece in the whole keys, in bytes.
    pub start: usize,
    /// The bytes of the piece, at least one.
    pub bytes: Bytes,
}

impl std::fmt::Debug for KeysPiece {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeysPiece").field("bytes", &self.bytes.len()).finish_non_exhaustive()
    }
}

impl KeysPiece {
    /// Maximum bytes of the message beside the bytes of the piece.
    pub const ENVELOPE_BYTES: usize = 128;

    /// Encodes the piece as a message.
    pub fn encode(&self) -> Vec<u8> {
        proto::KeysRequest {
            format: FORMAT,
            version: Bytes::copy_from_slice(self.version.as_bytes()),
            keys: self.bytes.clone(),
            delta: self.part == Part::Delta,
            start: self.start as u64,
            whole: Bytes::copy_from_slice(self.whole.as_bytes()),
        }
        .encode_to_vec()
    }
}

/// An upload of keys: all of them, or a piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeysUpload {
    /// The whole keys.
    Whole(KeysRequest),
    /// A piece of them.
    Piece(KeysPiece),
}

impl KeysUpload {
    /// Decodes an upload. The keys share the memory of `body`.
    ///
    /// # Errors
    /// [`WireError::TooLarge`] if the body is longer than any upload within `limits`,
    /// [`WireError::Format`] if it names another format, [`WireError::Malformed`] if the bytes are
    /// not an upload, the keys' length differs from the parameters of the part, or a piece is empty
    /// or lies outside the keys.
    pub fn decode(body: Bytes, limits: &Limits) -> Result<Self, WireError> {
        check_length(body.len(), limits.keys_request_bytes())?;
        check(REQUEST, &body, &[Repeated { number: KEYS, most: 1, accepts: &|_| Ok(()) }])?;
        let message = proto::KeysRequest::decode(body)
            .map_err(|error| WireError::malformed(REQUEST, error.to_string()))?;
        check_format(message.format)?;
        let part = if message.delta { Part::Delta } else { Part::Base };
        let Some(lengths) = limits.of(part) else {
            return Err(WireError::malformed(REQUEST, "it is for the delta of a version that has none"));
        };
        let version = hash(REQUEST, "version", &message.version)?;
        let Some(whole) = optional_hash(REQUEST, "the whole keys' hash", &message.whole)? else {
            let expected = of_length("keys", lengths.keys_bytes);
            expected(message.keys.len()).map_err(|detail| WireError::malformed(REQUEST, detail))?;
            return Ok(Self::Whole(KeysRequest { version, part, keys: message.keys }));
        };
        let start = usize::try_from(message.start).ok().filter(|start| {
            let end = start.checked_add(message.keys.len());
            !message.keys.is_empty() && end.is_some_and(|end| end <= lengths.keys_bytes)
        });
        let start = start.ok_or_else(|| WireError::malformed(REQUEST, "a piece lies outside the keys"))?;
        Ok(Self::Piece(KeysPiece { version, part, whole, start, bytes: message.keys }))
    }
}

/// Response of a server that has received the keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeysResponse {
    /// Hash by which queries name the keys.
    pub blake3: KeysHash,
}

impl KeysResponse {
    /// Encodes the response as a message.
    pub fn encode(&self) -> Vec<u8> {
        proto::KeysResponse { format: FORMAT, blake3: Bytes::copy_from_slice(self.blake3.as_bytes()) }
            .encode_to_vec()
    }

    /// Decodes a response.
    ///
    /// # Errors
    /// [`WireError::TooLarge`] beyond [`MAX_KEYS_RESPONSE_BYTES`], [`WireError::Format`] if it
    /// names another format, [`WireError::Malformed`] if the bytes are not such a response.
    pub fn decode(body: Bytes) -> Result<Self, WireError> {
        check_length(body.len(), MAX_KEYS_RESPONSE_BYTES)?;
        check(RESPONSE, &body, &[])?;
        let message = proto::KeysResponse::decode(body)
            .map_err(|error| WireError::malformed(RESPONSE, error.to_string()))?;
        check_format(message.format)?;
        Ok(Self { blake3: hash(RESPONSE, "the keys' hash", &message.blake3)? })
    }
}
