/// Error of a table, a configuration or a request. No variant contains any of a query's content.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AppleError {
    /// The message is longer than any valid one.
    #[error("a {message} of {bytes} bytes, where {limit} are the most")]
    TooLarge {
        /// The message that was expected.
        message: &'static str,
        /// Its length.
        bytes: usize,
        /// Maximum length.
        limit: usize,
    },
    /// The bytes are not the message, or do not agree with the parameters.
    #[error("malformed {message}: {detail}")]
    Malformed {
        /// The message that was expected.
        message: &'static str,
        /// Description of the error.
        detail: String,
    },
    /// The message asks for a part of the protocol that this server does not have.
    #[error("{0} is not supported")]
    Unsupported(&'static str),
    /// No shard has this number.
    #[error("there is no shard {index}: the use case has {shards}")]
    UnknownShard {
        /// Number that the request names.
        index: u32,
        /// Number of shards.
        shards: usize,
    },
    /// The request was made for another configuration. The client must fetch the current one.
    #[error("the configuration of the request is not the current one")]
    UnknownConfiguration,
    /// The server has no evaluation key for the request. The client must upload one.
    #[error("Evaluation key not found")]
    UnknownEvaluationKey,
    /// A table cannot be built.
    #[error("no table can be built: {0}")]
    Table(String),
    /// The backend could not compute.
    #[error("no response can be computed: {0}")]
    Backend(String),
}

impl AppleError {
    pub(crate) fn malformed(message: &'static str, detail: impl Into<String>) -> Self {
        Self::Malformed { message, detail: detail.into() }
    }
}
