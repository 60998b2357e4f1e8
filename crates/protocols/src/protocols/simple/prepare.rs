//! Choice of the shape, precomputation, and its update after changes.

use std::sync::Arc;

use spirea_backend::{Backend, PANEL_ROWS, RING_DEGREE};
use spirea_math::random::{SecretRng, Seed};

use super::server::Server;
use super::{Client, Params};
use crate::choice::{Choice, HintForm};
use crate::client::AnyIndexClient;
use crate::files::{ChangedRecord, Files, PatchedFiles, Precomputation};
use crate::grid::Spread;
use crate::opening::Opening;
use crate::parameters::Parameters;
use crate::protocol::{Holdings, Protocol, Serve};
use crate::steps::LweHint;
use crate::steps::changes::differences;
use crate::steps::hint::{exact_bits, is_exact, patch_hint, patch_rounded_hint};
use crate::steps::scalar_fold::{FirstQueries, MatrixRows};
use crate::steps::shape::{LookupCost, preferred};
use crate::{ProtocolError, Responder, Result};

impl Protocol for Params {
    fn check(choice: &Choice) -> Result<(), ProtocolError> {
        choice.lwe_set().map(drop)
    }

    fn choose(choice: &Choice, seed: Seed, records: u64, record_bytes: usize) -> Result<Self, ProtocolError> {
        let set = choice.lwe_set()?.name();
        if records == 0 || record_bytes == 0 {
            let detail = "a table needs at least one record of at least one byte";
            return Err(ProtocolError::BadRequest(detail.into()));
        }
        let shape = |rows: usize, records_per_column: u64, record_columns: u64| {
            let columns = u128::from(records.div_ceil(records_per_column)) * u128::from(record_columns);
            let columns = columns.next_multiple_of(RING_DEGREE as u128);
            let rows = rows.next_multiple_of(PANEL_ROWS);
            (columns <= Self::MAX_COLUMNS as u128).then(|| {
                let (set, columns, hint_bits) = (set.into(), columns as usize, exact_bits());
                Self { set, seed, records, record_bytes, rows, columns, hint_bits }
            })
        };
        let split = (1..=Self::MAX_RECORD_COLUMNS).map(|k| shape(record_bytes.div_ceil(k), 1, k as u64));
        // Candidates for the number of whole records in a column, in steps of a sixteenth. Finer
        // steps gain nothing.
        let shared = std::iter::successors(Some(2u64), |&share| Some(share + share.div_ceil(16)))
            .take_while(|&share| share < 2 * records && u128::from(share) * (record_bytes as u128) < 1 << 40)
            .map(|share| shape(record_bytes * share.min(records) as usize, share.min(records), 1));
        let cost = |params: &Self| LookupCost::new(params.sizes(), (params.rows * params.columns) as f64);
        // Chooses the shape for a whole hint, and rounds the hint afterwards. A table therefore has
        // one shape in both forms, and a rounded hint has half the bytes. If the shape were chosen
        // for a rounded hint, a matrix of 1 GiB and its hint would be a fifth taller, which would
        // save only an eighth of the query.
        let valid = split.chain(shared).flatten().filter(|params| params.validate().is_ok());
        let chosen = preferred(choice.prefer, valid.map(|params| (cost(&params), params)));
        chosen.map(|params| params.with_hint(choice.hint)).ok_or_else(|| {
            ProtocolError::BadRequest(format!(
                "{records} records of {record_bytes} bytes do not fit a matrix; split the table"
            ))
        })
    }

    fn choice(&self) -> Choice {
        let (set, hint) = (Some(self.set.clone()), HintForm::of_bits(self.hint_bits));
        Choice { protocol: self.name().into(), set, hint, ..Choice::default() }
    }

    fn seed(&self) -> Option<Seed> {
        Some(self.seed)
    }

    fn reseed(&mut self, seed: Seed) {
        self.seed = seed;
    }

    fn hint_lasts(&self) -> bool {
        true
    }

    fn client_of(&self, known: Holdings<'_>, _: &mut SecretRng) -> Result<Box<dyn AnyIndexClient>> {
        Ok(Box::new(Client::new(self.clone(), known.hint)?))
    }
}

impl<B: Backend> Serve<B> for Params {
    fn precompute(&self, backend: &Arc<B>, job: Precomputation<'_>) -> Result<()> {
        let hint =
            LweHint::of_file(&**backend, self.layout(), &self.public_matrix(), job.matrix, job.progress)?;
        hint.write_rounded(self.hint_bits, job.hint)
    }

    fn patch(&self, backend: &Arc<B>, files: &PatchedFiles<'_>, changes: &[ChangedRecord]) -> Result<()> {
        let differences = differences(self.grid(), Spread::Columns, changes)?;
        if is_exact(&self.hint_bits) {
            return patch_hint(files.hint, self.rows, self.public_matrix(), differences);
        }
        let (hint, matrix) = ((files.hint, self.hint_bits), (files.matrix, self.stored()));
        patch_rounded_hint(&**backend, hint, matrix, &self.public_matrix(), differences)
    }

    fn open(&self, backend: &Arc<B>, files: &Files, opening: Opening) -> Result<Box<dyn Responder>> {
        self.validate()?;
        let query = FirstQueries { layout: self.query_layout(), columns: self.record_columns(), bins: 1 };
        let rows = MatrixRows::open(backend, self.layout(), query, &files.matrix, opening)?;
        Ok(Box::new(Server { params: self.clone(), rows }))
    }
}
