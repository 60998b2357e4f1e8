//! Choice of the shape, and precomputation.

use std::sync::Arc;

use spirea_backend::RingBackend;
use spirea_math::random::SecretRng;

use super::server::DoublePacking;
use super::{Client, DoublePack, Params};
use crate::client::AnyIndexClient;
use crate::files::{Files, Precomputation};
use crate::grid::{Grid, Spread};
use crate::opening::Opening;
use crate::packing::scheme::{PackScheme, PackedServer};
use crate::parameters::Parameters as _;
use crate::protocol::{Holdings, Serve};
use crate::steps::Folded;
use crate::steps::folded::{FoldedProtocol, grids_of_blocks};
use crate::steps::ring::Shape as _;
use crate::steps::scalar_fold::{FirstQueries, MatrixRows};
use crate::steps::shape::LookupCost;
use crate::{Responder, Result};

/// Bytes of memory traffic that take as long as transforming one polynomial of the second hint.
const POLYNOMIAL_BYTES: f64 = (1 << 18) as f64;

impl FoldedProtocol for DoublePack {
    const NAME: &'static str = "double-pack";
    const DELTA: &'static str = "exppack-simple";
    const SPREAD: Spread = Spread::Rows;

    type Form = Folded;

    fn grids(records: u64, record_bytes: usize, _bins: usize) -> impl Iterator<Item = Grid> {
        grids_of_blocks(records, record_bytes)
    }

    fn cost(params: &Params) -> LookupCost {
        let (grid, shape) = (params.0.grid, params.ring_shape());
        let scan = (grid.rows(Self::SPREAD) * grid.columns) as f64;
        let parts = grid.parts() as f64;
        let second = (params.second_blocks() * shape.columns) as f64 * POLYNOMIAL_BYTES
            + (shape.response_bytes() * grid.groups * shape.columns) as f64 / 4.0;
        let pack = shape.pack_read_bytes(grid.parts() * grid.groups);
        LookupCost::new(params.sizes(), scan + pack + parts * second)
    }

    fn client(params: &Params, known: Holdings<'_>, rng: &mut SecretRng) -> Result<Box<dyn AnyIndexClient>> {
        Ok(Box::new(Client::new(params.clone(), known.keys, rng)?))
    }
}

impl<B: RingBackend> Serve<B> for Params {
    fn precompute(&self, backend: &Arc<B>, job: Precomputation<'_>) -> Result<()> {
        self.0.hint(Self::SPREAD, &**backend, job.matrix, job.progress)?.write(job.server)
    }

    fn open(&self, backend: &Arc<B>, files: &Files, opening: Opening) -> Result<Box<dyn Responder>> {
        self.validate()?;
        let (query, layout) =
            (FirstQueries { layout: self.layout(), columns: 1, bins: 1 }, self.0.layout(Self::SPREAD));
        let rows = MatrixRows::open(backend, layout, query, &files.matrix, opening)?;
        let scheme = opening.role.keeps(|| {
            let hint = self.0.read_hint(Self::SPREAD, &files.server)?;
            Ok(Box::new(DoublePacking::new(self, backend, &hint)?) as Box<dyn PackScheme<B>>)
        })?;
        Ok(Box::new(PackedServer { sizes: self.sizes(), max_batch: self.0.max_batch(1), rows, scheme }))
    }
}
