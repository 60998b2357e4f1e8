//! Parameters and shapes.

use serde::{Deserialize, Serialize};
use spirea_backend::RING_DEGREE;
use spirea_lattice::rlwe::KeyShape;
use spirea_lattice::{LweSet, RingSet};
use spirea_math::random::Seed;

use crate::grid::{Grid, Spread};
use crate::parameters::{Failure, Parameters, Sets, Stored};
use crate::planner::{Unit, Work};
use crate::steps::folded::{Folded, cheapest, lookup_cost, malformed, validate_outcome};
use crate::steps::noise;
use crate::steps::ring::RingShape;
use crate::{ProtocolError, Sizes};

/// Parameters of a database under ExpPack (S). Public; part of a snapshot's identity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Params(pub(crate) Folded);

impl Params {
    pub(crate) const SPREAD: Spread = Spread::Columns;

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
        let degree = ring.ring().degree();
        let candidates = (0..16).flat_map(|power| [4 << power, 5 << power, 6 << power, 7 << power]);
        let candidates = [1, 2, 3].into_iter().chain(candidates).filter_map(|blocks: usize| {
            let grid = Grid { records, record_bytes, unit_rows: blocks * degree, groups: 1, columns: 0 };
            let grid = grid.fit_columns(Self::SPREAD, RING_DEGREE)?;
            Some(Self(Folded { set: set.name().into(), ring: Some(ring.name().into()), seed, grid }))
        });
        cheapest(records, record_bytes, candidates, Self::validate, |params| {
            let grid = params.0.grid;
            let parts = grid.parts() as f64;
            let scan = (grid.rows(Self::SPREAD) * grid.columns) as f64;
            lookup_cost(params.sizes(), scan + parts * params.ring_shape().pack_read_bytes(params.blocks()))
        })
    }

    /// RLWE ciphertexts that a column's answers are packed into.
    pub(super) fn blocks(&self) -> usize {
        self.0.grid.unit_rows / self.ring_shape().degree()
    }

    pub(super) fn ring_shape(&self) -> RingShape {
        RingShape::packing(self.0.lwe_set(), self.0.ring_set(), 1)
    }

    /// Bytes of the query of one part: bodies and the encryption of their secret.
    pub(super) fn part_bytes(&self) -> usize {
        self.0.grid.columns * 4 + self.ring_shape().query_bytes()
    }
}

impl Parameters for Params {
    fn name(&self) -> &'static str {
        "exppack-simple"
    }

    fn set(&self) -> String {
        format!("{}+{}", self.0.set, self.0.ring_set().name())
    }

    fn stored(&self) -> Stored {
        Stored::Panels { layout: self.0.layout(Self::SPREAD), grid: self.0.grid, spread: Self::SPREAD }
    }

    fn server_bytes(&self) -> u64 {
        self.0.grid.unit_rows as u64 * self.0.lwe_set().degree() as u64 * 4
    }

    fn validate(&self) -> Result<(), ProtocolError> {
        self.0.validate(Self::SPREAD)?;
        let ring = self.0.validate_ring()?;
        if self.0.grid.groups != 1 || !self.0.grid.unit_rows.is_multiple_of(ring.ring().degree()) {
            return Err(malformed("a unit must be a column of a multiple of the ring's degree".into()));
        }
        if self.0.max_batch(self.0.grid.parts()) == 0 {
            return Err(malformed("a record takes more columns than a batch has queries".into()));
        }
        validate_outcome(self.sizes(), self.failure())
    }

    fn key_shape(&self) -> Option<KeyShape> {
        Some(self.ring_shape().keys())
    }

    fn sizes(&self) -> Sizes {
        let (shape, parts) = (self.ring_shape(), self.0.grid.parts());
        Sizes {
            query_bytes: parts * self.part_bytes(),
            answer_bytes: parts * self.blocks() * shape.response_bytes(),
            hint_bytes: 0,
            keys_bytes: shape.keys().bytes(),
        }
    }

    fn grid(&self) -> Grid {
        self.0.grid
    }

    fn work(&self) -> Vec<Work> {
        let (shape, grid, parts) = (self.ring_shape(), self.0.grid, self.0.grid.parts());
        let scanned = grid.rows(Self::SPREAD) * grid.columns;
        let mut work = vec![Work::new("scalar_fold", Unit::ScannedByte, scanned)];
        work.extend(shape.expand_work());
        work.extend([shape.fold_work(1, self.blocks()), shape.switch_work(self.blocks())]);
        // Each part is a query of its own.
        work.iter_mut().for_each(|work| work.count *= parts as f64);
        work
    }

    fn memory_bytes(&self) -> u64 {
        let shape = self.ring_shape();
        self.stored().bytes() + shape.plain_bytes(self.blocks()) + shape.leaves_bytes() as u64
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
