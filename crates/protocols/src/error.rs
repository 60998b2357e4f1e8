use spirea_backend::BackendError;
use spirea_lattice::LatticeError;
use spirea_math::random::NoEntropy;

/// Result of a protocol's function.
pub type Result<T, E = ProtocolError> = std::result::Result<T, E>;

/// Reason why a protocol refused or failed. No variant carries any of a query's content.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// Bytes that do not have the form that the parameters give: the sender's fault.
    #[error("malformed {what}: {detail}")]
    Malformed {
        /// Kind of the bytes: `query`, `answer`, `hint`, `keys`, `parameters`, `table`.
        what: &'static str,
        /// The fault.
        detail: String,
    },
    /// A record whose checksum does not match: the answer is wrong, and its content is withheld.
    #[error(
        "the answer failed its checksum and was discarded; a database or a hint is damaged, the two do not belong together, or one of two servers answers wrongly, and nothing tells which: download the hint again if there is one, then tell the operators"
    )]
    Corrupted,
    /// An intact record that is not the one committed to by the table's roots; its content is
    /// withheld.
    #[error(
        "the answer's record is whole, but its inclusion proof fails: it is not the one that the operator published, so the server lies or has been tampered with; do not trust it, and tell the operator"
    )]
    Unproven,
    /// An index or key that cannot be looked up.
    #[error("{0}")]
    BadRequest(String),
    /// A version without a valid signature of the pinned key, or older than a version seen before.
    #[error("{0}")]
    Untrusted(String),
    /// Failure to get randomness for a secret.
    #[error(transparent)]
    NoEntropy(#[from] NoEntropy),
    /// Failure to write precomputed data.
    #[error("writing what was computed of the database: {0}")]
    Write(std::io::Error),
    /// Timeout of machines that hold a part of the database.
    #[error("a part of the database did not answer: {0}; try again")]
    Unanswered(String),
    /// Failure of the backend.
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
