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
use crate::steps::reinterpret::{SPREAD, write_fixed};
use crate::steps::shape::{cheapest, lookup_cost};
use crate::{ProtocolError, Responder};

impl Protocol for Params {
    fn specimens() -> Specimens {
        Specimens { small: &[(20, 2), (3, 11)], large_record_bytes: 16 }
    }

    fn check(choice: &Choice) -> Result<(), ProtocolError> {
        choice.lwe_set().and(choice.packing_set()).map(drop)
    }

    fn choose(choice: &Choice, seed: Seed, records: u64, record_bytes: usize) -> Result<Self, ProtocolError> {
        let (lwe, ring) = (choice.lwe_set()?, Some(choice.packing_set()?.name().into()));
        let candidates = Folded::of_two_folds(lwe, ring, seed, records, record_bytes).map(Self);
        cheapest(records, record_bytes, candidates, Self::validate, |params| {
            let pack = params.ring_shape().pack_read_bytes(params.blocks());
            lookup_cost(params.sizes(), params.0.two_folds_read_bytes() + pack)
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
