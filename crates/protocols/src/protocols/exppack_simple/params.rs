//! Parameters and shapes.

use spirea_backend::RING_DEGREE;
use spirea_lattice::RingSet;
use spirea_math::random::SecretRng;

use crate::choice::KeyDelivery;
use crate::client::AnyIndexClient;
use crate::grid::{Grid, Spread};
use crate::packing::one_fold::PackedProtocol;
use crate::protocol::{Holdings, Specimens};
use crate::steps::Folded;
use crate::steps::folded::{FoldedParams, FoldedProtocol};
use crate::steps::shape::malformed;
use crate::{ProtocolError, Result};

/// ExpPack (S).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExppackSimple;

/// Parameters of a database under ExpPack (S).
pub type Params = FoldedParams<ExppackSimple>;

impl FoldedProtocol for ExppackSimple {
    const NAME: &'static str = "exppack-simple";
    const DELTA: &'static str = "exppack-simple";
    const DELIVERIES: &'static [KeyDelivery] = &KeyDelivery::ALL;
    const SPREAD: Spread = Spread::Columns;
    const SPECIMENS: Specimens = Specimens { small: &[(20, 900), (3, 9000)], large_record_bytes: 4096 };

    fn grids(records: u64, record_bytes: usize) -> impl Iterator<Item = Grid> {
        let blocks = (0..16).flat_map(|power| [4 << power, 5 << power, 6 << power, 7 << power]);
        [1, 2, 3].into_iter().chain(blocks).filter_map(move |blocks: usize| {
            let unit_rows = blocks * RingSet::DEGREE;
            let grid = Grid { records, record_bytes, unit_rows, groups: 1, columns: 0 };
            grid.fit_columns(Self::SPREAD, RING_DEGREE)
        })
    }

    fn read_bytes(params: &Params) -> f64 {
        let shape = params.shape();
        let pack = shape.ring.pack_read_bytes(shape.blocks());
        shape.scanned_bytes() as f64 + shape.asked() as f64 * pack
    }

    fn client(params: &Params, known: Holdings<'_>, rng: &mut SecretRng) -> Result<Box<dyn AnyIndexClient>> {
        params.packed_client(known, rng)
    }
}

impl PackedProtocol for ExppackSimple {
    fn validate_shape(folded: &Folded) -> Result<(), ProtocolError> {
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
}
