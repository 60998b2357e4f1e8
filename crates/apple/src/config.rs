use bytes::Bytes;
use prost::Message;
use sha2::{Digest, Sha256};

use crate::messages::EvaluationKeyConfig;
use crate::set::Set;
use crate::shape::{Compression, Shape};

/// The key-switching keys that a use case needs from a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyConfig {
    set: Set,
    galois_elements: Vec<u32>,
}

impl KeyConfig {
    /// Returns the keys for the expansion of queries to all of these shards.
    pub fn new<'a>(set: Set, shapes: impl IntoIterator<Item = &'a Shape>, compression: Compression) -> Self {
        let mut galois_elements: Vec<u32> =
            shapes.into_iter().flat_map(|shape| shape.galois_elements(compression)).collect();
        galois_elements.sort_unstable();
        galois_elements.dedup();
        Self { set, galois_elements }
    }

    /// Returns the parameter set.
    pub fn set(&self) -> Set {
        self.set
    }

    /// Returns the Galois elements, ascending.
    pub fn galois_elements(&self) -> &[u32] {
        &self.galois_elements
    }

    /// Returns the configuration as a message.
    pub fn message(&self) -> EvaluationKeyConfig {
        EvaluationKeyConfig {
            encryption_parameters: Some(self.set.parameters()),
            galois_elements: self.galois_elements.clone(),
            has_relin_key: true,
        }
    }

    /// Returns the identifier of the keys: SHA-256 of the serialised message.
    pub fn hash(&self) -> Bytes {
        sha256(&self.message())
    }
}

/// Returns SHA-256 of a serialised message.
pub fn sha256(message: &impl Message) -> Bytes {
    Bytes::copy_from_slice(Sha256::digest(message.encode_to_vec()).as_slice())
}
