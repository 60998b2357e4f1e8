use bytes::Bytes;
use spirea_backend::ResidueBackend;

use crate::ciphertext::polynomial_bytes;
use crate::config::{KeyConfig, sha256};
use crate::database::Database;
use crate::error::AppleError;
use crate::evaluation_key::EvaluationKey;
use crate::messages::{
    DoubleMod, KeywordPirParameters, PirConfig, PirRequest, PirResponse, Sharding, ShardingFunction,
};
use crate::query::Query;
use crate::set::{POLYNOMIALS, RINGS, Set};
use crate::shape::{Compression, Shape};

/// Algorithm of the configuration: MulPir.
const MUL_PIR: i32 = 1;

/// Bytes of a ciphertext in a response besides its polynomials, at most.
const CIPHERTEXT_FRAMING: usize = 64;

/// A keyword database that clients know by name, with its shards and its configuration.
#[derive(Debug)]
pub struct UseCase<B: ResidueBackend> {
    shards: Vec<Database<B>>,
    key_config: KeyConfig,
    config: PirConfig,
    config_id: Bytes,
}

impl<B: ResidueBackend> UseCase<B> {
    /// Creates a use case. A keyword's values must be in the shard that `sharding` gives.
    ///
    /// # Errors
    /// [`AppleError::Table`] if there is no shard, or the shards differ in parameter set or number
    /// of tables; [`AppleError::Unsupported`] if the sharding function divides by 0.
    pub fn new(
        shards: Vec<Database<B>>,
        sharding: Sharding,
        compression: Compression,
    ) -> Result<Self, AppleError> {
        if sharding == Sharding::DoubleMod(DoubleMod { other_shard_count: 0 }) {
            return Err(AppleError::Unsupported("sharding by a number of 0 shards"));
        }
        let shape = shards.first().ok_or_else(|| AppleError::Table("there is no shard".into()))?.shape();
        let (set, tables) = (shape.set(), shape.tables());
        let shapes = || shards.iter().map(Database::shape);
        if shapes().any(|shape| shape.set() != set || shape.tables() != tables) {
            return Err(AppleError::Table("shards have different sets or numbers of tables".into()));
        }
        let key_config = KeyConfig::new(set, shapes(), compression);
        let config = pir_config(set, tables, shapes(), sharding, key_config.hash());
        let config_id = sha256(&config);
        Ok(Self { shards, key_config, config, config_id })
    }

    /// Returns the key-switching keys that clients must upload.
    pub fn key_config(&self) -> &KeyConfig {
        &self.key_config
    }

    /// Returns the configuration for clients.
    pub fn config(&self) -> &PirConfig {
        &self.config
    }

    /// Returns the identifier of the configuration.
    pub fn config_id(&self) -> &Bytes {
        &self.config_id
    }

    /// Returns the shards.
    pub fn shards(&self) -> &[Database<B>] {
        &self.shards
    }

    /// Returns an upper bound of the length of a response, in bytes.
    pub fn response_bytes(&self) -> usize {
        let ciphertexts = |shard: &Database<B>| shard.shape().tables() * shard.shape().chunks();
        let ciphertext = POLYNOMIALS * polynomial_bytes(&RINGS.response) + CIPHERTEXT_FRAMING;
        self.shards.iter().map(ciphertexts).max().unwrap_or(0) * ciphertext
    }

    /// Answers a request under its own evaluation key. If the request has none, uses `stored`, the
    /// key stored for the client and the identifier of [`UseCase::key_config`].
    ///
    /// # Errors
    /// [`AppleError::UnknownConfiguration`] (410 over HTTP), [`AppleError::UnknownEvaluationKey`]
    /// (400), [`AppleError::Unsupported`] for shards by name (501), [`AppleError::UnknownShard`]
    /// and [`AppleError::Malformed`] (400).
    pub fn answer(
        &self,
        request: &PirRequest,
        stored: Option<&EvaluationKey>,
    ) -> Result<PirResponse, AppleError> {
        if request.shard_id.is_some() {
            return Err(AppleError::Unsupported("a shard that is named"));
        }
        if request.configuration_hash != self.config_id {
            return Err(AppleError::UnknownConfiguration);
        }
        let (index, shards) = (request.shard_index, self.shards.len());
        let shard = self.shards.get(index as usize).ok_or(AppleError::UnknownShard { index, shards })?;
        let query = request.query.as_ref();
        let query = query.ok_or_else(|| AppleError::malformed("PIRRequest", "there is no query"))?;
        let own = request.evaluation_key.as_ref().and_then(|upload| upload.evaluation_key.as_ref());
        let own = own.map(|key| EvaluationKey::parse(&self.key_config, key)).transpose()?;
        if own.is_none() {
            let metadata = request.evaluation_key_metadata.as_ref();
            let matches = metadata.is_some_and(|metadata| metadata.identifier == self.key_config.hash());
            if !matches {
                return Err(AppleError::UnknownEvaluationKey);
            }
        }
        let key = own.as_ref().or(stored).ok_or(AppleError::UnknownEvaluationKey)?;
        let query = Query::parse(shard.shape(), query)?;
        Ok(shard.answer(&[(&query, key)])?.remove(0).message())
    }
}

fn pir_config<'a>(
    set: Set,
    tables: usize,
    shapes: impl Iterator<Item = &'a Shape>,
    sharding: Sharding,
    key_hash: Bytes,
) -> PirConfig {
    // Clients before iOS 18.2 know only `Sha256`, and do not know a message for it. So the message
    // is left out for this function.
    let function = match sharding {
        Sharding::Sha256(_) => None,
        Sharding::DoubleMod(_) => Some(ShardingFunction { function: Some(sharding) }),
    };
    PirConfig {
        encryption_parameters: Some(set.parameters()),
        shard_configs: shapes.map(Shape::config).collect(),
        keyword_pir_params: Some(KeywordPirParameters {
            num_hash_functions: tables as u64,
            sharding_function: function,
        }),
        algorithm: MUL_PIR,
        batch_size: tables as u64,
        evaluation_key_config_hash: key_hash,
    }
}
