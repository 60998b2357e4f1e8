//! What the parameters of every protocol tell.

use std::fmt;
use std::ops::Range;

use serde::Serialize;
use spirea_backend::{FileLayout as _, PanelLayout, Share};
use spirea_dpf::{Domain, PrfKind};
use spirea_lattice::rlwe::KeyShape;
use spirea_lattice::{LweSet, RingSet, Security};

use crate::ProtocolError;
use crate::choice::KeyDelivery;
use crate::grid::{Grid, Spread};
use crate::steps::Work;
use crate::table::hint_rows::HintRows;

/// How a database lies in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// A matrix of bytes in panel layout.
    Panels {
        /// The layout.
        layout: PanelLayout,
        /// Where the records lie in the matrix.
        grid: Grid,
        /// Where the parts of large records lie.
        spread: Spread,
    },
    /// Units one after another, in the order (part, group, column): each the bytes of a plaintext polynomial.
    Units {
        /// Where the records lie.
        grid: Grid,
    },
}

impl Stored {
    /// Bytes of the file.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Panels { layout, .. } => layout.bytes() as u64,
            Self::Units { grid } => grid.rows(Spread::Rows) as u64 * grid.columns as u64,
        }
    }

    /// Rows and columns: of bytes in a matrix, of units otherwise.
    pub fn shape(&self) -> [usize; 2] {
        match self {
            Self::Panels { layout, .. } => [layout.rows(), layout.columns()],
            Self::Units { grid } => [grid.groups * grid.parts(), grid.columns],
        }
    }

    /// Which bytes of the file a share of it is, where it is divided by rows of the matrix or by groups of units.
    fn share(&self, share: Share) -> Vec<Range<u64>> {
        match self {
            Self::Panels { layout, .. } => {
                let rows = share.rows(*layout);
                if rows.is_empty() { Vec::new() } else { in_file(layout.ranges(&rows)) }
            }
            Self::Units { grid } => {
                let group_bytes = grid.columns as u64 * grid.unit_rows as u64;
                let own = share.competitors(grid.groups);
                let of_part = |part: usize| {
                    let first = (part * grid.groups) as u64;
                    (first + own.start as u64) * group_bytes..(first + own.end as u64) * group_bytes
                };
                (0..grid.parts()).map(of_part).filter(|range| !range.is_empty()).collect()
            }
        }
    }

    /// The offset in the file of byte `byte` of record `index`.
    pub fn offset(&self, index: u64, byte: usize) -> u64 {
        match self {
            Self::Panels { layout, grid, spread } => {
                let place = grid.place(*spread, index);
                let (part, within) = (byte / grid.unit_rows, byte % grid.unit_rows);
                let row = grid.row(*spread, part, place.group) + place.offset + within;
                let column = if *spread == Spread::Columns { place.column + part } else { place.column };
                layout.offset(row, column) as u64
            }
            Self::Units { grid } => {
                let place = grid.place(Spread::Rows, index);
                let (part, within) = (byte / grid.unit_rows, byte % grid.unit_rows);
                let unit = (part * grid.groups + place.group) * grid.columns + place.column;
                (unit * grid.unit_rows + place.offset + within) as u64
            }
        }
    }
}

/// Ranges of bytes as those of a file, which any word counts.
pub(crate) fn in_file(ranges: Vec<Range<usize>>) -> Vec<Range<u64>> {
    ranges.into_iter().map(|range| range.start as u64..range.end as u64).collect()
}

/// As what a server folds its database first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstFold {
    /// As bytes, by words of queries: step `scalar_fold`.
    Bytes,
    /// As polynomials in residues, by the leaves of expanded queries: step `poly_fold`.
    Polynomials(RingSet),
    /// As rows, by the shares that keys expand to: step `share_fold`.
    Rows {
        /// The pseudorandom function of the keys.
        prf: PrfKind,
        /// What keys are of: a share for each row of a bin.
        domain: Domain,
        /// Bins, and keys of a query.
        bins: usize,
    },
}

/// What stands behind a probability.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Claim {
    /// A theorem: it is no larger, whatever the database holds. What each theorem assumes stands in its protocol's
    /// page.
    Bound,
    /// Closed forms of variances that measurements confirm, and a Gaussian's tail: for content that does not depend on
    /// the public matrices.
    Estimate,
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bound => "bound",
            Self::Estimate => "estimate",
        })
    }
}

