//! Choice of the shape, and opening of a database. Nothing is precomputed: transforming the
//! polynomials on loading is faster than reading the result, which is four times larger, from a
//! disk.

use std::sync::Arc;

use spirea_backend::RingBackend;
use spirea_math::random::{SecretRng, Seed};

use super::params::{NAME, ring_sets, unit_bytes};
use super::server::{PolynomialRows, Server};
use super::{Client, Params};
use crate::choice::Choice;
use crate::client::AnyIndexClient;
use crate::files::{Files, Units};
use crate::grid::Grid;
use crate::opening::{Opening, Role};
use crate::parameters::Parameters;
use crate::protocol::{Holdings, Protocol, Serve};
use crate::steps::ring::Shape as _;
use crate::steps::select::select_read_bytes;
use crate::steps::shape::{LookupCost, cheapest};
use crate::{ProtocolError, Responder, Result};

impl Protocol for Params {
    fn check(choice: &Choice) -> Result<(), ProtocolError> {
        choice.ring_set(choice.security.onion_set(), ring_sets().collect()).map(drop)
    }

    fn choose(choice: &Choice, seed: Seed, records: u64, record_bytes: usize) -> Result<Self, ProtocolError> {
        let ring = choice.ring_set(choice.security.onion_set(), ring_sets().collect())?;
        let unit_rows = unit_bytes(ring);
        let columns = (0..=9).flat_map(|power| [1 << power, 3 << power >> 1]);
        let candidates =
            columns.filter(|&columns| columns <= Self::MAX_COLUMNS).filter_map(|columns: usize| {
                let grid = Grid { records, record_bytes, unit_rows, groups: 1, columns };
                let units = records.div_ceil(grid.records_per_unit() as u64);
                let groups = usize::try_from(units.div_ceil(columns as u64)).ok()?;
                Some(Self { ring: ring.name().into(), pad: seed, grid: Grid { groups, ..grid } })
            });
        cheapest(choice.prefer, records, record_bytes, candidates, &[Self::validate], |params| {
            let (grid, shape) = (params.grid, params.ring_shape());
            let blocks = grid.parts() * grid.groups;
            LookupCost::new(params.sizes(), shape.pack_read_bytes(blocks) + select_read_bytes(ring, blocks))
        })
    }

    fn choice(&self) -> Choice {
        Choice { protocol: NAME.into(), ring: Some(self.ring.clone()), ..Choice::default() }
    }

    fn seed(&self) -> Option<Seed> {
        Some(self.pad)
    }

    fn reseed(&mut self, seed: Seed) {
        self.pad = seed;
    }

    fn client_of(&self, known: Holdings<'_>, rng: &mut SecretRng) -> Result<Box<dyn AnyIndexClient>> {
        Ok(Box::new(Client::new(self.clone(), known.keys, rng)?))
    }
}

impl<B: RingBackend> Serve<B> for Params {
    fn open(&self, backend: &Arc<B>, files: &Files, opening: Opening) -> Result<Box<dyn Responder>> {
        self.validate()?;
        let role = opening.role;
        if let Role::Joins(_) = role {
            // A server that folds nothing needs no file to read from.
            let rows = PolynomialRows::new(self.clone(), Arc::clone(backend), role, |_, _| ())?;
            return Ok(Box::new(Server(rows)));
        }
        let units = Units::open(&files.matrix, self.stored())?;
        let read = |unit: usize, bytes: &mut [u8]| units.read(unit, bytes);
        let rows = PolynomialRows::new(self.clone(), Arc::clone(backend), role, read)?;
        units.check()?;
        Ok(Box::new(Server(rows)))
    }
}
