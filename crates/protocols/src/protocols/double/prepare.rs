//! Choice of the shape, precomputation, and its update after changes.
//!
//! Clients hold the hint of the fixed rows. These rows are rounded, so the effect of a changed byte
//! cannot be added: the panels with a changed byte are folded again.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;

use spirea_backend::{Backend, FileRows, PANEL_ROWS, PanelLayout, Residence, StoredFile};
use spirea_lattice::RingSet;
use spirea_math::random::SecretRng;

use super::server::Server;
use super::{Client, Double, Params};
use crate::choice::Choice;
use crate::client::AnyIndexClient;
use crate::files::{ChangedRecord, Files, PatchedFiles, Precomputation, Units, read_exact};
use crate::grid::{Grid, Spread};
use crate::opening::Opening;
use crate::parameters::Parameters as _;
use crate::protocol::{Holdings, Serve, Specimens};
use crate::steps::LweHint;
use crate::steps::changes::differences;
use crate::steps::folded::FoldedProtocol;
use crate::steps::reinterpret::{SPREAD, grids_of_two_folds, precompute, put_fixed};
use crate::{ProtocolError, Responder, Result};

/// Bytes of panels that are folded in one call.
const FOLDED_AT_ONCE: usize = 64 << 20;

impl FoldedProtocol for Double {
    const NAME: &'static str = "double";
    const DELTA: &'static str = "simple";
    const SPREAD: Spread = SPREAD;
    const SPECIMENS: Specimens = Specimens { small: &[(40, 3), (700, 1), (5, 40)], large_record_bytes: 16 };
    const HINT_LASTS: bool = true;

    fn ring_of(_: &Choice) -> Result<Option<RingSet>, ProtocolError> {
        Ok(None)
    }

    fn grids(records: u64, record_bytes: usize) -> impl Iterator<Item = Grid> {
        grids_of_two_folds(records, record_bytes)
    }

    fn read_bytes(params: &Params) -> f64 {
        params.0.two_folds_read_bytes()
    }

    fn client(params: &Params, known: Holdings<'_>, _rng: &mut SecretRng) -> Result<Box<dyn AnyIndexClient>> {
        Ok(Box::new(Client::new(params.clone(), known.hint)?))
    }
}

impl<B: Backend> Serve<B> for Params {
    fn precompute(&self, backend: &Arc<B>, job: Precomputation<'_>) -> Result<()> {
        let first = self.0.hint(SPREAD, &**backend, job.matrix, job.progress)?;
        let public = self.0.second_matrix(self.0.grid.groups);
        precompute(&**backend, &self.second(), &first, &public, job.server)?.write(job.hint)
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
        let (layout, shape) = (self.0.layout(SPREAD), self.second());
        let panels: BTreeSet<usize> = differences(self.0.grid, SPREAD, changes)?
            .map(|difference| difference.row / PANEL_ROWS)
            .collect();
        let panels: Vec<_> = panels.into_iter().collect();
        let matrix = Units::open(&StoredFile::at(files.matrix), self.stored())?;
        let mut fixed = read_exact(&StoredFile::at(files.server), shape.fixed_layout().bytes() as u64)?;
        // Panels are read as the file's units here.
        for panels in panels.chunks((FOLDED_AT_ONCE / layout.panel_bytes()).max(1)) {
            let mut bytes = vec![0; panels.len() * layout.panel_bytes()];
            for (&panel, bytes) in panels.iter().zip(bytes.chunks_exact_mut(layout.panel_bytes())) {
                matrix.read(panel, bytes);
            }
            let some = PanelLayout::covering(panels.len() * PANEL_ROWS, layout.columns())?;
            let some = backend.upload(some, &bytes)?;
            let hint = LweHint::compute(backend, &self.0.public_matrix(), &some, |_| ())?;
            for (i, &panel) in panels.iter().enumerate() {
                for row in 0..PANEL_ROWS {
                    put_fixed(&shape, panel * PANEL_ROWS + row, hint.row(i * PANEL_ROWS + row), &mut fixed);
                }
            }
        }
        matrix.check()?;
        fs::write(files.server, fixed).map_err(ProtocolError::Write)
    }

    /// Computes the hint of the fixed rows. Each of its rows depends on every changed unit.
    ///
    /// # Errors
    /// Those of the backend; [`ProtocolError::Write`].
    fn write_hint<B: Backend>(&self, backend: &B, files: &PatchedFiles<'_>) -> Result<(), ProtocolError> {
        let layout = self.second().fixed_layout();
        let fixed = StoredFile::at(files.server);
        let fixed = backend.open(FileRows::all(layout, &fixed, Residence::Mapped))?;
        let public = self.0.second_matrix(self.0.grid.groups);
        let mut file = fs::File::create(files.hint).map_err(ProtocolError::Write)?;
        LweHint::compute(backend, &public, &fixed, |_| ())?.write(&mut file)
    }
}
