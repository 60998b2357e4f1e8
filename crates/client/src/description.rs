use bytes::Bytes;
use spirea_protocols::registry::ProtocolParams;
use spirea_protocols::{Sizes, Table};
use spirea_wire::{Config, Limits, Version};

use crate::ClientError;

/// A database's configuration, read from untrusted bytes and checked: its parameters and its table are
/// valid, and what the server says of lengths is what they say.
#[derive(Clone, Debug)]
pub struct Description {
    config: Config,
    params: ProtocolParams,
    table: Table,
}

impl Description {
    /// The configuration of the database called `name`, from the bytes of its message.
    ///
    /// # Errors
    /// [`ClientError::Wire`] if the bytes are no such message, [`ClientError::WrongConfig`] if its parts do
    /// not belong together.
    pub fn parse(name: &str, message: Bytes) -> Result<Self, ClientError> {
        let config = Config::decode(message)?;
        let wrong = |detail: String| Err(ClientError::WrongConfig(detail));
        if config.name != name {
            return wrong("it belongs to another database".into());
        }
        let invalid = |error: &dyn std::fmt::Display| ClientError::WrongConfig(error.to_string());
        let params = ProtocolParams::from_json(&config.protocol_params).map_err(|error| invalid(&error))?;
        let table: Table = serde_json::from_slice(&config.table).map_err(|error| invalid(&error))?;
        table.validate().map_err(|error| invalid(&error))?;
        if table.records != params.records() || table.record_bytes() != params.record_bytes() {
            return wrong("the table's records are not the protocol's".into());
        }
        let Sizes { query_bytes, answer_bytes, hint_bytes, keys_bytes } = params.sizes();
        let Limits { max_batch, .. } = config.limits;
        if config.limits != (Limits { query_bytes, answer_bytes, max_batch, keys_bytes })
            || config.hint_bytes != hint_bytes
        {
            return wrong("its lengths are not those of its parameters".into());
        }
        Ok(Self { config, params, table })
    }

    /// The database's name.
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// The version that answers.
    pub fn version(&self) -> &Version {
        &self.config.version
    }

    /// The protocol and its parameters.
    pub fn params(&self) -> &ProtocolParams {
        &self.params
    }

    /// The table.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Lengths of queries, answers and evaluation keys, and the most queries in a request.
    pub fn limits(&self) -> Limits {
        self.config.limits
    }

    /// Bytes of the hint.
    pub fn hint_bytes(&self) -> u64 {
        self.config.hint_bytes
    }

    /// BLAKE3 of the hint.
    pub fn hint_blake3(&self) -> &[u8; 32] {
        &self.config.hint_blake3
    }

    /// The hint, if these bytes are it.
    ///
    /// # Errors
    /// [`ClientError::HintCorrupted`] if they are not.
    pub fn hint(&self, bytes: Vec<u8>) -> Result<Hint, ClientError> {
        let same = bytes.len() as u64 == self.hint_bytes() && blake3::hash(&bytes) == *self.hint_blake3();
        if same { Ok(Hint { bytes, blake3: *self.hint_blake3() }) } else { Err(ClientError::HintCorrupted) }
    }
}

/// A hint whose hash has been checked: [`Description::hint`] makes it.
pub struct Hint {
    pub(crate) bytes: Vec<u8>,
    pub(crate) blake3: [u8; 32],
}
