//! Parameters and shapes.

use serde::{Deserialize, Serialize};
use spirea_backend::{PANEL_ROWS, RING_DEGREE};
use spirea_lattice::LweSet;
use spirea_math::random::Seed;

use super::{SecondShape, dynamic_bytes};
use crate::grid::{Grid, Spread};
use crate::parameters::{Failure, Parameters, Sets, Stored};
use crate::planner::{Unit, Work};
use crate::steps::folded::{Folded, cheapest, lookup_cost, malformed, validate_outcome};
use crate::steps::lwe::ROUNDED_BYTES;
use crate::steps::noise;
use crate::{ProtocolError, Sizes};

/// Parameters of a database under DoublePIR. Public; part of a snapshot's identity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Params(pub(crate) Folded);

impl Params {
    pub(crate) const SPREAD: Spread = Spread::Columns;
    /// The most bytes of a unit: the hint has 13 MB for each.
    const MAX_UNIT_ROWS: usize = 1 << 10;

    /// The shape that costs a look-up the least.
    ///
    /// # Errors
    /// [`ProtocolError::BadRequest`] if the records do not fit any shape.
    pub fn choose(set: LweSet, seed: Seed, records: u64, record_bytes: usize) -> Result<Self, ProtocolError> {
        let candidates = Folded::of_two_folds(set, None, seed, records, record_bytes).map(Self);
        cheapest(records, record_bytes, candidates, Self::validate, |params| {
            lookup_cost(params.sizes(), params.0.two_folds_read_bytes())
        })
    }

    pub(super) fn second(&self) -> SecondShape {
        self.0.second()
    }
}

impl Folded {
    /// Candidate shapes of two folds.
    pub(crate) fn of_two_folds(
        set: LweSet,
        ring: Option<String>,
        seed: Seed,
        records: u64,
        record_bytes: usize,
    ) -> impl Iterator<Item = Self> {
        let units = (0..=10).map(move |power| record_bytes.div_ceil(1 << power)).chain([1, 2, 4, 8, 16, 32]);
        units.filter(move |&unit| unit <= record_bytes).flat_map(move |unit_rows| {
            let ring = ring.clone();
            (0..14).filter_map(move |power| {
                let grid =
                    Grid { records, record_bytes, unit_rows, groups: RING_DEGREE << power, columns: 0 };
                let grid = grid.fit_columns(Params::SPREAD, RING_DEGREE)?;
                Some(Self { set: set.name().into(), ring: ring.clone(), seed, grid })
            })
        })
    }

    /// Checks parameters of a protocol of two folds.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] that names what is out of range.
    pub(crate) fn validate_two_folds(&self) -> Result<(), ProtocolError> {
        self.validate(Params::SPREAD)?;
        let Grid { unit_rows, groups, .. } = self.grid;
        if unit_rows > Params::MAX_UNIT_ROWS || !groups.is_multiple_of(RING_DEGREE) {
            let most = Params::MAX_UNIT_ROWS;
            return Err(malformed(format!(
                "a unit must have at most {most} bytes, and a column a multiple of {RING_DEGREE} units"
            )));
        }
        if self.max_batch(self.grid.parts()) == 0 {
            return Err(malformed("a record takes more columns than a batch has queries".into()));
        }
        Ok(())
    }

    /// The shape of the second of two folds.
    pub(crate) fn second(&self) -> SecondShape {
        SecondShape::of(self.lwe_set(), &self.grid)
    }

    /// Bytes that a query of two folds reads.
    pub(crate) fn two_folds_read_bytes(&self) -> f64 {
        let second = self.second();
        let scan = self.grid.rows(Params::SPREAD) * self.grid.columns;
        (scan + second.fixed_rows() * second.groups) as f64
    }

    /// Work of two folds for a query: both scans, and the moving rows' hint.
    pub(crate) fn two_folds_work(&self) -> Vec<Work> {
        let (second, parts) = (self.second(), self.grid.parts());
        let bytes = self.grid.rows(Params::SPREAD) * self.grid.columns;
        let moving = (parts * second.moving_rows()).next_multiple_of(PANEL_ROWS) * second.groups;
        vec![
            // Both matrices are read once; every part beyond the first is arithmetic alone.
            Work::new("scalar_fold", Unit::ScannedByte, bytes + second.fixed_rows() * second.groups),
            Work::new("scalar_fold", Unit::Product, (parts - 1) * bytes),
            Work::new("module_fold", Unit::PublicColumn, second.groups * self.lwe_set().rank()),
            Work::new("module_fold", Unit::TransformedByte, moving),
        ]
    }

    /// Bytes of the fixed rows of the second fold.
    pub(crate) fn fixed_bytes(&self) -> u64 {
        self.second().fixed_layout().bytes() as u64
    }

    /// log2 of an estimate for two folds whose second is decoded from rounded words.
    pub(crate) fn two_folds_exceedance_log2(&self, second_rows: usize, share: f64) -> f64 {
        let first =
            noise::rounded_exceedance_log2(self.lwe_set(), self.grid.columns, self.grid.record_bytes, share);
        noise::either(
            first,
            noise::rounded_exceedance_log2(self.lwe_set(), self.grid.groups, second_rows, share),
        )
    }
}

impl Parameters for Params {
    fn name(&self) -> &'static str {
        "double"
    }

    fn set(&self) -> String {
        self.0.set.clone()
    }

    fn stored(&self) -> Stored {
        Stored::Panels { layout: self.0.layout(Self::SPREAD), grid: self.0.grid, spread: Self::SPREAD }
    }

    fn grid(&self) -> Grid {
        self.0.grid
    }

    fn server_bytes(&self) -> u64 {
        self.0.fixed_bytes()
    }

    fn validate(&self) -> Result<(), ProtocolError> {
        self.0.validate_two_folds()?;
        if self.0.ring.is_some() {
            return Err(malformed("the protocol has no ring".into()));
        }
        validate_outcome(self.sizes(), self.failure())
    }

    fn sizes(&self) -> Sizes {
        let (grid, second) = (self.0.grid, self.second());
        Sizes {
            query_bytes: (second.parts * grid.columns + grid.groups) * 4,
            answer_bytes: second.fixed_rows() * ROUNDED_BYTES + dynamic_bytes(&second),
            hint_bytes: second.fixed_rows() as u64 * self.0.lwe_set().degree() as u64 * 4,
            keys_bytes: 0,
        }
    }

    fn work(&self) -> Vec<Work> {
        self.0.two_folds_work()
    }

    fn memory_bytes(&self) -> u64 {
        self.stored().bytes() + self.0.fixed_bytes()
    }

    fn exceedance(&self, share: f64) -> Option<Failure> {
        let second = self.second();
        let rows = second.fixed_rows() + second.parts * second.moving_rows();
        Some(Failure::estimate(self.0.two_folds_exceedance_log2(rows, share)))
    }

    fn sets(&self) -> Sets {
        self.0.sets()
    }
}
