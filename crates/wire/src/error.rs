use crate::FORMAT;

/// Error of bytes that are not a valid message. No variant contains any of a query's content.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The body is longer than any valid body.
    #[error("{bytes} bytes where {limit} are the most")]
    TooLarge {
        /// Its length.
        bytes: u64,
        /// Maximum length.
        limit: u64,
    },
    /// The envelope has another format, or none.
    #[error("the envelope has format {found}; this side speaks {FORMAT}: update the older of the two")]
    Format {
        /// Format that the envelope names; 0 if none.
        found: u32,
    },
    /// The bytes are not the message, or do not agree with its parameters.
    #[error("malformed {message}: {detail}")]
    Malformed {
        /// The message that was expected.
        message: &'static str,
        /// Description of the error.
        detail: String,
    },
}

impl WireError {
    pub(crate) fn malformed(message: &'static str, detail: impl Into<String>) -> Self {
        Self::Malformed { message, detail: detail.into() }
    }
}
