//! Parameters of a database whose first step is `scalar_fold`.

use serde::{Deserialize, Serialize};
use spirea_backend::{MAX_BATCH, PANEL_ROWS, PanelLayout, RING_DEGREE};
use spirea_lattice::{LweSet, PublicMatrix, RingSet};
use spirea_math::random::Seed;

use crate::grid::{Grid, Spread};
use crate::parameters::{Failure, Sets};
use crate::{ProtocolError, Sizes};

/// Parameters that the protocols with a first fold have in common. Public; part of a snapshot's identity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Folded {
    /// Name of the LWE set.
    pub set: String,
    /// Name of the ring set, where the protocol packs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ring: Option<String>,
    /// Seed of the public matrices.
    #[serde(with = "crate::hex")]
    pub seed: Seed,
    /// Where the records lie.
    pub grid: Grid,
}

/// The most columns of a first fold: the failure bound allows no more.
pub(crate) const MAX_COLUMNS: usize = 1 << 20;
/// The largest probability, bound or estimate, that a response decodes wrongly, as log2.
pub(crate) const MAX_FAILURE_LOG2: f64 = -60.0;
/// The most queries of a batch where each has ciphertexts to expand.
const MAX_PACKED_BATCH: usize = 64;
/// Bytes of an answer beyond which nobody would wait for it.
const MAX_ANSWER_BYTES: usize = 256 << 20;

impl Folded {
    /// Checks parameters read from untrusted bytes, as far as the protocols have it in common.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] that names what is out of range.
    pub(crate) fn validate(&self, spread: Spread) -> Result<(), ProtocolError> {
        if LweSet::by_name(&self.set).is_none() {
            let known = LweSet::ALL.map(LweSet::name).join(", ");
            return Err(malformed(format!("no LWE set is called {:?}; there are {known}", self.set)));
        }
        self.grid.validate(spread)?;
        let columns = self.grid.columns;
        if !columns.is_multiple_of(RING_DEGREE) || columns > MAX_COLUMNS {
            return Err(malformed(format!(
                "columns must be a multiple of {RING_DEGREE} up to {MAX_COLUMNS}"
            )));
        }
        if !self.grid.rows(spread).is_multiple_of(PANEL_ROWS) {
            return Err(malformed(format!("rows must be a multiple of {PANEL_ROWS}")));
        }
        if PanelLayout::covering(self.grid.rows(spread), columns).is_err() {
            return Err(malformed("the matrix is larger than any this software holds".into()));
        }
        Ok(())
    }

    /// Candidate shapes of blocks: a unit is as many rows as the ring has coefficients.
    pub(crate) fn of_blocks(
        set: LweSet,
        ring: RingSet,
        seed: Seed,
        records: u64,
        record_bytes: usize,
    ) -> impl Iterator<Item = Self> {
        let groups = (0..20).flat_map(|power| [4 << power, 5 << power, 6 << power, 7 << power]);
        [1, 2, 3].into_iter().chain(groups).filter_map(move |groups| {
            let grid = Grid { records, record_bytes, unit_rows: ring.ring().degree(), groups, columns: 0 };
            let grid = grid.fit_columns(Spread::Rows, RING_DEGREE)?;
            Some(Self { set: set.name().into(), ring: Some(ring.name().into()), seed, grid })
        })
    }

    /// Checks parameters of a protocol whose units are blocks of the ring's degree.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] that names what is out of range.
    pub(crate) fn validate_blocks(&self) -> Result<(), ProtocolError> {
        /// Far more than any memory holds hints of.
        const MAX_GROUPS: usize = 1 << 24;
        self.validate(Spread::Rows)?;
        let degree = self.validate_ring()?.ring().degree();
        if self.grid.unit_rows != degree || self.grid.groups > MAX_GROUPS {
            return Err(malformed(format!(
                "a unit must have {degree} bytes, and a column at most {MAX_GROUPS} of them"
            )));
        }
        Ok(())
    }

    /// The ring set of a protocol that packs bytes: one that leaves room for a rounded LWE ciphertext.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] if there is none of this name.
    pub(crate) fn validate_ring(&self) -> Result<RingSet, ProtocolError> {
        let name = self.ring.as_deref().unwrap_or_default();
        packing_sets().find(|set| set.name() == name).ok_or_else(|| {
            let known = packing_sets().map(RingSet::name).collect::<Vec<_>>().join(", ");
            malformed(format!("no ring set for packing is called {name:?}; there are {known}"))
        })
    }

    /// The LWE set of validated parameters.
    pub(crate) fn lwe_set(&self) -> LweSet {
        LweSet::by_name(&self.set).expect("validated parameters name a set")
    }

    /// The ring set of validated parameters.
    pub(crate) fn ring_set(&self) -> RingSet {
        self.validate_ring().expect("validated parameters name a ring set")
    }

    /// The parameter sets of validated parameters.
    pub(crate) fn sets(&self) -> Sets {
        Sets { lwe: Some(self.lwe_set()), ring: self.ring.as_ref().map(|_| self.ring_set()) }
    }

    /// The layout of the matrix of validated parameters.
    pub(crate) fn layout(&self, spread: Spread) -> PanelLayout {
        PanelLayout::covering(self.grid.rows(spread), self.grid.columns)
            .expect("validated parameters have a layout")
    }

    /// The public matrix of the first fold.
    pub(crate) fn public_matrix(&self) -> PublicMatrix {
        PublicMatrix::new(self.lwe_set(), self.seed, self.grid.columns)
    }

    /// The public matrix of a second fold over `columns` columns: another one than the first, so that both
    /// may meet the same secret.
    pub(crate) fn second_matrix(&self, columns: usize) -> PublicMatrix {
        PublicMatrix::of_second_fold(self.lwe_set(), self.seed, columns.next_multiple_of(RING_DEGREE))
    }

    /// Most queries at once, where each has `folds` columns in the first fold.
    pub(crate) fn max_batch(&self, folds: usize) -> usize {
        (MAX_BATCH / folds).min(MAX_PACKED_BATCH)
    }
}

/// The ring sets that pack LWE ciphertexts.
pub(crate) fn packing_sets() -> impl Iterator<Item = RingSet> {
    RingSet::ALL.into_iter().filter(|set| set.plaintext_bits() < 20)
}

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
