//! Parameters and shapes.

use serde::{Deserialize, Serialize};
use spirea_backend::RING_DEGREE;
use spirea_lattice::RingSet;
use spirea_math::random::SecretRng;

use crate::ProtocolError;
use crate::client::AnyIndexClient;
use crate::grid::{Grid, Spread};
use crate::keys::ClientKeys;
use crate::protocol::Specimens;
use crate::steps::Folded;
use crate::steps::folded::FoldedParams;
use crate::steps::packed::PackedParams;
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

impl FoldedParams for Params {
    const NAME: &'static str = "exppack-simple";
    const DELTA: &'static str = "exppack-simple";
    const SPECIMENS: Specimens = Specimens { small: &[(20, 900), (3, 9000)], large_record_bytes: 4096 };

    fn folded(&self) -> &Folded {
        &self.0
    }

    fn folded_mut(&mut self) -> &mut Folded {
        &mut self.0
    }

    fn grids(records: u64, record_bytes: usize) -> impl Iterator<Item = Grid> {
        let blocks = (0..16).flat_map(|power| [4 << power, 5 << power, 6 << power, 7 << power]);
        [1, 2, 3].into_iter().chain(blocks).filter_map(move |blocks: usize| {
            let unit_rows = blocks * RingSet::DEGREE;
            let grid = Grid { records, record_bytes, unit_rows, groups: 1, columns: 0 };
            grid.fit_columns(Self::SPREAD, RING_DEGREE)
        })
    }

    fn read_bytes(&self) -> f64 {
        let shape = self.shape();
        let pack = shape.ring.pack_read_bytes(shape.blocks());
        shape.scanned_bytes() as f64 + shape.asked() as f64 * pack
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
    const SPREAD: Spread = Spread::Columns;

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
}
