//! What is checked of requests and answers before anything is done with them.

use spirea_math::secret::declassify;

use crate::index::Query;
use crate::{ProtocolError, Sizes};

/// Refuses an index that no record has.
///
/// # Errors
/// [`ProtocolError::BadRequest`].
pub(crate) fn check_index(index: u64, records: u64) -> Result<(), ProtocolError> {
    if declassify(index < records, "an index that no record has is refused before anything is sent") {
        return Ok(());
    }
    let last = records - 1;
    Err(ProtocolError::BadRequest(format!("no such record: the table has records 0 to {last}")))
}

/// Refuses an answer of another size.
///
/// # Errors
/// [`ProtocolError::Malformed`].
pub(crate) fn check_answer(answer: &[u8], sizes: Sizes) -> Result<(), ProtocolError> {
    let expected = sizes.answer_bytes;
    if answer.len() == expected {
        return Ok(());
    }
    let detail = format!("it has {} bytes where the parameters say {expected}", answer.len());
    Err(ProtocolError::malformed("answer", detail))
}

/// Refuses batches of another number of queries than 1 to `most`, and queries of another size.
///
/// # Errors
/// [`ProtocolError::Malformed`].
pub(crate) fn check_batch(queries: &[Query<'_>], bytes: usize, most: usize) -> Result<(), ProtocolError> {
    if queries.is_empty() || queries.len() > most {
        let detail = format!("a batch has 1 to {most} queries, not {}", queries.len());
        return Err(ProtocolError::malformed("query", detail));
    }
    match queries.iter().find(|query| query.bytes.len() != bytes) {
        None => Ok(()),
        Some(query) => {
            let detail = format!("a query has {bytes} bytes, not {}", query.bytes.len());
            Err(ProtocolError::malformed("query", detail))
        }
    }
}
