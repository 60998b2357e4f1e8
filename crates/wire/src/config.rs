use bytes::Bytes;
use prost::Message;
use spirea_protocols::FileHash;

use crate::fields::{Repeated, check};
use crate::limits::{check_length, of_length};
pub use crate::proto::DatabaseState;
use crate::{FORMAT, Lengths, Limits, Version, WireError, check_format, hash, proto};

/// Maximum bytes of a configuration or a list of databases. A configuration has a base and a delta.
/// Each has a manifest of at most 4 MiB, and a second copy of the manifest's table and parameters.
pub const MAX_CONFIG_BYTES: u64 = 17 << 20;

const CONFIG: &str = "configuration";
const LIST: &str = "list of databases";
/// Field number of the versions in a configuration.
const VERSIONS: u32 = 8;
/// Maximum number of versions in a configuration.
const MAX_VERSIONS: usize = 256;
/// Maximum number of databases in a list.
const MAX_DATABASES: usize = 4096;
/// Field number of the databases in a list.
const DATABASES: u32 = 2;

/// Description of a database that a client needs for queries. The client must check, against the
/// parameters in it, that its parts belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The database's name.
    pub name: String,
    /// The version that this describes.
    pub version: Version,
    /// The table as it was built.
    pub base: PartConfig,
    /// The changes since the base was built, if any.
    pub delta: Option<PartConfig>,
    /// Maximum number of look-ups in a request, at least 1.
    pub max_batch: usize,
    /// Party of this server, 0 or 1, in a protocol with two servers; `None` if the protocol has
    /// one.
    pub party: Option<u8>,
    /// The versions that answer now, newest first.
    pub versions: Vec<Version>,
    /// The operator's signature of the version, as JSON; empty if it is not signed.
    pub signature: Bytes,
    /// Recommended maximum bytes of a request, so that proxies let it pass; 0 if the server
    /// recommends none.
    pub request_bytes: u64,
}

/// Description of a part of a database that a client needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartConfig {
    /// The protocol and its parameters, as JSON.
    pub protocol_params: Bytes,
    /// The table, as JSON.
    pub table: Bytes,
    /// Bytes of the hint; 0 if there is none.
    pub hint_bytes: u64,
    /// BLAKE3 of the hint.
    pub hint_blake3: FileHash,
    /// Lengths of queries, answers and keys.
    pub lengths: Lengths,
    /// Manifest of its snapshot, as JSON; empty if the server does not send it.
    pub manifest: Bytes,
}

impl PartConfig {
    fn to_message(&self) -> proto::Part {
        proto::Part {
            protocol_params: self.protocol_params.clone(),
            table: self.table.clone(),
            hint: Some(proto::Hint {
                bytes: self.hint_bytes,
                blake3: Bytes::copy_from_slice(self.hint_blake3.as_bytes()),
            }),
            query_bytes: self.lengths.query_bytes as u64,
            answer_bytes: self.lengths.answer_bytes as u64,
            keys_bytes: self.lengths.keys_bytes as u64,
            manifest: self.manifest.clone(),
        }
    }

    fn from_message(message: proto::Part) -> Result<Self, WireError> {
        let hint = message.hint.ok_or_else(|| WireError::malformed(CONFIG, "it describes no hint"))?;
        let length = |field, bytes| {
            usize::try_from(bytes)
                .map_err(|_| WireError::malformed(CONFIG, format!("{field} is out of range")))
        };
        Ok(Self {
            hint_blake3: hash(CONFIG, "the hint's hash", &hint.blake3)?,
            hint_bytes: hint.bytes,
            lengths: Lengths {
                query_bytes: length("query_bytes", message.query_bytes)?,
                answer_bytes: length("answer_bytes", message.answer_bytes)?,
                keys_bytes: length("keys_bytes", message.keys_bytes)?,
            },
            protocol_params: message.protocol_params,
            table: message.table,
            manifest: message.manifest,
        })
    }
}

