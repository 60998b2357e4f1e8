use std::path::PathBuf;

use spirea_math::random::NoEntropy;
use spirea_protocols::{Party, PrfKind, ProtocolError};
use spirea_wire::{Refusal, Version, WireError};

use crate::status::explained;

/// Error of a look-up, with a remedy. No error means that a key is absent, and none contains the
/// key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// An address or a name is invalid, or there are too few or too many addresses.
    #[error("{0}")]
    BadAddress(String),
    /// An option is invalid.
    #[error("{0}")]
    BadOption(String),
    /// The server's response is not the expected message.
    #[error("the server's response cannot be used: {0}; is this the address of a Spirea server?")]
    Wire(#[from] WireError),
    /// The parts of a configuration do not belong together.
    #[error("the database's configuration contradicts itself: {0}; tell the server's operator")]
    WrongConfig(String),
    /// The hint is longer than the client allows.
    #[error(
        "the hint has {bytes} bytes, above this client's limit of {limit}; raise the limit to download it"
    )]
    HintTooLarge {
        /// Length of the hint, in bytes.
        bytes: u64,
        /// Limit, in bytes.
        limit: u64,
    },
    /// The hint's bytes do not have the hash that the configuration names.
    #[error(
        "the hint does not have the hash that the configuration names, and was discarded; something between client and server changes bytes, or the server's copy is damaged: try another network, then tell the server's operator"
    )]
    HintCorrupted,
    /// The database kept changing while its configuration and hint were fetched.
    #[error("the database changed while it was being fetched; try again")]
    Changing,
    /// The server refuses queries for the version that it has just named.
    #[error(
        "the server refuses queries for the version that it says it has; a cache between client and server may hold an old configuration: try again later, then tell the server's operator"
    )]
    StillStale,
    /// The server does not know the keys that it has just accepted.
    #[error(
        "the server does not keep the evaluation keys that it was given; it may have too little room for them: try again later, then tell the server's operator"
    )]
    KeysForgotten,
    /// The secret for these answers was erased after another answer that did not verify.
    #[error(
        "another answer to this client did not verify, and the secret that this one could be read with was erased; ask again"
    )]
    KeysEnded,
    /// The server names the keys by a wrong hash.
    #[error(
        "the server received other evaluation keys than were sent; something between client and server changes bytes: try another network, then tell the server's operator"
    )]
    KeysChanged,
    /// The server refused or failed, with its reason.
    #[error("the server refused ({status}): {}; {}", .refusal.message, .refusal.remedy)]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The server's refusal.
        refusal: Refusal,
    },
    /// The response cannot be a Spirea server's. It comes from something between client and server,
    /// or from another kind of server.
    #[error("{}", explained(*.status))]
    UnexpectedStatus {
        /// The status.
        status: u16,
    },
    /// The server cannot be reached.
    #[error("cannot reach the server: {0}; check the address and that the server runs")]
    Unreachable(String),
    /// The server's host name has no address.
    #[error("the server's name has no address: {0}; check the name, and that this machine resolves others")]
    UnknownHost(String),
    /// The connection is not known to lead to the intended server; with a remedy.
    #[error("the server cannot be trusted to be the one that was meant: {0}")]
    Untrusted(String),
    /// The other end speaks another protocol.
    #[error(
        "what answers does not speak HTTP: {0}; if the port is for TLS, give an address that begins with https://"
    )]
    Unusable(String),
    /// The proxy of the environment refuses to connect to the server.
    #[error(
        "no way to the server: {0}; check what the proxy wants, such as a login, or name the server in NO_PROXY to reach it directly"
    )]
    Proxy(String),
    /// The server did not respond in time.
    #[error("the server took too long: {0}; try again, or allow more time")]
    TimedOut(String),
    /// The connection broke.
    #[error("the connection broke: {0}; try again")]
    Broken(String),
    /// The cache cannot be used.
    #[error("{path}: cannot {action}: {source}; name another cache folder or free space there", path = .path.display())]
    Cache {
        /// The file or folder.
        path: PathBuf,
        /// The attempted operation.
        action: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
    /// The look-up is invalid, or an answer is wrong and was withheld.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// The caller stopped the call.
    #[error("stopped before it was done")]
    Stopped,
    /// Two servers serve different snapshots.
    #[error(
        "party 0 serves version {}, party 1 serves {}: one of them has not been updated yet, or they serve different data; try again when both serve the same snapshot", short(&.versions[0]), short(&.versions[1])
    )]
    DifferentSnapshots {
        /// Versions of party 0 and party 1.
        versions: [Version; 2],
    },
    /// The caller must accept the database's pseudorandom function first.
    #[error(
        "this database is asked under the pseudorandom function {prf}: {} What the servers learn of a look-up rests on it: ask their operators for another function, or accept this one (--accept-weak-prf, WeakPrf::Accept)", .prf.trust()
    )]
    WeakPrf {
        /// The function.
        prf: PrfKind,
    },
    /// One of several addresses failed: an address of a single server, or an address of one of two
    /// servers before that server has named its party.
    #[error("{url}: {cause}")]
    Server {
        /// Address.
        url: String,
        /// The error at this address.
        cause: Box<ClientError>,
    },
    /// One of two servers failed.
    #[error("{party} ({url}): {cause}")]
    Party {
        /// The party.
        party: Party,
        /// Address.
        url: String,
        /// The error at this server.
        cause: Box<ClientError>,
    },
    /// The keys of the table have a form, and this client was built without rules for forms.
    #[error(
        "the table's keys have a form, whose rules this client was built without: use the command, or the packages for Python or JavaScript"
    )]
    NoRules,
    /// The operating system gave no randomness.
    #[error(transparent)]
    NoEntropy(#[from] NoEntropy),
}

impl ClientError {
    /// Returns the error itself, without the server and the address.
    pub fn cause(&self) -> &Self {
        match self {
            Self::Server { cause, .. } | Self::Party { cause, .. } => cause,
            _ => self,
        }
    }

    /// Returns the address that failed, if there are two servers or several addresses.
    pub fn url(&self) -> Option<&str> {
        match self {
            Self::Server { url, .. } | Self::Party { url, .. } => Some(url),
            _ => None,
        }
    }
}

/// Abbreviates a version for messages.
fn short(version: &Version) -> String {
    format!("{version:.8}…")
}
