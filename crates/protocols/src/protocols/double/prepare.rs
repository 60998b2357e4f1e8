//! Choice of the shape, precomputation, and its update after changes.
//!
//! Clients hold the hint of the fixed rows. These rows are rounded, so the effect of a changed byte
//! cannot be added: the panels with a changed byte are folded again.

use std::fs;
use std::sync::Arc;

use spirea_backend::{Backend, FileRows, Residence, StoredFile};
use spirea_lattice::RingSet;
use spirea_math::random::SecretRng;

use super::server::Server;
use super::{Client, Double, Params};
use crate::choice::{Choice, HintForm};
use crate::client::AnyIndexClient;
use crate::files::{ChangedRecord, Files, PatchedFiles, Precomputation, read_exact};
use crate::grid::{Grid, Spread};
use crate::opening::Opening;
use crate::parameters::Parameters as _;
use crate::protocol::{Holdings, Serve};
use crate::steps::changes::differences;
use crate::steps::folded::FoldedProtocol;
use crate::steps::hint::refold;
use crate::steps::reinterpret::{SPREAD, grids_of_two_folds, precompute, put_fixed};
use crate::steps::scalar_fold::Knowledge;
use crate::steps::shape::{LookupCost, MAX_FAILURE_LOG2};
use crate::steps::{Folded, LweHint};
use crate::{ProtocolError, Responder, Result};

impl FoldedProtocol for Double {
    const NAME: &'static str = "double";
    const DELTA: &'static str = "simple";
    const SPREAD: Spread = SPREAD;
    const HINT_LASTS: bool = true;

    type Form = Folded;

    fn ring_of(_: &Choice) -> Result<Option<RingSet>, ProtocolError> {
        Ok(None)
    }

    fn hint_bits(form: HintForm, folded: &Folded) -> u32 {
        form.bits(MAX_FAILURE_LOG2, |bits| folded.fixed_bound_log2(Knowledge::Matrix, bits, 1.0))
    }

    fn grids(records: u64, record_bytes: usize, _bins: usize) -> impl Iterator<Item = Grid> {
        grids_of_two_folds(records, record_bytes)
    }

    fn cost(params: &Params) -> LookupCost {
        LookupCost::new(params.sizes(), params.0.two_folds_read_bytes())
    }

    fn client(params: &Params, known: Holdings<'_>, _rng: &mut SecretRng) -> Result<Box<dyn AnyIndexClient>> {
        Ok(Box::new(Client::new(params.clone(), known.hint)?))
    }
}

impl<B: Backend> Serve<B> for Params {
    fn precompute(&self, backend: &Arc<B>, job: Precomputation<'_>) -> Result<()> {
        let first = self.0.hint(SPREAD, &**backend, job.matrix, job.progress)?;
        let public = self.0.second_matrix(self.0.grid.groups);
        let hint = precompute(&**backend, &self.second(), &first, &public, job.server)?;
        hint.write_rounded(self.0.hint_bits, job.hint)
    }

    fn patch(&self, backend: &Arc<B>, files: &PatchedFiles<'_>, changes: &[ChangedRecord]) -> Result<()> {
        self.patch_fixed(&**backend, files, changes)?;
        self.write_hint(&**backend, files)
    }

    fn open(&self, backend: &Arc<B>, files: &Files, opening: Opening) -> Result<Box<dyn Responder>> {
        self.validate()?;
        let rows = self.0.open_first(backend, self.layout(), files, opening)?;
        let second = opening.role.keeps(|| self.0.open_second(backend, files, opening.residence))?;
        Ok(Box::new(Server { params: self.clone(), rows, second }))
    }
}

impl Params {
    /// Folds the panels with a changed byte again, and stores their rows in the fixed rows of the
    /// second fold.
    ///
    /// # Errors
    /// Those of the backend; [`ProtocolError::Write`].
    fn patch_fixed<B: Backend>(
        &self,
        backend: &B,
        files: &PatchedFiles<'_>,
        changes: &[ChangedRecord],
    ) -> Result<(), ProtocolError> {
        let shape = self.second();
        let differences = differences(self.0.grid, SPREAD, changes)?;
        let mut fixed = read_exact(&StoredFile::at(files.server), shape.fixed_layout().bytes() as u64)?;
        let matrix = (files.matrix, self.0.stored(SPREAD));
        refold(backend, matrix, &self.0.public_matrix(), differences, |row, words| {
            put_fixed(&shape, row, words, &mut fixed);
            Ok(())
        })?;
        fs::write(files.server, fixed).map_err(ProtocolError::Write)
    }

    /// Computes the hint of the fixed rows. Each row of this hint depends on every changed unit.
    ///
    /// # Errors
    /// Those of the backend; [`ProtocolError::Write`].
    fn write_hint<B: Backend>(&self, backend: &B, files: &PatchedFiles<'_>) -> Result<(), ProtocolError> {
        let layout = self.second().fixed_layout();
        let fixed = StoredFile::at(files.server);
        let fixed = backend.open(FileRows::all(layout, &fixed, Residence::Mapped))?;
        let public = self.0.second_matrix(self.0.grid.groups);
        let mut file = fs::File::create(files.hint).map_err(ProtocolError::Write)?;
        LweHint::compute(backend, &public, &fixed, |_| ())?.write_rounded(self.0.hint_bits, &mut file)
    }
}
