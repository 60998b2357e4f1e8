use bytes::Bytes;
use spirea_protocols::registry::ProtocolParams;
use spirea_protocols::signature::{Pin, Signature};
use spirea_protocols::{FileHash, Party, ProtocolError, Sizes, Table, TableKind, delta};
use spirea_wire::{Config, Lengths, Limits, PartConfig, Version};

use crate::ClientError;
use crate::forms::check;
use crate::manifest::Manifest;

/// A part of a database, its base or its delta, parsed from untrusted bytes and checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartDescription {
    params: ProtocolParams,
    table: Table,
    hint_bytes: u64,
    hint_blake3: FileHash,
    /// Version of the part's snapshot, if a manifest was sent that agrees with the rest.
    snapshot: Option<Version>,
}

impl PartDescription {
    /// Parses the base of the dataset `name`, or its delta to the base `delta_of`.
    fn parse(name: &str, delta_of: Option<Version>, config: &PartConfig) -> Result<Self, ClientError> {
        let wrong = |detail: String| Err(ClientError::WrongConfig(detail));
        let invalid = |error: &dyn std::fmt::Display| ClientError::WrongConfig(error.to_string());
        let params = ProtocolParams::from_json(&config.protocol_params).map_err(|error| invalid(&error))?;
        let table: Table = serde_json::from_slice(&config.table).map_err(|error| invalid(&error))?;
        table.validate().map_err(|error| invalid(&error))?;
        if let Some(form) = &table.key_form {
            check(form)?;
        }
        if table.records != params.records() || table.record_bytes() != params.record_bytes() {
            return wrong("the table's records are not the protocol's".into());
        }
        let Sizes { query_bytes, answer_bytes, hint_bytes, keys_bytes } = params.sizes;
        if config.lengths != (Lengths { query_bytes, answer_bytes, keys_bytes })
            || config.hint_bytes != hint_bytes
        {
            return wrong("its lengths are not those of its parameters".into());
        }
        let hint_blake3 = config.hint_blake3;
        let snapshot = match &config.manifest[..] {
            [] => None,
            json => {
                let manifest: Manifest = serde_json::from_slice(json).map_err(|error| invalid(&error))?;
                if !manifest.is_of(name, delta_of, (&table, &params), (hint_bytes, &hint_blake3)) {
                    return wrong("a manifest says other than what stands beside it".into());
                }
                Some(blake3::hash(json).into())
            }
        };
        Ok(Self { params, table, hint_bytes, hint_blake3, snapshot })
    }

    /// Returns the protocol and its parameters.
    pub fn params(&self) -> &ProtocolParams {
        &self.params
    }

    /// Returns the table.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Returns the length of the hint, in bytes.
    pub fn hint_bytes(&self) -> u64 {
        self.hint_bytes
    }

    /// Returns the BLAKE3 hash of the hint.
    pub fn hint_blake3(&self) -> &FileHash {
        &self.hint_blake3
    }

    /// Returns the hint if `bytes` have its length and hash.
    ///
    /// # Errors
    /// [`ClientError::HintCorrupted`] if they do not.
    pub fn hint(&self, bytes: Vec<u8>) -> Result<Hint, ClientError> {
        let same =
            bytes.len() as u64 == self.hint_bytes && FileHash::from(blake3::hash(&bytes)) == self.hint_blake3;
        if same { Ok(Hint { bytes, blake3: self.hint_blake3 }) } else { Err(ClientError::HintCorrupted) }
    }
}

/// The configuration of a version of a database, parsed from untrusted bytes and checked. The
/// parameters and tables of its parts are valid and belong together, and they agree with the
/// server's statements about lengths and its party.
#[derive(Clone, Debug)]
pub struct Description {
    name: String,
    version: Version,
    base: PartDescription,
    delta: Option<PartDescription>,
    limits: Limits,
    /// Maximum bytes of a request.
    request_bytes: u64,
    party: Option<Party>,
    versions: Vec<Version>,
    signature: Option<Signature>,
    /// True if the server sent the manifests whose hash is the version.
    bound: bool,
}

impl Description {
    /// Parses the configuration of the database called `name` from the bytes of its message.
    ///
    /// # Errors
    /// [`ClientError::Wire`] if the bytes are not such a message, [`ClientError::WrongConfig`] if
    /// its parts do not belong together.
    pub fn parse(name: &str, message: Bytes) -> Result<Self, ClientError> {
        let config = Config::decode(message)?;
        let wrong = |detail: &str| Err(ClientError::WrongConfig(detail.into()));
        if config.name != name {
            return wrong("it belongs to another database");
        }
        let base = PartDescription::parse(name, None, &config.base)?;
        let delta = config
            .delta
            .as_ref()
            .map(|delta| PartDescription::parse(name, base.snapshot, delta))
            .transpose()?;
        let bound = match (base.snapshot, delta.as_ref().map(|delta| delta.snapshot)) {
            (Some(base), None) => Some(delta::version(base, None)),
            (Some(base), Some(Some(delta))) => Some(delta::version(base, Some(delta))),
            _ => None,
        };
        if bound.is_some_and(|version| version != config.version) {
            return wrong("its version is not that of its manifests");
        }
        let proven = [&base].into_iter().chain(&delta).any(|part| part.table.proofs.is_some());
        if proven && bound.is_none() {
            return wrong(
                "its records carry inclusion proofs, and no manifest binds their roots to its version",
            );
        }
        if let Some(PartDescription { params, table, .. }) = &delta {
            let Table { fields, types, key_form, .. } = &base.table;
            let is_alike = (&table.fields, &table.types, &table.key_form) == (fields, types, key_form);
            if table.kind != TableKind::Keyword || !is_alike {
                return wrong("its delta is not one of its base");
            }
            if params.parties != base.params.parties {
                return wrong("its delta has another number of servers than its base");
            }
        }
        let invalid = |error: &dyn std::fmt::Display| ClientError::WrongConfig(error.to_string());
        let party = config.party.map(Party::try_from).transpose().map_err(|error| invalid(&error))?;
        if party.is_some() != (base.params.parties > 1) {
            return wrong("its protocol has no such party");
        }
        let limits = config.limits();
        let signature = match &config.signature[..] {
            [] => None,
            json => Some(Signature::from_json(json).map_err(|error| invalid(&error))?),
        };
        Ok(Self {
            name: config.name,
            version: config.version,
            base,
            delta,
            limits,
            request_bytes: bounded(config.request_bytes),
            party,
            versions: config.versions,
            signature,
            bound: bound.is_some(),
        })
    }

