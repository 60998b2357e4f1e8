//! Messages of the HTTP interface: package `apple.swift_homomorphic_encryption.api.v1`.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::pir::{PirConfig, PirRequest, PirResponse};
use super::shared::KeyStatus;

/// Body of `POST /config`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ConfigRequest {
    /// Names of use cases; none asks for all.
    #[prost(string, repeated, tag = "1")]
    pub usecases: Vec<String>,
    /// Identifiers of the configurations that the client has, one for each name, or none.
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub existing_config_ids: Vec<Bytes>,
}

/// Response to a [`ConfigRequest`].
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ConfigResponse {
    /// Configurations by the names of their use cases.
    #[prost(btree_map = "string, message", tag = "1")]
    pub configs: BTreeMap<String, Config>,
    /// The evaluation keys that the use cases need.
    #[prost(message, repeated, tag = "2")]
    pub key_info: Vec<KeyStatus>,
}

/// Configuration of a use case with its identifier.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Config {
    /// The configuration.
    #[prost(message, optional, tag = "1")]
    pub pir_config: Option<PirConfig>,
    /// Identifier of the configuration.
    #[prost(bytes = "bytes", tag = "3")]
    pub config_id: Bytes,
    /// True if the client already has the configuration, which is then left out.
    #[prost(bool, tag = "4")]
    pub reuse_existing_config: bool,
}

/// Body of `POST /queries`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Requests {
    /// The requests.
    #[prost(message, repeated, tag = "1")]
    pub requests: Vec<Request>,
}

/// A request to a use case.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Request {
    /// Name of the use case.
    #[prost(string, tag = "1")]
    pub usecase: String,
    /// The request; none if it is not for private retrieval.
    #[prost(message, optional, tag = "2")]
    pub pir_request: Option<PirRequest>,
}

/// Response to [`Requests`].
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Responses {
    /// The responses, in the order of the requests.
    #[prost(message, repeated, tag = "1")]
    pub responses: Vec<Response>,
}

/// Response to a [`Request`].
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Response {
    /// The response.
    #[prost(message, optional, tag = "1")]
    pub pir_response: Option<PirResponse>,
}
