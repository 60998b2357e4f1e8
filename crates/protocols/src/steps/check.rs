//! Checks of requests and answers before they are used.

use spirea_math::secret::declassify;

use crate::query::Query;
use crate::{ProtocolError, Sizes};

/// Refuses an index beyond the last record.
///
/// # Errors
/// [`ProtocolError::BadRequest`].
pub(crate) fn check_index(index: u64, records: u64) -> Result<(), ProtocolError> {
    if declassify(index < records, "an index without a record is refused before anything is sent") {
        return Ok(());
    }
    let last = records - 1;
    Err(ProtocolError::BadRequest(format!("no such record: the table has records 0 to {last}")))
}

/// Returns the answers of `N` parties. Refuses another number of answers, and answers of another
/// size.
///
/// # Errors
/// [`ProtocolError::Malformed`].
pub(crate) fn check_answers<'a, const N: usize>(
    answers: &[&'a [u8]],
    sizes: Sizes,
) -> Result<[&'a [u8]; N], ProtocolError> {
    let expected = sizes.answer_bytes;
    let Ok(answers) = <[&[u8]; N]>::try_from(answers) else {
        let detail = format!("answers of {} servers where the protocol has {N}", answers.len());
        return Err(ProtocolError::malformed("answer", detail));
    };
    match answers.iter().find(|answer| answer.len() != expected) {
        None => Ok(answers),
        Some(answer) => {
            let detail = format!("it has {} bytes where the parameters say {expected}", answer.len());
            Err(ProtocolError::malformed("answer", detail))
        }
    }
}

/// Refuses batches that do not have 1 to `most` queries, and queries of another size.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_as_many_as_the_parties_and_as_long_as_the_parameters_say() {
        let sizes = Sizes { query_bytes: 0, answer_bytes: 2, hint_bytes: 0, keys_bytes: 0 };
        let answer = &[1, 2][..];
        assert_eq!(check_answers::<1>(&[answer], sizes).unwrap(), [answer]);
        assert_eq!(check_answers::<2>(&[answer; 2], sizes).unwrap(), [answer; 2]);
        for count in [0, 1, 3] {
            let error = check_answers::<2>(&vec![answer; count], sizes).unwrap_err().to_string();
            assert!(error.contains(&format!("answers of {count} servers")), "{error}");
        }
        for wrong in [&[][..], &[1], &[1, 2, 3]] {
            let error = check_answers::<2>(&[answer, wrong], sizes).unwrap_err();
            assert!(matches!(error, ProtocolError::Malformed { what: "answer", .. }));
        }
    }
}
