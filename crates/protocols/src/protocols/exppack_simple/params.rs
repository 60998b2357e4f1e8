//! Parameters and shapes.

use spirea_backend::{PANEL_ROWS, RING_DEGREE};
use spirea_lattice::RingSet;
use spirea_math::random::SecretRng;

use crate::choice::{Choice, KeyDelivery, MAX_BINS};
use crate::client::AnyIndexClient;
use crate::grid::{Grid, Spread};
use crate::packing::one_fold::PackedProtocol;
use crate::protocol::Holdings;
use crate::steps::Folded;
use crate::steps::folded::{FoldedParams, FoldedProtocol, counts};
use crate::steps::shape::{LookupCost, malformed};
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

    type Form = Folded;

    fn check_bins(choice: &Choice) -> Result<(), ProtocolError> {
        choice.check_bins()
    }

    fn bins(grid: &Grid) -> usize {
        grid.groups
    }

    fn grids(records: u64, record_bytes: usize, bins: usize) -> impl Iterator<Item = Grid> {
        counts(16).filter_map(move |count| {
            let unit_rows = count * multiple_of_rows(bins);
            let grid = Grid { records, record_bytes, unit_rows, groups: bins, columns: 0 };
            grid.fit_columns(Self::SPREAD, RING_DEGREE)
        })
    }

    fn cost(params: &Params) -> LookupCost {
        let shape = params.shape();
        let pack = shape.ring.pack_read_bytes(shape.blocks());
        let read_bytes = shape.scanned_bytes() as f64 + shape.asked() as f64 * pack;
        LookupCost::new(shape.sizes(), read_bytes)
    }

    fn client(params: &Params, known: Holdings<'_>, rng: &mut SecretRng) -> Result<Box<dyn AnyIndexClient>> {
        params.packed_client(known, rng)
    }
}

impl PackedProtocol for ExppackSimple {
    fn validate_shape(folded: &Folded) -> Result<(), ProtocolError> {
        let Grid { records, unit_rows, groups: bins, columns, .. } = folded.grid;
        if bins > MAX_BINS || bins as u128 * columns as u128 > MAX_COLUMNS_OF_BINS {
            let detail = "bins must be at most 2^16, and their columns 2^22 together";
            return Err(malformed(detail.into()));
        }
        folded.validate(Self::SPREAD)?;
        folded.validate_ring()?;
        let rows = multiple_of_rows(bins);
        if !unit_rows.is_multiple_of(rows) {
            return Err(malformed(format!("a unit must be a column of a multiple of {rows} rows")));
        }
        if records.div_ceil(folded.grid.records_per_unit() as u64) < bins as u64 {
            return Err(malformed(format!("{records} records are too few for {bins} bins")));
        }
        if folded.max_batch(folded.grid.parts()) == 0 {
            return Err(malformed("a record takes more columns than a batch has queries".into()));
        }
        Ok(())
    }
}

/// Maximum number of columns of all bins together, which is also the number of words in the bins'
/// encrypted unit vectors under one secret.
const MAX_COLUMNS_OF_BINS: u128 = 1 << 22;

/// Returns the number that must divide the number of rows of a unit. A packed ciphertext never has
/// rows of two units, except for units of different bins, which share ciphertexts.
fn multiple_of_rows(bins: usize) -> usize {
    if bins == 1 { RingSet::DEGREE } else { PANEL_ROWS }
}
