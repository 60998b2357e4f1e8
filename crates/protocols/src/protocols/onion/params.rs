//! Parameters and shapes.

use serde::{Deserialize, Serialize};
use spirea_lattice::RingSet;
use spirea_lattice::rlwe::bound::PaddedFold;
use spirea_math::random::Seed;

use super::pad::Pad;
use crate::choice::KeyDelivery;
use crate::grid::{Grid, Spread};
use crate::packing::expanded::ExpandedShape;
use crate::parameters::{Failure, FirstFold, Parameters, Profile, Sets, Stored};
use crate::steps::Work;
use crate::steps::hint::exact_bits;
use crate::steps::query::QueryLayout;
use crate::steps::ring::Shape;
use crate::steps::select::{depth, select_work};
use crate::steps::shape::{malformed, validate_outcome};
use crate::{ProtocolError, Sizes};

/// Name of the protocol.
pub(super) const NAME: &str = "onion";

/// Parameters of a database under OnionPIRv2. Public, and part of a snapshot's identity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Name of the ring set.
    pub ring: String,
    /// Seed of the public pad. Drawn after the content is fixed, since the failure bound is a
    /// probability over its choice.
    #[serde(with = "crate::hex")]
    pub pad: Seed,
    /// Positions of the records: a unit is a polynomial, and a column is an entry of the first
    /// dimension.
    pub grid: Grid,
}

impl Params {
    /// Maximum number of columns, limited by the noise of a first dimension.
    pub const MAX_COLUMNS: usize = 512;

    /// Returns the ring set of validated parameters.
    pub(super) fn ring_set(&self) -> RingSet {
        onion_set(&self.ring).expect("validated parameters name a ring set")
    }

    /// Returns the pad of the stored polynomials.
    pub(super) fn pad(&self) -> Pad {
        Pad::new(&self.pad, self.ring_set().plaintext_bits())
    }

    /// Returns the layout of a query's bytes: a ciphertext only.
    pub(super) fn layout(&self) -> QueryLayout {
        let ciphertext = self.ring_shape().query_bytes();
        QueryLayout { first: 0, dropped_bits: 0, second: 0, ciphertext }
    }

    /// Returns the layout of the database in its file.
    pub(super) fn stored(&self) -> Stored {
        Stored::Units { grid: self.grid }
    }

    pub(super) fn ring_shape(&self) -> ExpandedShape {
        ExpandedShape { set: self.ring_set(), columns: self.grid.columns, depth: depth(self.grid.groups) }
    }

    /// Returns the sizes of queries, answers, hint and keys in bytes.
    pub(crate) fn sizes(&self) -> Sizes {
        let shape = self.ring_shape();
        Sizes {
            query_bytes: self.layout().bytes(),
            answer_bytes: self.grid.parts() * shape.response_bytes(),
            hint_bytes: 0,
            keys_bytes: shape.keys_bytes(),
        }
    }

    /// Returns the server's work for one query.
    fn work(&self) -> Vec<Work> {
        let (shape, grid, parts) = (self.ring_shape(), self.grid, self.grid.parts());
        let mut work = shape.unpack_work();
        work.extend(shape.fold_work(parts, grid.groups));
        work.extend(select_work(shape.set, grid.groups, parts));
        work.push(Work::switching(shape.set, parts));
        work
    }
}

/// Returns the number of bytes that a plaintext polynomial holds.
pub(super) fn unit_bytes(set: RingSet) -> usize {
    set.ring().degree() * set.plaintext_bits() as usize / 8
}

/// Returns the ring sets whose plaintexts are polynomials of the database.
pub(super) fn ring_sets() -> impl Iterator<Item = RingSet> {
    RingSet::ALL.into_iter().filter(|set| set.plaintext_bits() >= 20)
}

fn onion_set(name: &str) -> Option<RingSet> {
    ring_sets().find(|set| set.name() == name)
}

