//! Choice of the shape, and opening of a database. Nothing is precomputed.

use std::sync::Arc;

use spirea_backend::{RowLayout, ShareBackend};
use spirea_math::random::{SecretRng, Seed};

use super::Client;
use super::params::{Params, Shares, word_bytes};
use super::server::{RecordRows, Server};
use crate::choice::Choice;
use crate::client::AnyIndexClient;
use crate::files::Files;
use crate::grid::{Grid, Spread};
use crate::opening::Opening;
use crate::parameters::Parameters;
use crate::protocol::{Holdings, Protocol, Serve};
use crate::{ProtocolError, Responder, Result};

impl<S: Shares> Protocol for Params<S> {
    fn check(choice: &Choice) -> Result<(), ProtocolError> {
        choice.check_prf()
    }

    fn check_bins(choice: &Choice) -> Result<(), ProtocolError> {
        choice.check_bins()
    }

    /// Puts each record into one row, or into the fewest rows that hold it, and adds rows after the
    /// last record to fill the bins.
    fn choose(
        choice: &Choice,
        _seed: Seed,
        records: u64,
        record_bytes: usize,
    ) -> Result<Self, ProtocolError> {
        choice.check_prf()?;
        let shares = S::chosen(choice);
        let refused = |detail: &str| Err(ProtocolError::BadRequest(detail.into()));
        if records == 0 || record_bytes == 0 {
            return refused("a table needs at least one record of at least one byte");
        }
        if choice.bins as u64 > records {
            return refused(&format!("{} bins of {records} records: leave some away", choice.bins));
        }
        let parts = record_bytes.div_ceil(RowLayout::MAX_ROW_BYTES);
        let unit_rows = record_bytes.div_ceil(parts).next_multiple_of(word_bytes(shares));
        let grid = Grid { records, record_bytes, unit_rows, groups: 1, columns: 0 };
        let Some(grid) = grid.fit_columns(Spread::Rows, choice.bins) else {
            return refused("these records are too many; split the table");
        };
        let params = Self { prf: choice.prf, shares, grid, bins: choice.bins };
        match params.validate() {
            Ok(()) => Ok(params),
            Err(error) => refused(&format!("{error}; split the table")),
        }
    }

    fn choice(&self) -> Choice {
        let (protocol, prf, bins) = (S::PROTOCOL.into(), self.prf, self.bins);
        self.shares.choose(Choice { protocol, prf, bins, ..Choice::default() })
    }

    /// Drops the bins: a delta is queried for one entry at a time.
    fn delta_choice(&self) -> Choice {
        Choice { bins: 1, ..self.choice() }
    }

    fn client_of(&self, _: Holdings<'_>, _: &mut SecretRng) -> Result<Box<dyn AnyIndexClient>> {
        Ok(Box::new(Client::new(self.clone())?))
    }
}

impl<S: Shares, B: ShareBackend> Serve<B> for Params<S> {
    fn open(&self, backend: &Arc<B>, files: &Files, opening: Opening) -> Result<Box<dyn Responder>> {
        self.validate()?;
        Ok(Box::new(Server(RecordRows::open(self.clone(), backend, &files.matrix, opening)?)))
    }
}
