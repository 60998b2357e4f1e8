use std::time::Duration;

use bytes::Bytes;
use prost::Message;

use crate::limits::{check_length, of_length};
use crate::{
    FORMAT, KeysHash, Limits, Version, WireError, check_format, fields, hash, optional_bytes, optional_hash,
    proto,
};

const REQUEST: &str = "request";
const RESPONSE: &str = "response";
/// The number of the field with the queries or the answers.
const PARTS: u32 = 3;

/// Several queries of one client for one version, answered as one batch.
///
/// Its `Debug` shows lengths only.
#[derive(Clone, PartialEq, Eq)]
pub struct Request {
    /// The version that the queries were made for.
    pub version: Version,
    /// The client's evaluation keys; `None` if the protocol needs none.
    pub keys: Option<KeysHash>,
    /// The queries.
    pub queries: Vec<Bytes>,
}

impl std::fmt::Debug for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Request").field("queries", &self.queries.len()).finish_non_exhaustive()
    }
}

impl Request {
    /// The request as a message.
    pub fn encode(&self) -> Vec<u8> {
        proto::QueryRequest {
            format: FORMAT,
            version: Bytes::copy_from_slice(&self.version),
            queries: self.queries.clone(),
            keys: optional_bytes(self.keys),
        }
        .encode_to_vec()
    }

    /// Reads a request. The queries share the memory of `body`.
    ///
    /// # Errors
    /// [`WireError::TooLarge`] if the body is longer than any request within `limits`,
    /// [`WireError::Format`] if it names another format, [`WireError::Malformed`] if it is no request, has
    /// no query or too many, or one of another length than the parameters say. Whether the keys that it names
    /// are there is not a question of form.
    pub fn decode(body: Bytes, limits: &Limits) -> Result<Self, WireError> {
        check_length(body.len(), limits.request_bytes())?;
        fields::check(REQUEST, &body, PARTS, limits.max_batch, of_length("a query", limits.query_bytes))?;
        let message = proto::QueryRequest::decode(body)
            .map_err(|error| WireError::malformed(REQUEST, error.to_string()))?;
        check_format(message.format)?;
        if message.queries.is_empty() {
            return Err(WireError::malformed(REQUEST, "it has no query"));
        }
        Ok(Self {
            version: hash(REQUEST, "version", &message.version)?,
            keys: optional_hash(REQUEST, "keys", &message.keys)?,
            queries: message.queries,
        })
    }
}

/// The answers to a [`Request`].
///
/// Its `Debug` shows lengths only.
#[derive(Clone, PartialEq, Eq)]
pub struct Response {
    /// The version that answered.
    pub version: Version,
    /// One answer for each query, in order.
    pub answers: Vec<Bytes>,
    /// Time of computation for the whole batch, to the microsecond.
    pub compute: Duration,
}

impl std::fmt::Debug for Response {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Response").field("answers", &self.answers.len()).finish_non_exhaustive()
    }
}

impl Response {
    /// The response as a message.
    pub fn encode(&self) -> Vec<u8> {
        proto::QueryResponse {
            format: FORMAT,
            version: Bytes::copy_from_slice(&self.version),
            answers: self.answers.clone(),
            compute_micros: u64::try_from(self.compute.as_micros()).unwrap_or(u64::MAX),
        }
        .encode_to_vec()
    }

    /// Reads the response to a request with `queries` queries. The answers share the memory of `body`.
    ///
    /// # Errors
    /// [`WireError::TooLarge`] if the body is longer than any such response, [`WireError::Format`] if it
    /// names another format, [`WireError::Malformed`] if it is no response, or its answers are not as many
    /// and as long as the parameters say.
    pub fn decode(body: Bytes, limits: &Limits, queries: usize) -> Result<Self, WireError> {
        check_length(body.len(), limits.response_bytes(queries))?;
        fields::check(RESPONSE, &body, PARTS, queries, of_length("an answer", limits.answer_bytes))?;
        let message = proto::QueryResponse::decode(body)
            .map_err(|error| WireError::malformed(RESPONSE, error.to_string()))?;
        check_format(message.format)?;
        if message.answers.len() != queries {
            let detail = format!("{} answers to {queries} queries", message.answers.len());
            return Err(WireError::malformed(RESPONSE, detail));
        }
        Ok(Self {
            version: hash(RESPONSE, "version", &message.version)?,
            answers: message.answers,
            compute: Duration::from_micros(message.compute_micros),
        })
    }
}
