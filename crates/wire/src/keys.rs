use bytes::Bytes;
use prost::Message;

use crate::limits::{check_length, of_length};
use crate::{FORMAT, KeysHash, Limits, WireError, check_format, fields, hash, proto};

/// The most bytes of a [`KeysResponse`].
pub const MAX_KEYS_RESPONSE_BYTES: u64 = 1 << 10;

const REQUEST: &str = "upload of keys";
const RESPONSE: &str = "response to an upload of keys";
/// The number of the field with the keys.
const KEYS: u32 = 2;

/// A client's evaluation keys, for all its queries to a database.
///
/// Its `Debug` shows their length only.
#[derive(Clone, PartialEq, Eq)]
pub struct KeysRequest {
    /// The keys.
    pub keys: Bytes,
}

impl std::fmt::Debug for KeysRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeysRequest").field("bytes", &self.keys.len()).finish()
    }
}

impl KeysRequest {
    /// The upload as a message.
    pub fn encode(&self) -> Vec<u8> {
        proto::KeysRequest { format: FORMAT, keys: self.keys.clone() }.encode_to_vec()
    }

    /// Reads an upload. The keys share the memory of `body`.
    ///
    /// # Errors
    /// [`WireError::TooLarge`] if the body is longer than any upload within `limits`, [`WireError::Format`]
    /// if it names another format, [`WireError::Malformed`] if it is no upload, or the keys have another
    /// length than the parameters say.
    pub fn decode(body: Bytes, limits: &Limits) -> Result<Self, WireError> {
        check_length(body.len(), limits.keys_request_bytes())?;
        let expected = of_length("keys", limits.keys_bytes);
        fields::check(REQUEST, &body, KEYS, 1, &expected)?;
        let message = proto::KeysRequest::decode(body)
            .map_err(|error| WireError::malformed(REQUEST, error.to_string()))?;
        check_format(message.format)?;
        // A message without the field passes the walk.
        expected(message.keys.len()).map_err(|detail| WireError::malformed(REQUEST, detail))?;
        Ok(Self { keys: message.keys })
    }
}

/// What a server says when it has the keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeysResponse {
    /// What queries name them by.
    pub blake3: KeysHash,
}

impl KeysResponse {
    /// The response as a message.
    pub fn encode(&self) -> Vec<u8> {
        proto::KeysResponse { format: FORMAT, blake3: Bytes::copy_from_slice(&self.blake3) }.encode_to_vec()
    }

    /// Reads a response.
    ///
    /// # Errors
    /// [`WireError::TooLarge`] beyond [`MAX_KEYS_RESPONSE_BYTES`], [`WireError::Format`] if it names another
    /// format, [`WireError::Malformed`] if it is no such response.
    pub fn decode(body: Bytes) -> Result<Self, WireError> {
        check_length(body.len(), MAX_KEYS_RESPONSE_BYTES)?;
        fields::check(RESPONSE, &body, u32::MAX, 0, |_| Ok(()))?;
        let message = proto::KeysResponse::decode(body)
            .map_err(|error| WireError::malformed(RESPONSE, error.to_string()))?;
        check_format(message.format)?;
        Ok(Self { blake3: hash(RESPONSE, "the keys' hash", &message.blake3)? })
    }
}
