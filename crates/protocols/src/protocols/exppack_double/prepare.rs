//! The shape that is chosen, and what is computed of a database beforehand.

use std::path::Path;
use std::sync::Arc;

use spirea_backend::RingBackend;
use spirea_math::random::SecretRng;

use super::{Client, Params, Server};
use crate::client::AnyIndexClient;
use crate::files::{Files, Outputs};
use crate::grid::Grid;
use crate::keys::ClientKeys;
use crate::opening::Opening;
use crate::protocol::{Serve, Specimens};
use crate::steps::Folded;
use crate::steps::folded::FoldedParams;
use crate::steps::reinterpret::{SPREAD, grids_of_two_folds, write_fixed};
use crate::{ProtocolError, Responder};

impl From<Folded> for Params {
    fn from(folded: Folded) -> Self {
        Self(folded)
    }
}

impl FoldedParams for Params {
    const NAME: &'static str = "exppack-double";
    const DELTA: &'static str = "exppack-simple";
    const SPECIMENS: Specimens = Specimens { small: &[(20, 2), (3, 11)], large_record_bytes: 16 };

    fn folded(&self) -> &Folded {
        &self.0
    }

    fn folded_mut(&mut self) -> &mut Folded {
        &mut self.0
    }

    fn grids(records: u64, record_bytes: usize) -> impl Iterator<Item = Grid> {
        grids_of_two_folds(records, record_bytes)
    }

    fn read_bytes(&self) -> f64 {
        self.0.two_folds_read_bytes() + self.ring_shape().pack_read_bytes(self.blocks())
    }

    fn client_of(
        &self,
        _hint: &[u8],
        known: &[ClientKeys],
        rng: &mut SecretRng,
    ) -> Result<Box<dyn AnyIndexClient>, ProtocolError> {
        Ok(Box::new(Client::new(self.clone(), known, rng)?))
    }
}

impl<B: RingBackend> Serve<B> for Params {
    fn precompute(
        &self,
        backend: &Arc<B>,
        matrix: &Path,
        outputs: Outputs<'_>,
        progress: &mut dyn FnMut(f64),
    ) -> Result<(), ProtocolError> {
        let first = self.0.hint(SPREAD, &**backend, matrix, progress)?;
        write_fixed(&self.second(), &first, outputs.server)
    }

    fn open(
        &self,
        backend: &Arc<B>,
        files: &Files,
        opening: Opening,
    ) -> Result<Box<dyn Responder>, ProtocolError> {
        let (matrix, fixed) = self.0.open_two_folds(&**backend, files, opening.residence)?;
        Ok(Box::new(Server::new(self.clone(), Arc::clone(backend), matrix, fixed)?))
    }
}
