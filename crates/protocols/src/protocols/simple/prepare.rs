//! Choice of the shape, precomputation, and its update after changes.

use std::sync::Arc;

use spirea_backend::{Backend, PANEL_ROWS, RING_DEGREE};
use spirea_lattice::RingSet;
use spirea_math::random::SecretRng;

use super::params::{Form, Simple, exceedance_log2};
use super::server::Server;
use super::{Client, Params};
use crate::choice::{Choice, HintForm};
use crate::client::AnyIndexClient;
use crate::files::{ChangedRecord, Files, PatchedFiles, Precomputation};
use crate::grid::{Grid, Spread};
use crate::opening::Opening;
use crate::parameters::Parameters as _;
use crate::protocol::{Holdings, Serve};
use crate::steps::Folded;
use crate::steps::changes::differences;
use crate::steps::folded::{FoldedProtocol, MAX_COLUMNS};
use crate::steps::hint::{is_exact, patch_hint, patch_rounded_hint};
use crate::steps::scalar_fold::{FirstQueries, MatrixRows};
use crate::steps::shape::{LookupCost, MAX_FAILURE_LOG2};
use crate::{ProtocolError, Responder, Result};

impl FoldedProtocol for Simple {
    const NAME: &'static str = "simple";
    const DELTA: &'static str = "simple";
    const SPREAD: Spread = Spread::Columns;
    const HINT_LASTS: bool = true;

    type Form = Form;

    fn ring_of(_: &Choice) -> Result<Option<RingSet>, ProtocolError> {
        Ok(None)
    }

    /// Returns the fewest bits that the failure bound admits. The shape is chosen for a whole hint.
    /// If it were chosen for a rounded hint, a matrix of 1 GiB and its hint would be a fifth
    /// taller, which would save only an eighth of the query.
    fn hint_bits(form: HintForm, folded: &Folded) -> u32 {
        form.bits(MAX_FAILURE_LOG2, |bits| exceedance_log2(folded, bits, 1.0))
    }

    fn grids(records: u64, record_bytes: usize, _bins: usize) -> impl Iterator<Item = Grid> {
        let shape = move |rows: usize, records_per_column: u64, record_columns: u64| {
            let columns = u128::from(records.div_ceil(records_per_column)) * u128::from(record_columns);
            let columns = columns.next_multiple_of(RING_DEGREE as u128);
            let unit_rows = rows.next_multiple_of(PANEL_ROWS);
            (columns <= MAX_COLUMNS as u128).then_some(Grid {
                records,
                record_bytes,
                unit_rows,
                groups: 1,
                columns: columns as usize,
            })
        };
        let split =
            (1..=Params::MAX_RECORD_COLUMNS).map(move |k| shape(record_bytes.div_ceil(k), 1, k as u64));
        // Candidates for the number of whole records in a column, in steps of a sixteenth. Finer
        // steps gain nothing.
        let shared = std::iter::successors(Some(2u64), |&share| Some(share + share.div_ceil(16)))
            .take_while(move |&share| {
                share < 2 * records && u128::from(share) * (record_bytes as u128) < 1 << 40
            })
            .map(move |share| shape(record_bytes * share.min(records) as usize, share.min(records), 1));
        split.chain(shared).flatten()
    }

    fn cost(params: &Params) -> LookupCost {
        let Grid { unit_rows, columns, .. } = params.0.grid;
        LookupCost::new(params.sizes(), (unit_rows * columns) as f64)
    }

    fn client(params: &Params, known: Holdings<'_>, _: &mut SecretRng) -> Result<Box<dyn AnyIndexClient>> {
        Ok(Box::new(Client::new(params.clone(), known.hint)?))
    }
}

impl<B: Backend> Serve<B> for Params {
    fn precompute(&self, backend: &Arc<B>, job: Precomputation<'_>) -> Result<()> {
        let hint = self.0.hint(Self::SPREAD, &**backend, job.matrix, job.progress)?;
        hint.write_rounded(self.0.hint_bits, job.hint)
    }

    fn patch(&self, backend: &Arc<B>, files: &PatchedFiles<'_>, changes: &[ChangedRecord]) -> Result<()> {
        let (folded, public) = (&self.0, self.0.public_matrix());
        let differences = differences(folded.grid, Self::SPREAD, changes)?;
        if is_exact(&folded.hint_bits) {
            return patch_hint(files.hint, folded.grid.unit_rows, public, differences);
        }
        let (hint, matrix) = ((files.hint, folded.hint_bits), (files.matrix, folded.stored(Self::SPREAD)));
        patch_rounded_hint(&**backend, hint, matrix, &public, differences)
    }

    fn open(&self, backend: &Arc<B>, files: &Files, opening: Opening) -> Result<Box<dyn Responder>> {
        self.validate()?;
        let query = FirstQueries { layout: self.query_layout(), columns: self.record_columns(), bins: 1 };
        let rows = MatrixRows::open(backend, self.0.layout(Self::SPREAD), query, &files.matrix, opening)?;
        Ok(Box::new(Server { params: self.clone(), rows }))
    }
}
