//! The shape that is chosen, and how a database is opened. Nothing is computed of it beforehand.

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

    /// One record in each row, or in as few rows as it takes.
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
        let parts = record_bytes.div_ceil(RowLayout::MAX_ROW_BYTES);
        let unit_rows = record_bytes.div_ceil(parts).next_multiple_of(word_bytes(shares));
        let grid = Grid { records, record_bytes, unit_rows, groups: 1, columns: 0 };
        let Some(grid) = grid.fit_columns(Spread::Rows, 1) else {
            return refused("these records are too many; split the table");
        };
        let params = Self { prf: choice.prf, shares, grid };
        match params.validate() {
            Ok(()) => Ok(params),
            Err(error) => refused(&format!("{error}; split the table")),
        }
    }

    fn choice(&self) -> Choice {
        self.shares.choose(Choice { protocol: self.name().into(), prf: self.prf, ..Choice::default() })
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