/// The probability that a response decodes wrongly. In JSON its members are those of whatever has it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Failure {
    /// log2 of the probability.
    #[serde(rename = "failure_log2")]
    pub log2: f64,
    /// What stands behind it.
    #[serde(rename = "failure_claim")]
    pub claim: Claim,
}

impl Failure {
    /// A bound of this log2.
    pub(crate) fn bound(log2: f64) -> Self {
        Self { log2, claim: Claim::Bound }
    }

    /// An estimate of this log2.
    pub(crate) fn estimate(log2: f64) -> Self {
        Self { log2, claim: Claim::Estimate }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "2^{:.0} ({})", self.log2, self.claim)
    }
}

/// The lattice parameter sets of a protocol; none where it has no lattice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sets {
    /// Of the first fold's queries.
    pub lwe: Option<LweSet>,
    /// Of evaluation keys and of the ciphertexts that expand.
    pub ring: Option<RingSet>,
}

impl Sets {
    /// What each is called and what attacks on it cost.
    pub fn securities(self) -> impl Iterator<Item = (&'static str, Security)> {
        let lwe = self.lwe.map(|set| (set.name(), set.security()));
        lwe.into_iter().chain(self.ring.map(|set| (set.name(), set.security())))
    }
}

/// What one look-up costs on the wire, and a client once; known from the parameters alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Bytes of a query, always the same, and to every server of the protocol.
    pub query_bytes: usize,
    /// Bytes of an answer, always the same.
    pub answer_bytes: usize,
    /// Bytes of the hint that a client downloads once for a version of the database; 0 if none.
    pub hint_bytes: u64,
    /// Bytes of the evaluation keys that a client registers; 0 if it registers none.
    pub keys_bytes: usize,
}

/// Parameters of a database under some protocol: public, part of a snapshot's identity.
pub trait Parameters {
    /// The protocol's name.
    fn name(&self) -> &'static str;

    /// Names of the parameter sets.
    fn set(&self) -> String;

    /// Servers of the protocol, each with the whole database: 1, or 2 that must not work together.
    fn parties(&self) -> usize {
        1
    }

    /// How the database lies in its file.
    fn stored(&self) -> Stored;

    /// Which bytes of the database's file the server of a share reads, in order; none if its share is empty.
    fn share_bytes(&self, share: Share) -> Vec<Range<u64>> {
        self.stored().share(share)
    }

    /// Where the records lie.
    fn grid(&self) -> Grid;

    /// As what the server folds it first.
    fn first_fold(&self) -> FirstFold {
        FirstFold::Bytes
    }

    /// Bytes of it in the form in which it is folded.
    fn folded_bytes(&self) -> u64 {
        match self.first_fold() {
            FirstFold::Bytes | FirstFold::Rows { .. } => self.matrix_bytes(),
            FirstFold::Polynomials(set) => {
                let [rows, columns] = self.stored().shape();
                (rows * columns * set.ring().words() * 4) as u64
            }
        }
    }

    /// Bytes of what the server precomputes of the database and keeps for itself; 0 if nothing.
    fn server_bytes(&self) -> u64;

    /// What the server does for one query.
    fn work(&self) -> Vec<Work>;

    /// Bytes of memory that the server needs: the database, what it keeps, and one query in flight.
    fn memory_bytes(&self) -> u64;

    /// Checks parameters read from untrusted bytes: shapes, capacity, security and the failure bound.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] that names what is out of range.
    fn validate(&self) -> Result<(), ProtocolError>;

    /// The shape of the evaluation keys that clients register; `None` if they register none.
    fn key_shape(&self) -> Option<KeyShape> {
        None
    }

    /// How evaluation keys reach the server; `None` if it needs none.
    fn key_delivery(&self) -> Option<KeyDelivery> {
        self.key_shape().map(|_| KeyDelivery::Registered)
    }

    /// Bits of the index of an earlier query that an accepted answer can reveal, if keys are registered and records carry no
    /// inclusion proofs. The server must know the record that is asked for now: it combines the ciphertexts of both queries
    /// (docs/soundness.md).
    fn combined_answer_bits(&self) -> f64 {
        0.0
    }

