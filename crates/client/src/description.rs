use bytes::Bytes;
use spirea_protocols::registry::ProtocolParams;
use spirea_protocols::{Party, Sizes, Table};
use spirea_wire::{Config, Limits, Version};

use crate::ClientError;

/// A database's configuration, read from untrusted bytes and checked: its parameters and its table are
/// valid, and what the server says of lengths and of its party is what they say.
#[derive(Clone, Debug)]
pub struct Description {
    config: Config,
    params: ProtocolParams,
    table: Table,
    party: Option<Party>,
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
        let party = config.party.map(Party::try_from).transpose().map_err(|error| invalid(&error))?;
        if party.is_some() != (params.parties() > 1) {
            return wrong("its protocol has no such party".into());
        }
        Ok(Self { config, params, table, party })
    }

    /// The one description that all servers of a database give, from that of each in the order of their parties.
    /// One server alone cannot make a client ask under other parameters than both have.
    ///
    /// # Errors
    /// [`ClientError::BadAddress`] if they are not the servers of the protocol, each once;
    /// [`ClientError::DifferentSnapshots`] if the two have not the same version, parameters and table.
    pub fn agree(descriptions: Vec<Self>) -> Result<Self, ClientError> {
        for description in &descriptions {
            let text = match (description.params.parties(), descriptions.len()) {
                (parties, given) if parties == given => continue,
                (1, _) => "this database has one server: give one address",
                _ => {
                    "this database is served by two servers that must not work together: give both addresses"
                }
            };
            return Err(ClientError::BadAddress(text.into()));
        }
        let mut others = descriptions.into_iter();
        let none = || ClientError::BadAddress("give the address of a server".into());
        let mut agreed = others.next().ok_or_else(none)?;
        others.try_for_each(|other| agreed.agree_with(&other))?;
        Ok(agreed)
    }

    /// Checks that `other` is the other party with the same snapshot, and takes no longer batches than it does.
    fn agree_with(&mut self, other: &Self) -> Result<(), ClientError> {
        if let (Some(party), true) = (self.party, self.party == other.party) {
            return Err(ClientError::BadAddress(format!(
                "both addresses are of {party}: one of them must be the address of party {}",
                1 - party.number()
            )));
        }
        if self.version() != other.version() || self.params != other.params || self.table != other.table {
            return Err(ClientError::DifferentSnapshots { versions: [*self.version(), *other.version()] });
        }
        let limits = &mut self.config.limits;
        limits.max_batch = limits.max_batch.min(other.config.limits.max_batch);
        Ok(())
    }

    /// The database's name.
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// Which of the protocol's two servers gave this description; `None` if the protocol has one.
    pub fn party(&self) -> Option<Party> {
        self.party
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
