//! Parameters and shapes.

use serde::{Deserialize, Serialize};
use spirea_lattice::rlwe::KeyShape;
use spirea_lattice::{LweSet, RingSet};
use spirea_math::random::Seed;

use crate::grid::{Grid, Spread};
use crate::parameters::{Failure, Parameters, Sets, Stored};
use crate::planner::{Unit, Work};
use crate::steps::folded::{Folded, cheapest, lookup_cost, validate_outcome};
use crate::steps::noise;
use crate::steps::ring::RingShape;
use crate::{ProtocolError, Sizes};

/// Parameters of a database under the hybrid protocol. Public; part of a snapshot's identity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Params(pub(crate) Folded);

impl Params {
    pub(crate) const SPREAD: Spread = Spread::Rows;

    /// The shape that costs a look-up the least.
    ///
    /// # Errors
    /// [`ProtocolError::BadRequest`] if the records do not fit any shape.
    pub fn choose(
        set: LweSet,
        ring: RingSet,
        seed: Seed,
        records: u64,
        record_bytes: usize,
    ) -> Result<Self, ProtocolError> {
        let candidates = Folded::of_blocks(set, ring, seed, records, record_bytes).map(Self);
        cheapest(records, record_bytes, candidates, Self::validate, |params| {
            let (grid, shape) = (params.0.grid, params.ring_shape());
            let blocks = grid.parts() * grid.groups;
            let scan = (grid.rows(Self::SPREAD) * grid.columns) as f64;
            lookup_cost(
                params.sizes(),
                scan + shape.pack_read_bytes(blocks) + shape.select_read_bytes(blocks),
            )
        })
    }

    pub(super) fn ring_shape(&self) -> RingShape {
        RingShape::packing(self.0.lwe_set(), self.0.ring_set(), self.0.grid.groups)
    }
}

impl Parameters for Params {
    fn name(&self) -> &'static str {
        "hybrid"
    }

    fn set(&self) -> String {
        format!("{}+{}", self.0.set, self.0.ring_set().name())
    }

    fn stored(&self) -> Stored {
        Stored::Panels { layout: self.0.layout(Self::SPREAD), grid: self.0.grid, spread: Self::SPREAD }
    }

    fn grid(&self) -> Grid {
        self.0.grid
    }

    fn server_bytes(&self) -> u64 {
        self.0.grid.rows(Self::SPREAD) as u64 * self.0.lwe_set().degree() as u64 * 4
    }

    fn validate(&self) -> Result<(), ProtocolError> {
        self.0.validate_blocks()?;
        validate_outcome(self.sizes(), self.failure())
    }

    fn key_shape(&self) -> Option<KeyShape> {
        Some(self.ring_shape().keys())
    }

    fn sizes(&self) -> Sizes {
        let shape = self.ring_shape();
        Sizes {
            query_bytes: self.0.grid.columns * 4 + shape.query_bytes(),
            answer_bytes: self.0.grid.parts() * shape.response_bytes(),
            hint_bytes: 0,
            keys_bytes: shape.keys().bytes(),
        }
    }

    fn work(&self) -> Vec<Work> {
        let (shape, grid, parts) = (self.ring_shape(), self.0.grid, self.0.grid.parts());
        let scanned = grid.rows(Self::SPREAD) * grid.columns;
        let mut work = vec![Work::new("scalar_fold", Unit::ScannedByte, scanned)];
        work.extend(shape.expand_work());
        work.push(shape.fold_work(parts, grid.groups));
        work.extend(shape.select_work(grid.groups, parts));
        work.push(shape.switch_work(parts));
        work
    }

    fn memory_bytes(&self) -> u64 {
        let (shape, grid) = (self.ring_shape(), self.0.grid);
        self.stored().bytes() + shape.plain_bytes(grid.parts() * grid.groups) + shape.leaves_bytes() as u64
    }

    fn exceedance(&self, share: f64) -> Option<Failure> {
        let Grid { columns, record_bytes, .. } = self.0.grid;
        let packed =
            noise::packed_exceedance_log2(self.0.lwe_set(), columns, &self.ring_shape(), record_bytes, share);
        Some(Failure::estimate(packed))
    }

    fn sets(&self) -> Sets {
        self.0.sets()
    }
}