    /// Bytes of queries, answers, hint and keys.
    fn sizes(&self) -> Sizes;

    /// The probability that any number that a response to a record's query decodes to is off by more than `share` of
    /// what decoding tolerates; `None` if there is no noise.
    fn exceedance(&self, share: f64) -> Option<Failure>;

    /// The probability that a record decodes wrongly; `None` if none ever does.
    fn failure(&self) -> Option<Failure> {
        self.exceedance(1.0)
    }

    /// A bound on the probability that a record decodes wrongly, for every database, one that depends on all that is public included;
    /// `None` if none is known, or if there is no noise.
    fn worst_failure(&self) -> Option<Failure> {
        self.failure().filter(|failure| failure.claim == Claim::Bound)
    }

    /// Bins of the records, of which a query brings one each: 1 where they are not divided.
    fn bins(&self) -> usize {
        match self.first_fold() {
            FirstFold::Rows { bins, .. } => bins,
            FirstFold::Bytes | FirstFold::Polynomials(_) => 1,
        }
    }

    /// The pseudorandom function of a protocol with two servers.
    fn prf(&self) -> Option<PrfKind> {
        match self.first_fold() {
            FirstFold::Rows { prf, .. } => Some(prf),
            FirstFold::Bytes | FirstFold::Polynomials(_) => None,
        }
    }

    /// The lattice parameter sets that what clients send is encrypted under.
    fn sets(&self) -> Sets;

    /// Security in bits: the least of its parts.
    fn security_bits(&self) -> f64 {
        self.sets().securities().map(|(_, security)| security.bits()).fold(f64::INFINITY, f64::min)
    }

    /// Number of records.
    fn records(&self) -> u64 {
        self.grid().records
    }

    /// Bytes of a record.
    fn record_bytes(&self) -> usize {
        self.grid().record_bytes
    }

    /// Bytes of the stored database.
    fn matrix_bytes(&self) -> u64 {
        self.stored().bytes()
    }

    /// Whether the hint determines the records: it is linear equations modulo 2^32, as many as it has columns, in as
    /// many unknowns as the database has.
    fn hint_determines_records(&self) -> bool {
        false
    }

    /// The rows of the hint that clients download, if the protocol has one.
    fn hint_rows(&self) -> Option<HintRows> {
        self.sets().lwe.filter(|_| self.sizes().hint_bytes > 0).map(HintRows::of)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// By [`Grid::runs`], which says where the bytes of a record lie in the matrix.
        #[test]
        fn bytes_lie_in_the_file_where_they_lie_in_the_matrix(
            records in 1u64..30, record_bytes in 1usize..40, unit_rows in 1usize..20, groups in 1usize..6,
        ) {
            let stored = |spread| {
                let grid = Grid { records, record_bytes, unit_rows, groups, columns: 0 };
                let grid = grid.fit_columns(spread, 4).unwrap();
                let layout = PanelLayout::covering(grid.rows(spread), grid.columns).unwrap();
                Stored::Panels { layout, grid, spread }
            };
            for panels in [stored(Spread::Columns), stored(Spread::Rows)] {
                let Stored::Panels { layout, grid, spread } = panels else { unreachable!() };
                prop_assert_eq!(panels.bytes(), layout.bytes() as u64);
                prop_assert_eq!(panels.shape(), [layout.rows(), layout.columns()]);
                let units = Stored::Units { grid };
                for index in 0..records {
                    for run in grid.runs(spread, index) {
                        for byte in run.bytes.clone() {
                            let row = run.row + byte - run.bytes.start;
                            prop_assert_eq!(panels.offset(index, byte), layout.offset(row, run.column) as u64);
                            if spread == Spread::Rows {
                                // Units one after another, in the order (part, group, column).
                                let before = row / unit_rows * grid.columns + run.column;
                                let expected = before * unit_rows + row % unit_rows;
                                prop_assert_eq!(units.offset(index, byte), expected as u64);
                                prop_assert!((expected as u64) < units.bytes());
                            }
                        }
                    }
                }
                prop_assert_eq!(units.shape(), [groups * grid.parts(), grid.columns]);
            }
        }
    }
}