impl Config {
    /// Returns the lengths of requests and responses.
    pub fn limits(&self) -> Limits {
        Limits {
            base: self.base.lengths,
            delta: self.delta.as_ref().map(|delta| delta.lengths),
            max_batch: self.max_batch,
        }
    }

    /// Encodes the configuration as a message.
    pub fn encode(&self) -> Vec<u8> {
        proto::DatabaseConfig {
            format: FORMAT,
            name: self.name.clone(),
            version: Bytes::copy_from_slice(self.version.as_bytes()),
            base: Some(self.base.to_message()),
            delta: self.delta.as_ref().map(PartConfig::to_message),
            max_batch: u32::try_from(self.max_batch).unwrap_or(u32::MAX),
            party: self.party.map_or(0, |party| u32::from(party) + 1),
            versions: self
                .versions
                .iter()
                .map(|version| Bytes::copy_from_slice(version.as_bytes()))
                .collect(),
            signature: self.signature.clone(),
            request_bytes: self.request_bytes,
        }
        .encode_to_vec()
    }

    /// Decodes a configuration.
    ///
    /// # Errors
    /// [`WireError::TooLarge`] beyond [`MAX_CONFIG_BYTES`], [`WireError::Format`] if it names
    /// another format, [`WireError::Malformed`] if the bytes are not a configuration, lack a part,
    /// or name more than 256 versions.
    pub fn decode(body: Bytes) -> Result<Self, WireError> {
        check_length(body.len(), MAX_CONFIG_BYTES)?;
        let whole = of_length("a version", size_of::<Version>());
        check(CONFIG, &body, &[Repeated { number: VERSIONS, most: MAX_VERSIONS, accepts: &whole }])?;
        let message = proto::DatabaseConfig::decode(body)
            .map_err(|error| WireError::malformed(CONFIG, error.to_string()))?;
        check_format(message.format)?;
        if message.max_batch == 0 {
            return Err(WireError::malformed(CONFIG, "max_batch is 0"));
        }
        let party = match message.party {
            0 => None,
            1 => Some(0),
            2 => Some(1),
            _ => return Err(WireError::malformed(CONFIG, "it names a party beyond the second")),
        };
        let base = message.base.ok_or_else(|| WireError::malformed(CONFIG, "it describes no base"))?;
        let versions = message.versions.iter().map(|version| hash(CONFIG, "a version", version));
        Ok(Self {
            version: hash(CONFIG, "version", &message.version)?,
            base: PartConfig::from_message(base)?,
            delta: message.delta.map(PartConfig::from_message).transpose()?,
            max_batch: message.max_batch as usize,
            party,
            versions: versions.collect::<Result<_, _>>()?,
            signature: message.signature,
            request_bytes: message.request_bytes,
            name: message.name,
        })
    }
}

/// A database in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Its name.
    pub name: String,
    /// State of the database.
    pub state: DatabaseState,
    /// Version that the database has or will have.
    pub version: Version,
}

/// The databases of a server.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Listing {
    /// The databases, by name.
    pub databases: Vec<Summary>,
}

impl Listing {
    /// Encodes the list as a message.
    pub fn encode(&self) -> Vec<u8> {
        let databases = self.databases.iter().map(|database| proto::DatabaseSummary {
            name: database.name.clone(),
            state: database.state.into(),
            version: Bytes::copy_from_slice(database.version.as_bytes()),
        });
        proto::DatabaseList { format: FORMAT, databases: databases.collect() }.encode_to_vec()
    }

    /// Decodes a list.
    ///
    /// # Errors
    /// [`WireError::TooLarge`] beyond [`MAX_CONFIG_BYTES`], [`WireError::Format`] if it names
    /// another format, [`WireError::Malformed`] if the bytes are not a list, or the list has more
    /// than 4096 databases.
    pub fn decode(body: Bytes) -> Result<Self, WireError> {
        check_length(body.len(), MAX_CONFIG_BYTES)?;
        check(LIST, &body, &[Repeated { number: DATABASES, most: MAX_DATABASES, accepts: &|_| Ok(()) }])?;
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
