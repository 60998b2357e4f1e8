use bytes::Bytes;
use prost::Message;

use crate::fields::check;
use crate::limits::check_length;
pub use crate::proto::ErrorCode as Code;
use crate::{FORMAT, Version, WireError, check_format, optional_bytes, optional_hash, proto};

/// Maximum bytes of a refusal.
pub const MAX_REFUSAL_BYTES: u64 = 1 << 16;

const REFUSAL: &str = "error";

/// Refusal or failure of a server: the body of every response with a status of 400 or above.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The cause, for programs.
    pub code: Code,
    /// The cause, for people.
    pub message: String,
    /// Advice on how to fix it.
    pub remedy: String,
    /// True if the request was accepted for computation. Otherwise a retry is safe.
    pub accepted: bool,
    /// The version that the server has now; set for [`Code::StaleVersion`].
    pub current_version: Option<Version>,
}

impl Refusal {
    /// Encodes the refusal as a message.
    pub fn encode(&self) -> Vec<u8> {
        proto::Error {
            format: FORMAT,
            code: self.code.into(),
            message: self.message.clone(),
            remedy: self.remedy.clone(),
            accepted: self.accepted,
            current_version: optional_bytes(self.current_version.as_ref().map(Version::as_bytes)),
        }
        .encode_to_vec()
    }

    /// Decodes a refusal.
    ///
    /// # Errors
    /// [`WireError::TooLarge`] beyond [`MAX_REFUSAL_BYTES`], [`WireError::Format`] if it names
    /// another format, [`WireError::Malformed`] if the bytes are not a refusal.
    pub fn decode(body: Bytes) -> Result<Self, WireError> {
        check_length(body.len(), MAX_REFUSAL_BYTES)?;
        check(REFUSAL, &body, &[])?;
        let message =
            proto::Error::decode(body).map_err(|error| WireError::malformed(REFUSAL, error.to_string()))?;
        check_format(message.format)?;
        let current_version = optional_hash(REFUSAL, "current_version", &message.current_version)?;
        Ok(Self {
            code: message.code(),
            message: message.message,
            remedy: message.remedy,
            accepted: message.accepted,
            current_version,
        })
    }
}
