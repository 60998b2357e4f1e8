//! Parameters and shapes.

use serde::{Deserialize, Serialize};
use spirea_lattice::{LweSet, RingSet};
use spirea_math::random::Seed;

use crate::ProtocolError;
use crate::grid::Spread;
use crate::steps::Folded;
use crate::steps::packed::{PackedParams, PackedShape};

/// Parameters of a database under the hybrid protocol. Public; part of a snapshot's identity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Params(Folded);

impl From<Folded> for Params {
    fn from(folded: Folded) -> Self {
        Self(folded)
    }
}

impl PackedParams for Params {
    const NAME: &'static str = "hybrid";
    const SPREAD: Spread = Spread::Rows;

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
        Folded::of_blocks(lwe, ring, seed, records, record_bytes)
    }

    fn validate_shape(&self) -> Result<(), ProtocolError> {
        self.0.validate_blocks()
    }

    fn read_bytes(shape: &PackedShape) -> f64 {
        let blocks = shape.parts() * shape.blocks();
        shape.scanned_bytes() as f64
            + shape.ring.pack_read_bytes(blocks)
            + shape.ring.select_read_bytes(blocks)
    }
}
