//! The wire envelope: protobuf messages, errors and limits.
//!
//! A message is decoded only after checks of its length, its format and the lengths of its content
//! against [`Limits`], which are known from a database's parameters. Untrusted bytes therefore
//! control no allocation. Queries and answers share the memory of the body in which they arrived. A
//! protocol's own bytes are opaque here.
//!
//! [`ShareRequest`] is the request between machines that serve one database together.

use bytes::Bytes;

mod config;
mod error;
mod fields;
mod keys;
mod limits;
mod query;
mod refusal;
mod share;

pub use config::{Config, DatabaseState, Listing, MAX_CONFIG_BYTES, PartConfig, Summary};
pub use error::WireError;
pub use keys::{KeysPiece, KeysRequest, KeysResponse, KeysUpload, MAX_KEYS_RESPONSE_BYTES};
pub use limits::{Lengths, Limits, Part};
pub use query::{Queries, Request, Response};
pub use refusal::{Code, MAX_REFUSAL_BYTES, Refusal};
pub use share::{Keyed, ShareLimits, ShareRequest};

/// The messages as generated from `proto/`.
pub mod proto {
    // The generator documents fields and messages from the .proto files, but not the methods it
    // adds.
    #![allow(missing_docs, clippy::all, unused_qualifications)]
    include!("generated/spirea.v1.rs");
}

/// Format of the envelope that this crate supports; every message carries it.
pub const FORMAT: u32 = 1;

/// Content type of every message.
pub const CONTENT_TYPE: &str = "application/x-protobuf";

pub use spirea_protocols::{FileHash, KeysHash, Version};

fn check_format(found: u32) -> Result<(), WireError> {
    if found == FORMAT { Ok(()) } else { Err(WireError::Format { found }) }
}

fn hash<H: From<[u8; 32]>>(message: &'static str, field: &str, bytes: &[u8]) -> Result<H, WireError> {
    <[u8; 32]>::try_from(bytes)
        .map(H::from)
        .map_err(|_| WireError::malformed(message, format!("{field} has {} bytes, not 32", bytes.len())))
}

/// Encodes a hash as a field, which is empty if there is none.
fn optional_bytes(hash: Option<&[u8; 32]>) -> Bytes {
    hash.map_or_else(Bytes::new, |hash| Bytes::copy_from_slice(hash))
}

fn optional_hash<H: From<[u8; 32]>>(
    message: &'static str,
    field: &str,
    bytes: &[u8],
) -> Result<Option<H>, WireError> {
    if bytes.is_empty() { Ok(None) } else { hash(message, field, bytes).map(Some) }
}
