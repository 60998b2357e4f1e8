//! The protobuf messages, under the names of Apple's schema.
//!
//! Only the fields that this server reads or writes are declared; a decoder skips the others.

mod api;
mod bounds;
mod caller;
mod he;
mod pir;
mod shared;

pub use api::{Config, ConfigRequest, ConfigResponse, Request, Requests, Response, Responses};
pub use bounds::{
    Inbound, MAX_CIPHERTEXTS, MAX_GALOIS_ELEMENTS, MAX_INBOUND_BYTES, MAX_KEYS, MAX_REQUESTS, MAX_USE_CASES,
};
pub use caller::{CallIdentity, Icon, IdentityCategory, ImageFormat};
pub use he::{
    Ciphertext, EncryptionParameters, EvaluationKeyConfig, FullCiphertext, GaloisKey, RelinKey,
    SeededCiphertext, SerializedCiphertext, SerializedCiphertextVec, SerializedEvaluationKey,
    SerializedKeySwitchKey,
};
pub use pir::{
    DoubleMod, EncryptedIndices, KeywordPirParameters, PirConfig, PirRequest, PirResponse, PirShardConfig,
    Sha256, Sharding, ShardingFunction,
};
pub use shared::{EvaluationKeyMetadata, EvaluationKeys, KeyStatus, UploadedKey};
