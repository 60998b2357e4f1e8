//! Parameters and shapes.

use serde::{Deserialize, Serialize};
use spirea_backend::RING_DEGREE;
use spirea_lattice::{LweSet, RingSet};
use spirea_math::random::Seed;

use crate::ProtocolError;
use crate::grid::{Grid, Spread};
use crate::steps::Folded;
use crate::steps::packed::{PackedParams, PackedShape};
use crate::steps::shape::malformed;

/// Parameters of a database under ExpPack (S). Public; part of a snapshot's identity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Params(Folded);

impl From<Folded> for Params {
    fn from(folded: Folded) -> Self {
        Self(folded)
    }
}

impl PackedParams for Params {
    const NAME: &'static str = "exppack-simple";
    const SPREAD: Spread = Spread::Columns;

    fn folded(&self) -> &Folded {
        &self.0
    }

    fn folded_mut(&mut self) -> &mut Folded {
        &mut self.0
    }

    fn candidates(
        lwe: LweSet,
        ring: RingSet,
        seed: Seed,
        records: u64,
        record_bytes: usize,
    ) -> impl Iterator<Item = Folded> {
        let degree = ring.ring().degree();
        let blocks = (0..16).flat_map(|power| [4 << power, 5 << power, 6 << power, 7 << power]);
        [1, 2, 3].into_iter().chain(blocks).filter_map(move |blocks: usize| {
            let grid = Grid { records, record_bytes, unit_rows: blocks * degree, groups: 1, columns: 0 };
            let grid = grid.fit_columns(Self::SPREAD, RING_DEGREE)?;
            Some(Folded { set: lwe.name().into(), ring: Some(ring.name().into()), seed, grid })
        })
    }

    fn validate_shape(&self) -> Result<(), ProtocolError> {
        let Self(folded) = self;
        folded.validate(Self::SPREAD)?;
        let ring = folded.validate_ring()?;
        if folded.grid.groups != 1 || !folded.grid.unit_rows.is_multiple_of(ring.ring().degree()) {
            return Err(malformed("a unit must be a column of a multiple of the ring's degree".into()));
        }
        if folded.max_batch(folded.grid.parts()) == 0 {
            return Err(malformed("a record takes more columns than a batch has queries".into()));
        }
        Ok(())
    }

    fn read_bytes(shape: &PackedShape) -> f64 {
        let pack = shape.ring.pack_read_bytes(shape.blocks());
        shape.scanned_bytes() as f64 + shape.asked() as f64 * pack
    }
}
