//! Messages of evaluation keys: package `apple.swift_homomorphic_encryption.api.shared.v1`.

use bytes::Bytes;

use super::he::{EvaluationKeyConfig, SerializedEvaluationKey};

/// Evaluation key that the server asks for, and the state of the client's stored key.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct KeyStatus {
    /// Time at which the client made its stored key, in seconds since 1970; 0 if none is stored.
    #[prost(uint64, tag = "1")]
    pub timestamp: u64,
    /// The keys that the server asks for.
    #[prost(message, optional, tag = "2")]
    pub key_config: Option<EvaluationKeyConfig>,
}

/// Name of an evaluation key among those of a client.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct EvaluationKeyMetadata {
    /// Time at which the client made the key, in seconds since 1970.
    #[prost(uint64, tag = "1")]
    pub timestamp: u64,
    /// SHA-256 of the serialised [`EvaluationKeyConfig`] that the key is for.
    #[prost(bytes = "bytes", tag = "2")]
    pub identifier: Bytes,
}

/// An evaluation key with its name (`EvaluationKey` in Apple's schema).
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct UploadedKey {
    /// Name of the key.
    #[prost(message, optional, tag = "1")]
    pub metadata: Option<EvaluationKeyMetadata>,
    /// The key.
    #[prost(message, optional, tag = "2")]
    pub evaluation_key: Option<SerializedEvaluationKey>,
}

/// Body of `POST /key`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct EvaluationKeys {
    /// The keys.
    #[prost(message, repeated, tag = "1")]
    pub keys: Vec<UploadedKey>,
}
