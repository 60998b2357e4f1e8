use spirea_backend::BackendError;
use spirea_lattice::LatticeError;
use spirea_math::random::NoEntropy;

/// What a protocol gives, or why it refused or failed.
pub type Result<T, E = ProtocolError> = std::result::Result<T, E>;

/// Why a protocol refused or failed. No variant carries anything of a query's content.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// Bytes that are not what the parameters say: the sender's fault.
    #[error("malformed {what}: {detail}")]
    Malformed {
        /// What was read: `query`, `answer`, `hint`, `keys`, `parameters`, `table`.
        what: &'static str,
        /// What is wrong with it.
        detail: String,
    },
    /// A record's checksum does not match: the answer is wrong and its content is withheld.
    #[error(
        "the answer failed its checksum and was discarded; a database or a hint is damaged, the two do not belong together, or one of two servers answers wrongly, and nothing tells which: download the hint again if there is one, then tell the operators"
    )]
    Corrupted,
    /// A record that is whole, and not the one that the table's roots stand for: its content is withheld.
    #[error(
        "the answer's record is whole, but its inclusion proof fails: it is not the one that the operator published, so the server lies or has been tampered with; do not trust it, and tell the operator"
    )]
    Unproven,
    /// An index or key that cannot be asked for.
    #[error("{0}")]
    BadRequest(String),
    /// A version that the pinned key does not vouch for.
    #[error("{0}")]
    Untrusted(String),
    /// No randomness for a secret.
    #[error(transparent)]
    NoEntropy(#[from] NoEntropy),
    /// What was computed could not be written.
    #[error("writing what was computed of the database: {0}")]
    Write(std::io::Error),
    /// Machines that have a part of the database did not answer in time.
    #[error("a part of the database did not answer: {0}; try again")]
    Unanswered(String),
    /// The backend failed.
    #[error(transparent)]
    Backend(#[from] BackendError),
}

impl From<LatticeError> for ProtocolError {
    fn from(error: LatticeError) -> Self {
        Self::Malformed { what: error.what, detail: error.detail }
    }
}

impl ProtocolError {
    pub(crate) fn malformed(what: &'static str, detail: impl Into<String>) -> Self {
        Self::Malformed { what, detail: detail.into() }
    }
}
