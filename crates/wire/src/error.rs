use crate::FORMAT;

/// Why bytes are not a message. No variant carries anything of a query's content.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The body is longer than any valid one.
    #[error("{bytes} bytes where {limit} are the most")]
    TooLarge {
        /// Its length.
        bytes: u64,
        /// The most that it may be.
        limit: u64,
    },
    /// The envelope has another format, or none.
    #[error("the envelope has format {found}; this side speaks {FORMAT}: update the older of the two")]
    Format {
        /// The format it names; 0 if none.
        found: u32,
    },
    /// The bytes are not the message, or not as its parameters say.
    #[error("malformed {message}: {detail}")]
    Malformed {
        /// The message that was expected.
        message: &'static str,
        /// What is wrong with it.
        detail: String,
    },
}

impl WireError {
    pub(crate) fn malformed(message: &'static str, detail: impl Into<String>) -> Self {
        Self::Malformed { message, detail: detail.into() }
    }
}
