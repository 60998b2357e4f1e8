use crate::WireError;

/// A part of a version of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The table as it was built.
    Base,
    /// The changes since the base was built.
    Delta,
}

/// Lengths that follow from the parameters of one part of a database, which is its base or its
/// delta.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lengths {
    /// Bytes of a query.
    pub query_bytes: usize,
    /// Bytes of an answer.
    pub answer_bytes: usize,
    /// Bytes of a client's evaluation keys; 0 if the protocol needs none.
    pub keys_bytes: usize,
}

/// Limits on the lengths of requests and responses, from the parameters of a database's version
/// alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Lengths of the base.
    pub base: Lengths,
    /// Lengths of the delta, if the version has one.
    pub delta: Option<Lengths>,
    /// Maximum number of look-ups in a request, at least 1.
    pub max_batch: usize,
}

impl Limits {
    /// Maximum bytes of a message apart from its queries or answers, with room for fields of later
    /// versions.
    const ENVELOPE_BYTES: u64 = 1024;
    /// Maximum bytes of a field's key and length.
    const FIELD_BYTES: u64 = 11;

    /// Iterates over the lengths of the base, then of the delta, if there is one.
    pub fn parts(&self) -> impl Iterator<Item = Lengths> {
        [self.base].into_iter().chain(self.delta)
    }

    /// Returns the lengths of one part.
    pub fn of(&self, part: Part) -> Option<Lengths> {
        match part {
            Part::Base => Some(self.base),
            Part::Delta => self.delta,
        }
    }

    /// Returns the maximum bytes of a valid request, with the keys that a client may send with its
    /// queries.
    pub fn request_bytes(&self) -> u64 {
        let queries = Self::message_bytes(self.max_batch, self.parts().map(|part| part.query_bytes));
        let keys = self.parts().map(|part| part.keys_bytes as u64).filter(|&bytes| bytes > 0);
        keys.map(|bytes| bytes.saturating_add(Self::FIELD_BYTES)).fold(queries, u64::saturating_add)
    }

    /// Returns the number of look-ups that fit in a request of at most `bytes` bytes without keys:
    /// at least one, and at most `max_batch`.
    pub fn look_ups_within(&self, bytes: u64) -> usize {
        let each = self.parts().map(|part| (part.query_bytes as u64).saturating_add(Self::FIELD_BYTES));
        let look_up = each.fold(0, u64::saturating_add);
        let fitting = bytes.saturating_sub(Self::ENVELOPE_BYTES) / look_up;
        usize::try_from(fitting).unwrap_or(usize::MAX).clamp(1, self.max_batch)
    }

    /// Returns the maximum bytes of a valid upload of keys.
    pub fn keys_request_bytes(&self) -> u64 {
        Self::message_bytes(1, self.parts().map(|part| part.keys_bytes).max().into_iter())
    }

    /// Returns the maximum bytes of a valid response to a request for `count` look-ups.
    pub fn response_bytes(&self, count: usize) -> u64 {
        Self::message_bytes(count, self.parts().map(|part| part.answer_bytes))
    }

    fn message_bytes(count: usize, parts: impl Iterator<Item = usize>) -> u64 {
        let each =
            |bytes: usize| (bytes as u64).saturating_add(Self::FIELD_BYTES).saturating_mul(count as u64);
        parts.map(each).fold(Self::ENVELOPE_BYTES, u64::saturating_add)
    }
}

/// Checks the length of a body before anything else is done with it.
pub(crate) fn check_length(bytes: usize, limit: u64) -> Result<(), WireError> {
    let bytes = bytes as u64;
    if bytes > limit { Err(WireError::TooLarge { bytes, limit }) } else { Ok(()) }
}

/// Returns a check, for [`fields::check`](crate::fields::check), that accepts only the length in
/// the parameters.
pub(crate) fn of_length(part: &'static str, expected: usize) -> impl Fn(usize) -> Result<(), String> {
    move |length| {
        if length == expected {
            Ok(())
        } else {
            Err(format!("{part} of {length} bytes where the parameters say {expected}"))
        }
    }
}
