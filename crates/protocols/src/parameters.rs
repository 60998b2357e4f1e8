//! Properties that the parameters of every protocol give.

use std::fmt;
use std::ops::Range;

use serde::Serialize;
use spirea_backend::{FileLayout as _, PanelLayout, RowLayout, Share};
use spirea_dpf::{Domain, PrfKind};
use spirea_lattice::rlwe::KeyShape;
use spirea_lattice::{LweSet, RingSet, Security};

use crate::ProtocolError;
use crate::choice::KeyDelivery;
use crate::grid::{Grid, Spread};
use crate::steps::Work;
use crate::table::hint_rows::HintRows;

/// Layout of a database in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// A matrix of bytes in panel layout.
    Panels {
        /// The layout.
        layout: PanelLayout,
        /// Positions of the records in the matrix.
        grid: Grid,
        /// Arrangement of the parts of large records.
        spread: Spread,
    },
    /// Units one after another, in the order (part, group, column). Each is the bytes of a
    /// plaintext polynomial.
    Units {
        /// Positions of the records.
        grid: Grid,
    },
}

impl Stored {
    /// Returns the length of the file in bytes.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Panels { layout, .. } => layout.bytes() as u64,
            Self::Units { grid } => grid.rows(Spread::Rows) as u64 * grid.columns as u64,
        }
    }

    /// Returns the numbers of rows and columns, counted in bytes for a matrix and otherwise in
    /// units.
    pub fn shape(&self) -> [usize; 2] {
        match self {
            Self::Panels { layout, .. } => [layout.rows(), layout.columns()],
            Self::Units { grid } => [grid.groups * grid.parts(), grid.columns],
        }
    }

    /// Returns the byte ranges of a share. A matrix is divided by rows, units by groups.
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

    /// Returns the offset in the file of byte `byte` of record `index`.
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

/// Converts ranges in memory to ranges in a file, whose offsets have 64 bits on every platform.
fn in_file(ranges: Vec<Range<usize>>) -> Vec<Range<u64>> {
    ranges.into_iter().map(|range| range.start as u64..range.end as u64).collect()
}

/// The form in which the server first folds the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstFold {
    /// Bytes, folded by words of queries: step `scalar_fold`.
    Bytes,
    /// Polynomials in residues, folded by the leaves of expanded queries: step `poly_fold`.
    Polynomials(RingSet),
    /// Rows, folded by the shares that keys expand to: step `share_fold`.
    Rows {
        /// The layout of the rows.
        layout: RowLayout,
        /// The pseudorandom function of the keys.
        prf: PrfKind,
        /// Domain of the keys: a share for each row of a bin.
        domain: Domain,
        /// Number of bins, and of keys in a query.
        bins: usize,
    },
}

/// Basis of a stated probability.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Claim {
    /// A theorem: an upper bound for every content that was fixed before the public matrix or pad
    /// was drawn. The protocol's page states the theorem and its assumptions.
    Bound,
    /// Closed forms of variances, confirmed by measurements, with a Gaussian tail. Valid for
    /// content that does not depend on the public matrices.
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

/// Probability that a response decodes incorrectly. In JSON, its members are inlined into the
/// containing object.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Failure {
    /// log2 of the probability.
    #[serde(rename = "failure_log2")]
    pub log2: f64,
    /// Basis of the probability.
    #[serde(rename = "failure_claim")]
    pub claim: Claim,
}

impl Failure {
    /// Creates a bound with this log2.
    pub(crate) fn bound(log2: f64) -> Self {
        Self { log2, claim: Claim::Bound }
    }

    /// Creates an estimate with this log2.
    pub(crate) fn estimate(log2: f64) -> Self {
        Self { log2, claim: Claim::Estimate }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "2^{:.0} ({})", self.log2, self.claim)
    }
}

/// Lattice parameter sets of a protocol; none if it has no lattice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sets {
    /// Set of the first fold's queries.
    pub lwe: Option<LweSet>,
    /// Set of evaluation keys and of the ciphertexts that expand.
    pub ring: Option<RingSet>,
}

impl Sets {
    /// Returns the name and attack costs of each set.
    pub fn securities(self) -> impl Iterator<Item = (&'static str, Security)> {
        let lwe = self.lwe.map(|set| (set.name(), set.security()));
        lwe.into_iter().chain(self.ring.map(|set| (set.name(), set.security())))
    }

    /// Returns the security in bits: the minimum over the sets.
    pub(crate) fn security_bits(self) -> f64 {
        self.securities().map(|(_, security)| security.bits()).fold(f64::INFINITY, f64::min)
    }
}

/// Bytes on the wire: for one look-up, and once for each client. Determined by the parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Bytes of a query, constant and equal for every server of the protocol.
    pub query_bytes: usize,
    /// Bytes of an answer, constant.
    pub answer_bytes: usize,
    /// Bytes of the hint that a client downloads once for each version of the database; 0 if none.
    pub hint_bytes: u64,
    /// Bytes of the evaluation keys that a client registers; 0 if it registers none.
    pub keys_bytes: usize,
}

/// Parameters of a database under a protocol: public, and part of a snapshot's identity.
pub trait Parameters {
    /// Checks parameters read from untrusted bytes: shapes, capacity, security and the failure
    /// bound.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] that names the member out of range.
    fn validate(&self) -> Result<(), ProtocolError>;

