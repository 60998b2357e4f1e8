use std::time::Duration;

use bytes::Bytes;
use prost::Message;

use crate::fields::{Repeated, check, named_version};
use crate::limits::{check_length, of_length};
use crate::{
    FORMAT, KeysHash, Lengths, Limits, Part, Version, WireError, check_format, hash, optional_bytes,
    optional_hash, proto,
};

const REQUEST: &str = "request";
const RESPONSE: &str = "response";
/// Field number of the base's queries or answers.
const BASE: u32 = 3;
/// Field number of the delta's queries or answers.
const DELTA: u32 = 5;
/// Field number of the base's keys that are sent with queries.
const SENT_KEYS: u32 = 7;
/// Field number of the delta's keys that are sent with queries.
const SENT_DELTA_KEYS: u32 = 8;

/// Queries to one part of a database.
///
/// `Debug` shows only their number.
#[derive(Clone, PartialEq, Eq)]
pub struct Queries {
    /// The client's evaluation keys; `None` if the protocol needs none.
    pub keys: Option<KeysHash>,
    /// The queries.
    pub queries: Vec<Bytes>,
}

impl std::fmt::Debug for Queries {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queries").field("queries", &self.queries.len()).finish_non_exhaustive()
    }
}

/// Several look-ups of one client in one version, answered as one batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The version that the queries were made for.
    pub version: Version,
    /// The queries to the base, one for each look-up.
    pub base: Queries,
    /// The queries to the delta, if the version has one. Their number equals the number of queries
    /// to the base.
    pub delta: Option<Queries>,
}

impl Request {
    /// Encodes the request as a message.
    pub fn encode(&self) -> Vec<u8> {
        let (delta_queries, delta_keys) =
            self.delta.clone().map(|delta| (delta.queries, delta.keys)).unwrap_or_default();
        proto::QueryRequest {
            format: FORMAT,
            version: Bytes::copy_from_slice(self.version.as_bytes()),
            queries: self.base.queries.clone(),
            keys: optional_bytes(self.base.keys.as_ref().map(KeysHash::as_bytes)),
            delta_queries,
            delta_keys: optional_bytes(delta_keys.as_ref().map(KeysHash::as_bytes)),
            sent_keys: Bytes::new(),
            sent_delta_keys: Bytes::new(),
        }
        .encode_to_vec()
    }

    /// Appends the evaluation keys of parts to an encoded request, whose bytes stay the same.
    pub fn with_keys<'k>(request: &[u8], keys: impl Iterator<Item = (Part, &'k [u8])>) -> Vec<u8> {
        let mut fields = proto::QueryRequest::default();
        for (part, keys) in keys {
            let keys = Bytes::copy_from_slice(keys);
            match part {
                Part::Base => fields.sent_keys = keys,
                Part::Delta => fields.sent_delta_keys = keys,
            }
        }
        let mut message = Vec::with_capacity(request.len() + fields.encoded_len());
        message.extend_from_slice(request);
        fields.encode(&mut message).expect("a vector has room");
        message
    }

    /// Returns the version that a request names; it decides the limits for [`Request::decode`].
    ///
    /// # Errors
    /// [`WireError::Format`] if the request names another format, [`WireError::Malformed`] if it
    /// names no version.
    pub fn version(body: &[u8]) -> Result<Version, WireError> {
        named_version(REQUEST, body)
    }

    /// Decodes a request, and drops keys that were sent with it: see [`Request::decode_with_keys`].
    ///
    /// # Errors
    /// Those of [`Request::decode_with_keys`].
    pub fn decode(body: Bytes, limits: &Limits) -> Result<Self, WireError> {
        Ok(Self::decode_with_keys(body, limits)?.0)
    }

    /// Decodes a request and the keys that were sent with it, with their parts. Queries and keys
    /// share the memory of `body`. The keys that the request names may be unknown, and their hashes
    /// may differ from those of the keys that were sent: this is not checked here.
    ///
    /// # Errors
    /// [`WireError::TooLarge`] if the body is longer than any request within `limits`;
    /// [`WireError::Format`] if it names another format; [`WireError::Malformed`] if the bytes are
    /// not a request, there is no query or there are too many, a query's length differs from the
    /// parameters, the numbers of queries to the base and to the delta differ, or keys were sent
    /// that have another length or that the request does not name.
    pub fn decode_with_keys(body: Bytes, limits: &Limits) -> Result<(Self, Vec<(Part, Bytes)>), WireError> {
        check_length(body.len(), limits.request_bytes())?;
        check_parts(REQUEST, "a query", &body, limits, limits.max_batch, |part| part.query_bytes)?;
        check_sent_keys(&body, limits)?;
        let message = proto::QueryRequest::decode(body)
            .map_err(|error| WireError::malformed(REQUEST, error.to_string()))?;
        check_format(message.format)?;
        let (queries, delta_queries) = (message.queries, message.delta_queries);
        if queries.is_empty() {
            return Err(WireError::malformed(REQUEST, "it has no query"));
        }
        let delta_keys = optional_hash(REQUEST, "delta_keys", &message.delta_keys)?;
        let delta = match limits.delta {
            Some(_) if delta_queries.len() != queries.len() => {
                let detail =
                    format!("{} queries to the delta and {} to the base", delta_queries.len(), queries.len());
                return Err(WireError::malformed(REQUEST, detail));
            }
            Some(_) => Some(Queries { keys: delta_keys, queries: delta_queries }),
            None => None,
        };
        let request = Self {
            version: hash(REQUEST, "version", &message.version)?,
            base: Queries { keys: optional_hash(REQUEST, "keys", &message.keys)?, queries },
            delta,
        };
        let named = [request.base.keys, request.delta.as_ref().and_then(|delta| delta.keys)];
        let sent = [(Part::Base, message.sent_keys), (Part::Delta, message.sent_delta_keys)];
        let sent: Vec<_> = sent.into_iter().zip(named).filter(|((_, keys), _)| !keys.is_empty()).collect();
        if sent.iter().any(|(_, named)| named.is_none()) {
            return Err(WireError::malformed(REQUEST, "it brings keys that it does not name"));
        }
        Ok((request, sent.into_iter().map(|(sent, _)| sent).collect()))
    }
}

