//! Cursors: positions in the stream of a producer of changes.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Position in a producer's stream of changes: a text that only the producer interprets, of at most
/// [`Cursor::MOST_BYTES`] bytes in UTF-8.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Cursor(String);

impl Cursor {
    /// Maximum length in bytes.
    pub const MOST_BYTES: usize = 256;

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A text is too long for a cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a cursor of {0} bytes; it may have {most}", most = Cursor::MOST_BYTES)]
pub struct LongCursor(usize);

impl TryFrom<String> for Cursor {
    type Error = LongCursor;

    fn try_from(text: String) -> Result<Self, LongCursor> {
        if text.len() > Self::MOST_BYTES { Err(LongCursor(text.len())) } else { Ok(Self(text)) }
    }
}

impl From<Cursor> for String {
    fn from(cursor: Cursor) -> Self {
        cursor.0
    }
}

impl fmt::Display for Cursor {
    /// Writes the text in quotes, without control characters.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

/// The cursor that changes follow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum After {
    /// Any cursor: the changes do not come from an ordered stream.
    #[default]
    Any,
    /// This cursor, or `None` for the first changes of a stream. If the current version has another
    /// cursor, the changes are refused.
    Exactly(Option<Cursor>),
}

/// Formats a cursor, or its absence, for messages.
pub(crate) fn named(cursor: Option<&Cursor>) -> String {
    cursor.map_or_else(|| "no cursor".into(), |cursor| format!("the cursor {cursor}"))
}
