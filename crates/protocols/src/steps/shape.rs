//! Choice of a database's shape, and refusal of bad shapes.

use crate::choice::Preference;
use crate::parameters::Failure;
use crate::{ProtocolError, Sizes};

/// Maximum probability, bound or estimate, that a response decodes incorrectly, as log2.
pub(crate) const MAX_FAILURE_LOG2: f64 = -60.0;
/// Maximum bytes of an answer; larger ones would take too long to download.
const MAX_ANSWER_BYTES: usize = 256 << 20;

/// Returns an error of parameters.
pub(crate) fn malformed(detail: String) -> ProtocolError {
    ProtocolError::malformed("parameters", detail)
}

/// Refuses answers that are too long and failures that are too likely.
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

/// Cost of a look-up, by which shapes are chosen.
#[derive(Clone, Copy, Debug)]
pub struct LookupCost {
    /// Bytes that cross the network; a hint is amortised over a thousand look-ups.
    bytes: f64,
    /// The server's work, in bytes read from memory in the same time.
    read_bytes: f64,
}

impl LookupCost {
    /// Returns the cost of a protocol with these sizes.
    pub fn new(sizes: Sizes, read_bytes: f64) -> Self {
        let bytes = (sizes.query_bytes + sizes.answer_bytes) as f64 + sizes.hint_bytes as f64 / 1000.0;
        Self { bytes, read_bytes }
    }

    /// Returns the sum in bytes that cross the network. In the time of one such byte, a server
    /// scans 1700 bytes (12 MB/s against 20 GB/s).
    fn sum(self) -> f64 {
        self.bytes + self.read_bytes / 1700.0
    }
}

/// Returns the preferred candidate, if there is any.
pub(crate) fn preferred<P>(
    preference: Preference,
    candidates: impl Iterator<Item = (LookupCost, P)>,
) -> Option<P> {
    let candidates: Vec<_> = candidates.collect();
    let least = candidates.iter().map(|(cost, _)| cost.read_bytes).fold(f64::INFINITY, f64::min);
    let fewest_within = |share: f64| {
        move |cost: LookupCost| if cost.read_bytes <= share * least { cost.bytes } else { f64::INFINITY }
    };
    let weigh = |cost: LookupCost| match preference {
        Preference::Time => fewest_within(1.05)(cost),
        Preference::Communication => fewest_within(2.1)(cost),
        Preference::Balance => cost.sum(),
    };
    let best = candidates.into_iter().min_by(|(a, _), (b, _)| weigh(*a).total_cmp(&weigh(*b)));
    best.map(|(_, candidate)| candidate)
}

/// A check that a candidate must pass.
type Check<P> = fn(&P) -> Result<(), ProtocolError>;

/// Returns the preferred candidate among those that pass all `checks`, which run in order.
///
/// # Errors
/// [`ProtocolError::BadRequest`] if none passes, with the refusal of a candidate that passed most
/// checks.
pub(crate) fn cheapest<P>(
    preference: Preference,
    records: u64,
    record_bytes: usize,
    candidates: impl Iterator<Item = P>,
    checks: &[Check<P>],
    cost: impl Fn(&P) -> LookupCost,
) -> Result<P, ProtocolError> {
    if records == 0 || record_bytes == 0 {
        let detail = "a table needs at least one record of at least one byte";
        return Err(ProtocolError::BadRequest(detail.into()));
    }
    let mut furthest = None;
    let valid = candidates.filter_map(|candidate| {
        let refusal =
            checks.iter().enumerate().find_map(|(passed, check)| Some((passed, check(&candidate).err()?)));
        match refusal {
            None => Some((cost(&candidate), candidate)),
            Some((passed, error)) => {
                if furthest.as_ref().is_none_or(|&(most, _)| passed >= most) {
                    furthest = Some((passed, error));
                }
                None
            }
        }
    });
    preferred(preference, valid).ok_or_else(|| {
        let why = furthest.map(|(_, error)| format!(" ({error})")).unwrap_or_default();
        ProtocolError::BadRequest(format!(
            "{records} records of {record_bytes} bytes have no shape under this protocol{why}; split the table or choose another protocol"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_chosen_for_what_is_preferred() {
        let shapes = [(400.0, 1000.0), (390.0, 1040.0), (100.0, 1060.0), (90.0, 2100.0), (10.0, 2200.0)];
        let chosen = |preference, scale: f64| {
            let costs = shapes.map(|(bytes, read)| LookupCost { bytes, read_bytes: read * scale });
            preferred(preference, costs.into_iter().zip(0..))
        };
        assert_eq!(chosen(Preference::Time, 1.0), Some(1));
        assert_eq!(chosen(Preference::Communication, 1.0), Some(3));
        // First the work is negligible, then the bytes.
        assert_eq!(chosen(Preference::Balance, 1.0), Some(4));
        assert_eq!(chosen(Preference::Balance, 1e6), Some(0));
        assert_eq!(preferred(Preference::Time, std::iter::empty::<(LookupCost, ())>()), None);
    }
}