/// The answers to a [`Request`].
///
/// `Debug` shows only the number of answers.
#[derive(Clone, PartialEq, Eq)]
pub struct Response {
    /// The version that answered, which the request named.
    pub version: Version,
    /// The newest version that the server answers, for the next request.
    pub newest: Version,
    /// The base's answers, one for each look-up, in order.
    pub answers: Vec<Bytes>,
    /// The delta's answers, if the version has a delta. Their number equals the number of the
    /// base's answers.
    pub delta_answers: Option<Vec<Bytes>>,
    /// Time of computation for the whole batch, to the microsecond.
    pub compute: Duration,
}

impl std::fmt::Debug for Response {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Response").field("answers", &self.answers.len()).finish_non_exhaustive()
    }
}

impl Response {
    /// Returns the bytes of all answers.
    pub fn answer_bytes(&self) -> usize {
        self.answers.iter().chain(self.delta_answers.iter().flatten()).map(Bytes::len).sum()
    }

    /// Encodes the response as a message.
    pub fn encode(&self) -> Vec<u8> {
        proto::QueryResponse {
            format: FORMAT,
            version: Bytes::copy_from_slice(self.version.as_bytes()),
            answers: self.answers.clone(),
            delta_answers: self.delta_answers.clone().unwrap_or_default(),
            newest: Bytes::copy_from_slice(self.newest.as_bytes()),
            compute_micros: Some(u64::try_from(self.compute.as_micros()).unwrap_or(u64::MAX)),
        }
        .encode_to_vec()
    }

    /// Decodes the response to a request for `count` look-ups. The answers share the memory of
    /// `body`.
    ///
    /// # Errors
    /// [`WireError::TooLarge`] if the body is longer than any such response; [`WireError::Format`]
    /// if it names another format; [`WireError::Malformed`] if the bytes are not a response, or the
    /// number or lengths of its answers differ from the parameters.
    pub fn decode(body: Bytes, limits: &Limits, count: usize) -> Result<Self, WireError> {
        check_length(body.len(), limits.response_bytes(count))?;
        check_parts(RESPONSE, "an answer", &body, limits, count, |part| part.answer_bytes)?;
        let message = proto::QueryResponse::decode(body)
            .map_err(|error| WireError::malformed(RESPONSE, error.to_string()))?;
        check_format(message.format)?;
        let delta_answers = limits.delta.map(|_| message.delta_answers);
        for answers in [Some(&message.answers), delta_answers.as_ref()].into_iter().flatten() {
            if answers.len() != count {
                let detail = format!("{} answers to {count} queries", answers.len());
                return Err(WireError::malformed(RESPONSE, detail));
            }
        }
        Ok(Self {
            version: hash(RESPONSE, "version", &message.version)?,
            newest: hash(RESPONSE, "newest", &message.newest)?,
            answers: message.answers,
            delta_answers,
            compute: Duration::from_micros(message.compute_micros.unwrap_or_default()),
        })
    }
}

/// Checks that a request carries at most one set of keys for each part, and that the keys have the
/// part's length.
fn check_sent_keys(body: &[u8], limits: &Limits) -> Result<(), WireError> {
    let of = |part| of_length("keys", limits.of(part).map_or(0, |lengths| lengths.keys_bytes));
    let (base, delta) = (of(Part::Base), of(Part::Delta));
    check(
        REQUEST,
        body,
        &[
            Repeated { number: SENT_KEYS, most: 1, accepts: &base },
            Repeated { number: SENT_DELTA_KEYS, most: 1, accepts: &delta },
        ],
    )
}

/// Checks that a message has at most `count` queries or answers of each part, each with the part's
/// length.
fn check_parts(
    message: &'static str,
    what: &'static str,
    body: &[u8],
    limits: &Limits,
    count: usize,
    length: impl Fn(Lengths) -> usize,
) -> Result<(), WireError> {
    let base = of_length(what, length(limits.base));
    let delta = of_length(what, limits.delta.map_or(0, &length));
    check(
        message,
        body,
        &[
            Repeated { number: BASE, most: count, accepts: &base },
            Repeated { number: DELTA, most: limits.delta.map_or(0, |_| count), accepts: &delta },
        ],
    )
}
