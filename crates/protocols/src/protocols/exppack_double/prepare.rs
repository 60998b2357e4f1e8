//! Choice of the shape, and precomputation.

use std::sync::Arc;

use spirea_backend::RingBackend;
use spirea_math::random::SecretRng;

use super::server::SecondFold;
use super::{Client, ExppackDouble, Params};
use crate::choice::KeyDelivery;
use crate::client::AnyIndexClient;
use crate::files::{Files, Precomputation};
use crate::grid::{Grid, Spread};
use crate::opening::Opening;
use crate::packing::scheme::{PackScheme, PackedServer};
use crate::parameters::Parameters as _;
use crate::protocol::{Holdings, Serve};
use crate::steps::Folded;
use crate::steps::folded::FoldedProtocol;
use crate::steps::reinterpret::{SPREAD, grids_of_two_folds, precompute, write_fixed};
use crate::steps::shape::LookupCost;
use crate::{Responder, Result};

impl FoldedProtocol for ExppackDouble {
    const NAME: &'static str = "exppack-double";
    const DELTA: &'static str = "exppack-simple";
    const DELIVERIES: &'static [KeyDelivery] = &KeyDelivery::ALL;
    const SPREAD: Spread = SPREAD;

    type Form = Folded;

    fn grids(records: u64, record_bytes: usize, _bins: usize) -> impl Iterator<Item = Grid> {
        grids_of_two_folds(records, record_bytes)
    }

    fn cost(params: &Params) -> LookupCost {
        let pack = params.ring_shape().pack_read_bytes(params.blocks());
        LookupCost::new(params.sizes(), params.0.two_folds_read_bytes() + pack)
    }

    fn client(params: &Params, known: Holdings<'_>, rng: &mut SecretRng) -> Result<Box<dyn AnyIndexClient>> {
        Ok(Box::new(Client::new(params.clone(), known, rng)?))
    }
}

impl<B: RingBackend> Serve<B> for Params {
    fn precompute(&self, backend: &Arc<B>, job: Precomputation<'_>) -> Result<()> {
        let first = self.0.hint(SPREAD, &**backend, job.matrix, job.progress)?;
        let shape = self.ring_shape();
        if shape.hint_bytes() == 0 {
            return write_fixed(&self.second(), &first, job.server);
        }
        let public = self.0.second_matrix(self.0.grid.groups);
        let hint = precompute(&**backend, &self.second(), &first, &public, job.server)?;
        shape.write_hint(backend, &self.0.seed, self.rows(), &hint, job.hint)
    }

    fn open(&self, backend: &Arc<B>, files: &Files, opening: Opening) -> Result<Box<dyn Responder>> {
        self.validate()?;
        let rows = self.0.open_first(backend, self.layout(), files, opening)?;
        let scheme = opening.role.keeps(|| {
            let second = self.0.open_second(backend, files, opening.residence)?;
            Ok(Box::new(SecondFold::new(self, second)?) as Box<dyn PackScheme<B>>)
        })?;
        let (sizes, max_batch) = (self.sizes(), self.0.max_batch(self.second().parts));
        Ok(Box::new(PackedServer { sizes, max_batch, rows, scheme }))
    }
}
