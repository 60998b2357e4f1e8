//! Messages of private retrieval: packages `apple.swift_homomorphic_encryption.pir.v1` and
//! `apple.swift_homomorphic_encryption.api.pir.v1`.

use bytes::Bytes;

use super::he::{EncryptionParameters, SerializedCiphertext, SerializedCiphertextVec};
use super::shared::{EvaluationKeyMetadata, UploadedKey};

/// Configuration of a use case.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PirConfig {
    /// Parameters of the encryption scheme.
    #[prost(message, optional, tag = "1")]
    pub encryption_parameters: Option<EncryptionParameters>,
    /// The shards, in order.
    #[prost(message, repeated, tag = "2")]
    pub shard_configs: Vec<PirShardConfig>,
    /// Parameters of the keyword tables.
    #[prost(message, optional, tag = "3")]
    pub keyword_pir_params: Option<KeywordPirParameters>,
    /// Algorithm: 1, MulPir.
    #[prost(int32, tag = "4")]
    pub algorithm: i32,
    /// Number of tables; a query asks each table for one bucket.
    #[prost(uint64, tag = "5")]
    pub batch_size: u64,
    /// SHA-256 of the serialised `EvaluationKeyConfig`.
    #[prost(bytes = "bytes", tag = "6")]
    pub evaluation_key_config_hash: Bytes,
}

/// Configuration of a shard.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PirShardConfig {
    /// Number of buckets of each table.
    #[prost(uint64, tag = "1")]
    pub num_entries: u64,
    /// Bytes of a bucket.
    #[prost(uint64, tag = "2")]
    pub entry_size: u64,
    /// Numbers of plaintexts along the dimensions.
    #[prost(uint64, repeated, tag = "3")]
    pub dimensions: Vec<u64>,
}

/// Parameters of keyword tables.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct KeywordPirParameters {
    /// Number of hash functions, which is the number of tables.
    #[prost(uint64, tag = "1")]
    pub num_hash_functions: u64,
    /// Assignment of keywords to shards.
    #[prost(message, optional, tag = "4")]
    pub sharding_function: Option<ShardingFunction>,
}

/// Assignment of keywords to shards.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ShardingFunction {
    /// The function.
    #[prost(oneof = "Sharding", tags = "1, 2")]
    pub function: Option<Sharding>,
}

/// Function from a keyword's hash to its shard.
#[derive(Clone, Copy, PartialEq, Eq, prost::Oneof)]
pub enum Sharding {
    /// The hash modulo the number of shards.
    #[prost(message, tag = "1")]
    Sha256(Sha256),
    /// The hash modulo the number of another use case's shards, modulo the number of shards.
    #[prost(message, tag = "2")]
    DoubleMod(DoubleMod),
}

/// Marker of [`Sharding::Sha256`].
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Sha256 {}

/// Parameter of [`Sharding::DoubleMod`].
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct DoubleMod {
    /// Number of shards of the other use case.
    #[prost(uint64, tag = "1")]
    pub other_shard_count: u64,
}

/// A query: the one-hot vectors of all tables, encrypted.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct EncryptedIndices {
    /// Ciphertexts that expand to the one-hot vectors.
    #[prost(message, repeated, tag = "1")]
    pub ciphertexts: Vec<SerializedCiphertext>,
    /// Number of tables.
    #[prost(uint64, tag = "2")]
    pub num_pir_calls: u64,
}

/// A request to a shard.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PirRequest {
    /// Number of the shard.
    #[prost(uint32, tag = "1")]
    pub shard_index: u32,
    /// The query.
    #[prost(message, optional, tag = "2")]
    pub query: Option<EncryptedIndices>,
    /// The stored evaluation key that the query was made for.
    #[prost(message, optional, tag = "3")]
    pub evaluation_key_metadata: Option<EvaluationKeyMetadata>,
    /// Identifier of the configuration that the query was made for.
    #[prost(bytes = "bytes", tag = "4")]
    pub configuration_hash: Bytes,
    /// Name of the shard, in place of its number: not supported.
    #[prost(string, optional, tag = "5")]
    pub shard_id: Option<String>,
    /// Evaluation key that overrides the stored one.
    #[prost(message, optional, tag = "6")]
    pub evaluation_key: Option<UploadedKey>,
}

/// The response to a [`PirRequest`].
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PirResponse {
    /// For each table, a ciphertext for each chunk of its bucket.
    #[prost(message, repeated, tag = "1")]
    pub replies: Vec<SerializedCiphertextVec>,
}
