use crate::WireError;

/// What of the lengths of requests and responses is known from a database's parameters alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a query.
    pub query_bytes: usize,
    /// Bytes of an answer.
    pub answer_bytes: usize,
    /// The most queries in a request, at least 1.
    pub max_batch: usize,
    /// Bytes of a client's evaluation keys; 0 if the protocol needs none.
    pub keys_bytes: usize,
}

impl Limits {
    /// The most that everything of a message but its queries or answers takes, with room for fields that
    /// later versions may add.
    const ENVELOPE_BYTES: u64 = 1024;
    /// The most that a field's key and length take.
    const FIELD_BYTES: u64 = 11;

    /// The most bytes of a valid request.
    pub fn request_bytes(&self) -> u64 {
        Self::message_bytes(self.max_batch, self.query_bytes)
    }

    /// The most bytes of a valid upload of keys.
    pub fn keys_request_bytes(&self) -> u64 {
        Self::message_bytes(1, self.keys_bytes)
    }

    /// The most bytes of a valid response to `queries` queries.
    pub fn response_bytes(&self, queries: usize) -> u64 {
        Self::message_bytes(queries, self.answer_bytes)
    }

    fn message_bytes(count: usize, bytes: usize) -> u64 {
        (bytes as u64)
            .saturating_add(Self::FIELD_BYTES)
            .saturating_mul(count as u64)
            .saturating_add(Self::ENVELOPE_BYTES)
    }
}

/// Checks the length of a body before anything else is done with it.
pub(crate) fn check_length(bytes: usize, limit: u64) -> Result<(), WireError> {
    let bytes = bytes as u64;
    if bytes > limit { Err(WireError::TooLarge { bytes, limit }) } else { Ok(()) }
}

/// Accepts the length that the parameters say, for [`fields::check`](crate::fields::check).
pub(crate) fn of_length(part: &'static str, expected: usize) -> impl Fn(usize) -> Result<(), String> {
    move |length| {
        if length == expected {
            Ok(())
        } else {
            Err(format!("{part} of {length} bytes where the parameters say {expected}"))
        }
    }
}