    /// Combines the descriptions of all servers, in the order of their parties, into the one on
    /// which they agree. So a single server cannot choose the client's parameters: both servers
    /// must state the same parameters.
    ///
    /// # Errors
    /// [`ClientError::BadAddress`] unless they are the servers of the protocol, each once;
    /// [`ClientError::DifferentSnapshots`] if the two differ in version, parameters or table.
    pub fn agree(descriptions: Vec<Self>) -> Result<Self, ClientError> {
        for description in &descriptions {
            let text = match (description.base.params.parties, descriptions.len()) {
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

    /// Checks that `other` is the other party with the same snapshot, and lowers the batch limit to
    /// the smaller of both.
    fn agree_with(&mut self, other: &Self) -> Result<(), ClientError> {
        if let (Some(party), true) = (self.party, self.party == other.party) {
            return Err(ClientError::BadAddress(format!(
                "both addresses are of {party}: one of them must be the address of party {}",
                1 - party.number()
            )));
        }
        if self.version != other.version || self.base != other.base || self.delta != other.delta {
            return Err(ClientError::DifferentSnapshots { versions: [self.version, other.version] });
        }
        self.limits.max_batch = self.limits.max_batch.min(other.limits.max_batch);
        self.request_bytes = self.request_bytes.min(other.request_bytes);
        Ok(())
    }

    /// Returns the newest version that the servers of all descriptions answer, if there is one.
    pub fn common_version(descriptions: &[Self]) -> Option<Version> {
        let (first, others) = descriptions.split_first()?;
        let everywhere = |version: &&Version| others.iter().all(|other| other.versions.contains(version));
        first.versions.iter().find(everywhere).copied()
    }

    /// Returns the database's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the party that gave this description; `None` if the protocol has one server.
    pub fn party(&self) -> Option<Party> {
        self.party
    }

    /// Returns the version.
    pub fn version(&self) -> &Version {
        &self.version
    }

    /// Returns the base: the table as it was built.
    pub fn base(&self) -> &PartDescription {
        &self.base
    }

    /// Returns the delta, if anything has changed since.
    pub fn delta(&self) -> Option<&PartDescription> {
        self.delta.as_ref()
    }

    /// Returns the operator's signature, if there is one. It proves nothing before it is verified:
    /// see [`Description::accept`].
    pub fn signature(&self) -> Option<&Signature> {
        self.signature.as_ref()
    }

    /// Accepts the version if the pinned key vouches for it and for everything described here, and
    /// records it in `pin`.
    ///
    /// # Errors
    /// [`ProtocolError::Untrusted`] if the key does not vouch for it, or if the server does not
    /// send the manifests whose hash is the version.
    pub fn accept(&self, pin: &mut Pin) -> Result<(), ProtocolError> {
        if !self.bound {
            return Err(ProtocolError::Untrusted(format!(
                "the server does not show the manifests of {}, without which the signature of a version vouches for nothing: ask its operator for a newer server, or do not trust this one",
                self.name
            )));
        }
        pin.accept(&self.name, &self.version, self.signature.as_ref())
    }

    /// Returns the base, then the delta.
    pub fn parts(&self) -> impl Iterator<Item = &PartDescription> {
        [&self.base].into_iter().chain(&self.delta)
    }

    /// Returns the base's protocol and its parameters.
    pub fn params(&self) -> &ProtocolParams {
        &self.base.params
    }

    /// Returns the base's table.
    pub fn table(&self) -> &Table {
        &self.base.table
    }

    /// Returns the lengths of queries, answers and evaluation keys, and the maximum number of
    /// look-ups in a request.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Returns the maximum bytes of a request that has several look-ups, or keys that can be sent
    /// in pieces.
    pub fn request_bytes(&self) -> u64 {
        self.request_bytes
    }
}

/// Bounds of [`Description::request_bytes`]. The client sets the lower bound itself, so that no
/// server can make it send many tiny requests.
const LEAST_REQUEST_BYTES: u64 = 256 << 10;
const MOST_REQUEST_BYTES: u64 = 64 << 20;

/// Returns the maximum bytes of a request, given the number in the server's configuration, which is
/// 0 if the server sets none.
fn bounded(request_bytes: u64) -> u64 {
    match request_bytes {
        0 => MOST_REQUEST_BYTES,
        bytes => bytes.clamp(LEAST_REQUEST_BYTES, MOST_REQUEST_BYTES),
    }
}

/// A hint with a verified hash, made by [`PartDescription::hint`].
pub struct Hint {
    pub(crate) bytes: Vec<u8>,
    pub(crate) blake3: FileHash,
}

#[cfg(test)]
mod tests;
