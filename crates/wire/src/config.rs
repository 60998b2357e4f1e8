use bytes::Bytes;
use prost::Message;

use crate::limits::check_length;
pub use crate::proto::DatabaseState;
use crate::{FORMAT, Limits, Version, WireError, check_format, fields, hash, proto};

/// The most bytes of a configuration or a list of databases.
pub const MAX_CONFIG_BYTES: u64 = 1 << 20;

const CONFIG: &str = "configuration";
const LIST: &str = "list of databases";
/// The most databases in a list.
const MAX_DATABASES: usize = 4096;
/// The field of a list with the databases.
const DATABASES: u32 = 2;

/// What a client must know of a database before it can ask. That its parts belong together is the client's
/// to check, against the parameters it carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The database's name.
    pub name: String,
    /// The snapshot that answers.
    pub version: Version,
    /// The protocol and its parameters, as JSON.
    pub protocol_params: Bytes,
    /// The table, as JSON.
    pub table: Bytes,
    /// Bytes of the hint; 0 if there is none.
    pub hint_bytes: u64,
    /// BLAKE3 of the hint.
    pub hint_blake3: [u8; 32],
    /// Lengths of queries, answers and keys, and the most queries in a request.
    pub limits: Limits,
    /// The party, 0 or 1, that this server is in a protocol with two servers; `None` if the protocol has one.
    pub party: Option<u8>,
}

impl Config {
    /// The configuration as a message.
    pub fn encode(&self) -> Vec<u8> {
        proto::DatabaseConfig {
            format: FORMAT,
            name: self.name.clone(),
            version: Bytes::copy_from_slice(&self.version),
            protocol_params: self.protocol_params.clone(),
            table: self.table.clone(),
            hint: Some(proto::Hint {
                bytes: self.hint_bytes,
                blake3: Bytes::copy_from_slice(&self.hint_blake3),
            }),
            query_bytes: self.limits.query_bytes as u64,
            answer_bytes: self.limits.answer_bytes as u64,
            max_batch: u32::try_from(self.limits.max_batch).unwrap_or(u32::MAX),
            keys_bytes: self.limits.keys_bytes as u64,
            party: self.party.map_or(0, |party| u32::from(party) + 1),
        }
        .encode_to_vec()
    }

    /// Reads a configuration.
    ///
    /// # Errors
    /// [`WireError::TooLarge`] beyond [`MAX_CONFIG_BYTES`], [`WireError::Format`] if it names another
    /// format, [`WireError::Malformed`] if it is no configuration or misses a part.
    pub fn decode(body: Bytes) -> Result<Self, WireError> {
        check_length(body.len(), MAX_CONFIG_BYTES)?;
        // No field repeats; the walk is for the format, so that a later message is told from a broken one.
        fields::check(CONFIG, &body, u32::MAX, 0, |_| Ok(()))?;
        let message = proto::DatabaseConfig::decode(body)
            .map_err(|error| WireError::malformed(CONFIG, error.to_string()))?;
        check_format(message.format)?;
        let hint = message.hint.ok_or_else(|| WireError::malformed(CONFIG, "it describes no hint"))?;
        let length = |field, bytes| {
            usize::try_from(bytes)
                .map_err(|_| WireError::malformed(CONFIG, format!("{field} is out of range")))
        };
        if message.max_batch == 0 {
            return Err(WireError::malformed(CONFIG, "max_batch is 0"));
        }
        let party = match message.party {
            0 => None,
            1 => Some(0),
            2 => Some(1),
            _ => return Err(WireError::malformed(CONFIG, "it names a party beyond the second")),
        };
        Ok(Self {
            version: hash(CONFIG, "version", &message.version)?,
            hint_blake3: hash(CONFIG, "the hint's hash", &hint.blake3)?,
            hint_bytes: hint.bytes,
            limits: Limits {
                query_bytes: length("query_bytes", message.query_bytes)?,
                answer_bytes: length("answer_bytes", message.answer_bytes)?,
                max_batch: message.max_batch as usize,
                keys_bytes: length("keys_bytes", message.keys_bytes)?,
            },
            party,
            name: message.name,
            protocol_params: message.protocol_params,
            table: message.table,
        })
    }
}

/// A database in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Its name.
    pub name: String,
    /// Whether it answers.
    pub state: DatabaseState,
    /// The version it has or will have.
    pub version: Version,
}

/// The databases of a server.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Listing {
    /// The databases, by name.
    pub databases: Vec<Summary>,
}

impl Listing {
    /// The list as a message.
    pub fn encode(&self) -> Vec<u8> {
        let databases = self.databases.iter().map(|database| proto::DatabaseSummary {
            name: database.name.clone(),
            state: database.state.into(),
            version: Bytes::copy_from_slice(&database.version),
        });
        proto::DatabaseList { format: FORMAT, databases: databases.collect() }.encode_to_vec()
    }

    /// Reads a list.
    ///
    /// # Errors
    /// [`WireError::TooLarge`] beyond [`MAX_CONFIG_BYTES`], [`WireError::Format`] if it names another
    /// format, [`WireError::Malformed`] if it is no list or one of more than 4096 databases.
    pub fn decode(body: Bytes) -> Result<Self, WireError> {
        check_length(body.len(), MAX_CONFIG_BYTES)?;
        fields::check(LIST, &body, DATABASES, MAX_DATABASES, |_| Ok(()))?;
        let message = proto::DatabaseList::decode(body)
            .map_err(|error| WireError::malformed(LIST, error.to_string()))?;
        check_format(message.format)?;
        let databases = message.databases.into_iter().map(|database| {
            Ok(Summary {
                state: database.state(),
                version: hash(LIST, "version", &database.version)?,
                name: database.name,
            })
        });
        Ok(Self { databases: databases.collect::<Result<_, WireError>>()? })
    }
}
