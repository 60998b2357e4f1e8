//! The shape that is chosen, and what is computed of a database beforehand.

use std::path::Path;
use std::sync::Arc;

use spirea_backend::RingBackend;
use spirea_math::random::{SecretRng, Seed};

use super::{Client, Params, Server};
use crate::choice::Choice;
use crate::client::AnyIndexClient;
use crate::files::{Files, Outputs};
use crate::keys::ClientKeys;
use crate::opening::Opening;
use crate::parameters::Parameters;
use crate::protocol::{Protocol, Serve, Specimens};
use crate::steps::Folded;
use crate::steps::shape::{cheapest, lookup_cost};
use crate::{ProtocolError, Responder};

/// Bytes of memory traffic that take as long as transforming a polynomial of the second hint.
const POLYNOMIAL_BYTES: f64 = (1 << 18) as f64;

impl Protocol for Params {
    fn specimens() -> Specimens {
        Specimens { small: &[(20, 900), (3, 9000)], large_record_bytes: 4096 }
    }

    fn check(choice: &Choice) -> Result<(), ProtocolError> {
        choice.lwe_set().and(choice.packing_set()).map(drop)
    }

    fn choose(choice: &Choice, seed: Seed, records: u64, record_bytes: usize) -> Result<Self, ProtocolError> {
        let (lwe, ring) = (choice.lwe_set()?, choice.packing_set()?);
        let candidates = Folded::of_blocks(lwe, ring, seed, records, record_bytes).map(Self);
        cheapest(records, record_bytes, candidates, Self::validate, |params| {
            let (grid, shape) = (params.0.grid, params.ring_shape());
            let scan = (grid.rows(Self::SPREAD) * grid.columns) as f64;
            let parts = grid.parts() as f64;
            let second = (params.second_blocks() * shape.columns) as f64 * POLYNOMIAL_BYTES
                + (shape.response_bytes() * grid.groups * shape.columns) as f64 / 4.0;
            let pack = shape.pack_read_bytes(grid.parts() * grid.groups);
            lookup_cost(params.sizes(), scan + pack + parts * second)
        })
    }

    fn choice(&self) -> Choice {
        self.0.choice_of(self.name())
    }

    fn delta_choice(&self) -> Choice {
        self.0.choice_of("exppack-simple")
    }

    fn seed(&self) -> Option<Seed> {
        Some(self.0.seed)
    }

    fn reseed(&mut self, seed: Seed) {
        self.0.seed = seed;
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
        self.0.hint(Self::SPREAD, &**backend, matrix, progress)?.write(outputs.server)
    }

    fn open(
        &self,
        backend: &Arc<B>,
        files: &Files,
        opening: Opening,
    ) -> Result<Box<dyn Responder>, ProtocolError> {
        let matrix = backend.open(self.0.layout(Self::SPREAD), &files.matrix, opening.residence)?;
        let hint = self.0.read_hint(Self::SPREAD, &files.server)?;
        Ok(Box::new(Server::new(self.clone(), Arc::clone(backend), matrix, &hint)?))
    }
}
