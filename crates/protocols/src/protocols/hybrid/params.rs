//! Parameters and shapes.

use serde::{Deserialize, Serialize};
use spirea_math::random::SecretRng;

use crate::ProtocolError;
use crate::client::AnyIndexClient;
use crate::grid::{Grid, Spread};
use crate::keys::ClientKeys;
use crate::protocol::Specimens;
use crate::steps::Folded;
use crate::steps::folded::{FoldedParams, grids_of_blocks};
use crate::steps::packed::PackedParams;

/// Parameters of a database under the hybrid protocol. Public; part of a snapshot's identity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Params(Folded);

impl From<Folded> for Params {
    fn from(folded: Folded) -> Self {
        Self(folded)
    }
}

impl FoldedParams for Params {
    const NAME: &'static str = "hybrid";
    const DELTA: &'static str = "exppack-simple";
    const SPECIMENS: Specimens = Specimens { small: &[(20, 900), (3, 9000)], large_record_bytes: 4096 };

    fn folded(&self) -> &Folded {
        &self.0
    }

    fn folded_mut(&mut self) -> &mut Folded {
        &mut self.0
    }

    fn grids(records: u64, record_bytes: usize) -> impl Iterator<Item = Grid> {
        grids_of_blocks(records, record_bytes)
    }

    fn read_bytes(&self) -> f64 {
        let shape = self.shape();
        let blocks = shape.parts() * shape.blocks();
        shape.scanned_bytes() as f64
            + shape.ring.pack_read_bytes(blocks)
            + shape.ring.select_read_bytes(blocks)
    }

    fn client_of(
        &self,
        _hint: &[u8],
        known: &[ClientKeys],
        rng: &mut SecretRng,
    ) -> Result<Box<dyn AnyIndexClient>, ProtocolError> {
        self.packed_client(known, rng)
    }
}

impl PackedParams for Params {
    const SPREAD: Spread = Spread::Rows;

    fn validate_shape(&self) -> Result<(), ProtocolError> {
        self.0.validate_blocks()
    }
}