    /// Returns the properties of valid parameters.
    fn profile(&self) -> Profile;

    /// Returns the probability that the error of any number decoded from a response exceeds the
    /// fraction `share` of the error that decoding tolerates; `None` if there is no noise.
    fn exceedance(&self, share: f64) -> Option<Failure>;

    /// See [`Profile::worst_failure`].
    fn worst_failure(&self) -> Option<Failure> {
        self.exceedance(1.0).filter(|failure| failure.claim == Claim::Bound)
    }
}

/// Properties of a database under a protocol. Determined by valid parameters, whatever the seed.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Name of the protocol.
    pub name: &'static str,
    /// Names of the parameter sets.
    pub set: String,
    /// Number of servers, each with the whole database: 1, or 2 that must not collude.
    pub parties: usize,
    /// Positions of the records.
    pub grid: Grid,
    /// Number of bins, 1 if the records are not divided. A query retrieves one record of each.
    pub bins: usize,
    /// Layout of the database in its file.
    pub stored: Stored,
    /// Form in which the server first folds the database.
    pub first_fold: FirstFold,
    /// Lattice parameter sets that encrypt the data sent by clients.
    pub sets: Sets,
    /// Security in bits: the minimum over the parameter sets.
    pub security_bits: f64,
    /// Shape of the evaluation keys that clients register; `None` if they register none.
    pub key_shape: Option<KeyShape>,
    /// Delivery of evaluation keys; `None` if the server needs none.
    pub key_delivery: Option<KeyDelivery>,
    /// Number of bits of an earlier query's index that an accepted answer can reveal, if keys are
    /// registered and records carry no inclusion proofs. The attack: a server that knows the record
    /// queried now combines the ciphertexts of both queries (docs/soundness.md).
    pub combined_answer_bits: f64,
    /// Sizes of queries, answers, hint and keys in bytes.
    pub sizes: Sizes,
    /// Number of upper bits of each word of the hint that clients download.
    pub hint_bits: u32,
    /// True if the hint may determine the records. For each row, the hint gives linear equations
    /// modulo 2^32, one for each of its columns. Each column of the database is an unknown. The
    /// hint may determine the unknowns if there are at least as many equations. A rounded hint has
    /// the upper bits of these equations. It presumably determines the records too, but linear
    /// algebra alone does not find them.
    pub hint_determines_records: bool,
    /// Number of bytes that the server precomputes from the database and keeps; 0 if none.
    pub server_bytes: u64,
    /// Memory in bytes that the server needs: the database, precomputed data, and one query in
    /// flight.
    pub memory_bytes: u64,
    /// The server's work for one query, by steps.
    pub work: Vec<Work>,
    /// Probability that a record decodes incorrectly; `None` if decoding never fails.
    pub failure: Option<Failure>,
    /// Bound on the probability that a record decodes incorrectly. It holds for every database that
    /// the protocol can hold: an attacker who chooses content may know a public matrix that stays,
    /// but not a pad, which is drawn anew after each change. `None` if no bound is known, or if
    /// there is no noise.
    pub worst_failure: Option<Failure>,
}

impl Profile {
    /// Returns the number of records.
    pub fn records(&self) -> u64 {
        self.grid.records
    }

    /// Returns the number of bytes of a record.
    pub fn record_bytes(&self) -> usize {
        self.grid.record_bytes
    }

    /// Returns the number of bytes of the stored database.
    pub fn matrix_bytes(&self) -> u64 {
        self.stored.bytes()
    }

    /// Returns the byte ranges of the database's file that the server of a share reads, in order;
    /// none if its share is empty.
    pub fn share_bytes(&self, share: Share) -> Vec<Range<u64>> {
        match self.first_fold {
            FirstFold::Bytes | FirstFold::Polynomials(_) => self.stored.share(share),
            FirstFold::Rows { layout, .. } => {
                let rows = share.records(layout);
                if rows.is_empty() { Vec::new() } else { in_file(layout.ranges(&rows)) }
            }
        }
    }

    /// Returns the number of bytes of the database in the form in which it is folded.
    pub fn folded_bytes(&self) -> u64 {
        match self.first_fold {
            FirstFold::Bytes | FirstFold::Rows { .. } => self.matrix_bytes(),
            FirstFold::Polynomials(set) => {
                let [rows, columns] = self.stored.shape();
                (rows * columns * set.ring().words() * 4) as u64
            }
        }
    }

    /// Returns the pseudorandom function of a two-server protocol.
    pub fn prf(&self) -> Option<PrfKind> {
        match self.first_fold {
            FirstFold::Rows { prf, .. } => Some(prf),
            FirstFold::Bytes | FirstFold::Polynomials(_) => None,
        }
    }

    /// Refuses a hint of another length.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`].
    pub fn check_hint(&self, hint: &[u8]) -> Result<(), ProtocolError> {
        if hint.len() as u64 == self.sizes.hint_bytes {
            return Ok(());
        }
        Err(ProtocolError::malformed("hint", "it is not as long as the parameters say"))
    }

    /// Returns the rows of the hint that clients download, if the protocol has a hint.
    pub fn hint_rows(&self) -> Option<HintRows> {
        let set = self.sets.lwe.filter(|_| self.sizes.hint_bytes > 0);
        set.map(|set| HintRows::of(set, self.hint_bits))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Compares with [`Grid::runs`], which gives the positions of a record's bytes in the
        /// matrix.
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
