//! Which shape of a database to choose, and which to refuse.

use crate::parameters::Failure;
use crate::{ProtocolError, Sizes};

/// The largest probability, bound or estimate, that a response decodes wrongly, as log2.
pub(crate) const MAX_FAILURE_LOG2: f64 = -60.0;
/// Bytes of an answer beyond which nobody would wait for it.
const MAX_ANSWER_BYTES: usize = 256 << 20;

/// An error of parameters.
pub(crate) fn malformed(detail: String) -> ProtocolError {
    ProtocolError::malformed("parameters", detail)
}

/// Refuses answers that nobody would wait for and failures that are too likely.
///
/// # Errors
/// [`ProtocolError::Malformed`].
pub(crate) fn validate_outcome(sizes: Sizes, failure: Option<Failure>) -> Result<(), ProtocolError> {
    if sizes.answer_bytes > MAX_ANSWER_BYTES {
        let bytes = sizes.answer_bytes;
        return Err(malformed(format!(
            "an answer would have {bytes} bytes, above {MAX_ANSWER_BYTES}: the protocol is not for records this large"
        )));
    }
    if let Some(failure) = failure.filter(|failure| failure.log2 > MAX_FAILURE_LOG2) {
        return Err(malformed(format!(
            "a response would decode wrongly with probability up to {failure}, above 2^-60"
        )));
    }
    Ok(())
}

/// What a look-up costs, in bytes that cross the network: by this, shapes are chosen.
///
/// Server work counts as the bytes that it reads from memory, at the rate at which a server scans while a
/// byte crosses the network (12 MB/s against 20 GB/s); a hint counts by its share of a thousand look-ups.
pub(crate) fn lookup_cost(sizes: Sizes, read_bytes: f64) -> f64 {
    (sizes.query_bytes + sizes.answer_bytes) as f64 + sizes.hint_bytes as f64 / 1000.0 + read_bytes / 1700.0
}

/// The cheapest of some candidates that are valid.
///
/// # Errors
/// [`ProtocolError::BadRequest`] if none is.
pub(crate) fn cheapest<P>(
    records: u64,
    record_bytes: usize,
    candidates: impl Iterator<Item = P>,
    valid: impl Fn(&P) -> Result<(), ProtocolError>,
    cost: impl Fn(&P) -> f64,
) -> Result<P, ProtocolError> {
    if records == 0 || record_bytes == 0 {
        let detail = "a table needs at least one record of at least one byte";
        return Err(ProtocolError::BadRequest(detail.into()));
    }
    let mut refusal = None;
    let mut best: Option<(f64, P)> = None;
    for candidate in candidates {
        match valid(&candidate) {
            Err(error) => refusal = Some(error),
            Ok(()) => {
                let cost = cost(&candidate);
                if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                    best = Some((cost, candidate));
                }
            }
        }
    }
    best.map(|(_, candidate)| candidate).ok_or_else(|| {
        let why = refusal.map(|error| format!(" ({error})")).unwrap_or_default();
        ProtocolError::BadRequest(format!(
            "{records} records of {record_bytes} bytes have no shape under this protocol{why}; split the table or choose another protocol"
        ))
    })
}