impl Parameters for Params {
    fn validate(&self) -> Result<(), ProtocolError> {
        /// Maximum number of groups: far more than fit in any memory.
        const MAX_GROUPS: usize = 1 << 24;
        self.grid.validate(Spread::Rows)?;
        let set = onion_set(&self.ring)
            .ok_or_else(|| malformed(format!("no ring set for polynomials is called {:?}", self.ring)))?;
        if self.grid.unit_rows != unit_bytes(set) {
            return Err(malformed(format!("a unit must have {} bytes", unit_bytes(set))));
        }
        if self.grid.columns > Self::MAX_COLUMNS || self.grid.groups > MAX_GROUPS {
            let most = Self::MAX_COLUMNS;
            return Err(malformed(format!(
                "columns must be at most {most}, and groups at most {MAX_GROUPS}"
            )));
        }
        validate_outcome(self.sizes(), self.exceedance(1.0))
    }

    fn profile(&self) -> Profile {
        let (shape, grid, set) = (self.ring_shape(), self.grid, self.ring_set());
        let sets = Sets { lwe: None, ring: Some(set) };
        Profile {
            name: NAME,
            set: self.ring.clone(),
            parties: 1,
            grid,
            bins: 1,
            stored: self.stored(),
            first_fold: FirstFold::Polynomials(set),
            sets,
            security_bits: sets.security_bits(),
            key_shape: shape.key_shape(),
            key_delivery: Some(KeyDelivery::Registered),
            // These are the bits of a unit's number, because no part of a query has a blinding
            // factor.
            combined_answer_bits: ((grid.columns * grid.groups) as f64).log2(),
            sizes: self.sizes(),
            hint_bits: exact_bits(),
            hint_determines_records: false,
            server_bytes: 0,
            memory_bytes: shape.plain_bytes(grid.parts() * grid.groups) + shape.leaves_bytes() as u64,
            work: self.work(),
            failure: self.exceedance(1.0),
            worst_failure: self.worst_failure(),
        }
    }

    fn exceedance(&self, share: f64) -> Option<Failure> {
        let ExpandedShape { set, columns, depth } = self.ring_shape();
        let fold = PaddedFold { set, columns, depth, expansion: self.ring_shape().expansion() };
        Some(Failure::bound(fold.exceedance_log2(self.grid.parts() * RingSet::DEGREE, share)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::{Choice, Preference};
    use crate::protocol::Protocol as _;

    #[test]
    fn three_units_lie_in_three_columns() {
        let choice = Choice { prefer: Preference::Time, ..Choice::default() };
        let unit = Params::choose(&choice, Seed::default(), 1, 1).unwrap().grid.unit_rows;
        let Params { grid, .. } = Params::choose(&choice, Seed::default(), 3, unit).unwrap();
        assert_eq!((grid.columns, grid.groups), (3, 1));
    }

    #[test]
    fn parameters_out_of_range_are_refused_by_name() {
        let unit_rows = unit_bytes(RingSet::Onion32);
        let grid = Grid { records: 600, record_bytes: unit_rows, unit_rows, groups: 2, columns: 512 };
        let most = Params { ring: "onion-32".into(), pad: Seed::default(), grid };
        most.validate().unwrap();
        let refused = [
            (Params { ring: "fast".into(), ..most.clone() }, "no ring set"),
            (Params { grid: Grid { columns: 513, ..grid }, ..most.clone() }, "columns must be at most 512"),
            (Params { grid: Grid { groups: (1 << 24) + 1, ..grid }, ..most.clone() }, "groups at most"),
            (Params { grid: Grid { unit_rows: unit_rows + 1, ..grid }, ..most.clone() }, "a unit must have"),
            (Params { grid: Grid { records: 1025, ..grid }, ..most.clone() }, "holds 1024 records"),
        ];
        for (params, named) in refused {
            let error = params.validate().unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
    }
}
