//! Parameters and shapes.

use spirea_math::random::SecretRng;

use crate::choice::KeyDelivery;
use crate::client::AnyIndexClient;
use crate::grid::{Grid, Spread};
use crate::packing::one_fold::PackedProtocol;
use crate::protocol::Holdings;
use crate::steps::Folded;
use crate::steps::folded::{FoldedParams, FoldedProtocol, grids_of_blocks};
use crate::steps::select::select_read_bytes;
use crate::steps::shape::{LookupCost, malformed};
use crate::{ProtocolError, Result};

/// The hybrid protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hybrid;

/// Parameters of a database under the hybrid protocol.
pub type Params = FoldedParams<Hybrid>;

impl FoldedProtocol for Hybrid {
    const NAME: &'static str = "hybrid";
    const DELTA: &'static str = "exppack-simple";
    const DELIVERIES: &'static [KeyDelivery] = &KeyDelivery::ALL;
    const SPREAD: Spread = Spread::Rows;

    type Form = Folded;

    fn grids(records: u64, record_bytes: usize, _bins: usize) -> impl Iterator<Item = Grid> {
        grids_of_blocks(records, record_bytes)
    }

    fn cost(params: &Params) -> LookupCost {
        let shape = params.shape();
        let blocks = shape.parts() * shape.blocks();
        let select = select_read_bytes(shape.ring.set(), blocks);
        let pack = shape.ring.pack_read_bytes(blocks);
        LookupCost::new(shape.sizes(), shape.scanned_bytes() as f64 + pack + select)
    }

    fn client(params: &Params, known: Holdings<'_>, rng: &mut SecretRng) -> Result<Box<dyn AnyIndexClient>> {
        params.packed_client(known, rng)
    }
}

impl PackedProtocol for Hybrid {
    fn validate_shape(folded: &Folded) -> Result<(), ProtocolError> {
        folded.validate_blocks()?;
        if folded.keys == KeyDelivery::PerQuery && folded.grid.groups != 1 {
            return Err(malformed(
                "where queries bring their keys, nothing is selected: a column has one group".into(),
            ));
        }
        Ok(())
    }
}
