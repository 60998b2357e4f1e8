//! The hint that clients hold, brought up to date after some records of its database have changed: it is under the
//! same public A, so that they fetch what differs alone. Where clients hold none, A is another after a change, and there
//! is nothing to bring up to date.
//!
//! The hint is the matrix times A, so a byte that changes by d in column c changes its row of the hint by d times row c
//! of A: n products. Where clients hold it as it is, that is all. `double` keeps it rounded, from which nothing can
//! be added up; there the panels with a changed byte are folded again.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use spirea_backend::{
    Backend, BackendError, PANEL_ROWS, PanelLayout, ProtocolBackend, RING_DEGREE, Residence,
};
use spirea_lattice::PublicMatrix;
use spirea_lattice::lwe::PublicRows;

use crate::ProtocolError;
use crate::bytes::{extend_words, words_to_bytes};
use crate::double::{self, put_fixed};
use crate::grid::{Grid, Spread};
use crate::hint_rows::HintRows;
use crate::parameters::Parameters as _;
use crate::simple;
use crate::steps::{Folded, LweHint};

/// A record before and after it changed, sealed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedRecord {
    /// Which.
    pub index: u64,
    /// Its bytes as they were.
    pub old: Vec<u8>,
    /// Its bytes as they are, as many.
    pub new: Vec<u8>,
}

/// The files of a database whose records have changed.
#[derive(Clone, Copy, Debug)]
pub struct PatchedFiles<'a> {
    /// The database, with the changes.
    pub matrix: &'a Path,
    /// The hint, to be changed.
    pub hint: &'a Path,
    /// What is kept for the server, to be changed.
    pub server: &'a Path,
}

/// Changed bytes that are in memory at once.
const CHANGED_AT_ONCE: usize = 1 << 20;
/// Bytes of panels that are folded again at once.
const FOLDED_AT_ONCE: usize = 64 << 20;

/// A byte of the matrix that changed, by how much modulo 2^32.
struct Difference {
    row: usize,
    column: usize,
    by: u32,
}

/// A hint that clients hold for longer than a version of its database.
#[derive(Clone, Copy, Debug)]
pub enum LastingHint<'a> {
    /// That of a fold, as it is: [`simple`].
    OfFold(&'a simple::Params),
    /// That of the fixed rows of a second fold: [`double`].
    OfFixedRows(&'a double::Params),
}

impl LastingHint<'_> {
    /// Brings what was computed of a database up to date after some of its records have changed: the same bytes as
    /// [`ProtocolParams::precompute`](crate::registry::ProtocolParams::precompute) of the changed database, at a cost
    /// that goes by the changes and the hint and not by the database. `files.matrix` has the changed records already;
    /// the others are changed in place.
    ///
    /// # Errors
    /// The backend's, or [`ProtocolError::Malformed`] if a file is not as long as the parameters say or a change is of
    /// no record; [`ProtocolError::Write`] if a file cannot be written.
    pub fn patch<B: ProtocolBackend>(
        &self,
        backend: &Arc<B>,
        files: &PatchedFiles<'_>,
        changes: &[ChangedRecord],
    ) -> Result<(), ProtocolError> {
        match self {
            Self::OfFold(params) => {
                let grid = params.grid();
                check_changes(&grid, changes)?;
                let lie = (grid, Spread::Columns);
                patch_lwe_hint(files.hint, params.layout(), params.public_matrix(), lie, changes)
            }
            Self::OfFixedRows(double::Params(params)) => {
                check_changes(&params.grid, changes)?;
                patch_fixed(&**backend, params, files, changes)?;
                write_second_hint(&**backend, params, files)
            }
        }
    }
}

/// Refuses changes of records that there are not, or of other lengths.
///
/// # Errors
/// [`ProtocolError::Malformed`].
fn check_changes(grid: &Grid, changes: &[ChangedRecord]) -> Result<(), ProtocolError> {
    let bytes = grid.record_bytes;
    let good = |change: &ChangedRecord| {
        change.index < grid.records && change.old.len() == bytes && change.new.len() == bytes
    };
    match changes.iter().all(good) {
        true => Ok(()),
        false => Err(ProtocolError::malformed("change", "it is of no record of this database")),
    }
}

/// The bytes in which records differ.
fn differences(
    grid: Grid,
    spread: Spread,
    changes: &[ChangedRecord],
) -> impl Iterator<Item = Difference> + '_ {
    changes.iter().flat_map(move |change| {
        grid.runs(spread, change.index).flat_map(move |run| {
            let pairs = change.old[run.bytes.clone()].iter().zip(&change.new[run.bytes]);
            pairs.enumerate().filter(|(_, (old, new))| old != new).map(move |(i, (&old, &new))| Difference {
                row: run.row + i,
                column: run.column,
                by: u32::from(new).wrapping_sub(u32::from(old)),
            })
        })
    })
}

/// Adds to the rows of an LWE hint what the changes add to them.
///
/// # Errors
/// [`ProtocolError::Backend`] if the file cannot be read or has another length, [`ProtocolError::Write`].
fn patch_lwe_hint(
    path: &Path,
    layout: PanelLayout,
    public: PublicMatrix,
    (grid, spread): (Grid, Spread),
    changes: &[ChangedRecord],
) -> Result<(), ProtocolError> {
    let row_bytes = HintRows::of(public.set()).row_bytes();
    let file = open(path, layout.rows() as u64 * row_bytes as u64)?;
    let mut public = PublicRows::new(public);
    let mut differences = differences(grid, spread, changes).peekable();
    let (mut bytes, mut words) = (vec![0; row_bytes], Vec::new());
    while differences.peek().is_some() {
        let mut some: Vec<_> = differences.by_ref().take(CHANGED_AT_ONCE).collect();
        some.sort_unstable_by_key(|difference| (difference.row, difference.column));
        for of_row in some.chunk_by(|a, b| a.row == b.row) {
            let offset = of_row[0].row as u64 * row_bytes as u64;
            file.read_exact_at(&mut bytes, offset).map_err(|source| unreadable(path, source))?;
            words.clear();
            extend_words(&mut words, &bytes);
            for difference in of_row {
                let pieces = words.chunks_exact_mut(RING_DEGREE).zip(public.row(difference.column));
                for (words, entries) in pieces {
                    for (word, entry) in words.iter_mut().zip(entries) {
                        *word = word.wrapping_add(difference.by.wrapping_mul(*entry));
                    }
                }
            }
            file.write_all_at(&words_to_bytes(&words), offset).map_err(ProtocolError::Write)?;
        }
    }
    Ok(())
}

/// Folds the panels with a changed byte again, and puts their rows where the fixed rows of the second fold are.
///
/// # Errors
/// The backend's, [`ProtocolError::Write`].
fn patch_fixed<B: Backend>(
    backend: &B,
    params: &Folded,
    files: &PatchedFiles<'_>,
    changes: &[ChangedRecord],
) -> Result<(), ProtocolError> {
    let spread = double::Params::SPREAD;
    let layout = params.layout(spread);
    let panels: BTreeSet<usize> =
        differences(params.grid, spread, changes).map(|difference| difference.row / PANEL_ROWS).collect();
    let panels: Vec<_> = panels.into_iter().collect();
    let shape = params.second();
    let matrix = open(files.matrix, layout.bytes() as u64)?;
    let mut fixed = fs::read(files.server).map_err(|source| unreadable(files.server, source))?;
    check_length(files.server, fixed.len() as u64, shape.fixed_layout().bytes() as u64)?;
    for panels in panels.chunks((FOLDED_AT_ONCE / layout.panel_bytes()).max(1)) {
        let mut bytes = vec![0; panels.len() * layout.panel_bytes()];
        for (&panel, bytes) in panels.iter().zip(bytes.chunks_exact_mut(layout.panel_bytes())) {
            let read = matrix.read_exact_at(bytes, (panel * layout.panel_bytes()) as u64);
            read.map_err(|source| unreadable(files.matrix, source))?;
        }
        let some = PanelLayout::covering(panels.len() * PANEL_ROWS, layout.columns())?;
        let some = backend.upload(some, &bytes)?;
        let hint = LweHint::compute(backend, &params.public_matrix(), &some, |_| ())?;
        for (i, &panel) in panels.iter().enumerate() {
            for row in 0..PANEL_ROWS {
                put_fixed(&shape, panel * PANEL_ROWS + row, hint.row(i * PANEL_ROWS + row), &mut fixed);
            }
        }
    }
    fs::write(files.server, fixed).map_err(ProtocolError::Write)
}

/// Computes the hint of the fixed rows, every row of which depends on every changed unit.
///
/// # Errors
/// The backend's, [`ProtocolError::Write`].
fn write_second_hint<B: Backend>(
    backend: &B,
    params: &Folded,
    files: &PatchedFiles<'_>,
) -> Result<(), ProtocolError> {
    let shape = params.second();
    let fixed = backend.open(shape.fixed_layout(), files.server, Residence::Mapped)?;
    let public = params.second_matrix(params.grid.groups);
    let mut file = File::create(files.hint).map_err(ProtocolError::Write)?;
    LweHint::compute(backend, &public, &fixed, |_| ())?.write(&mut file)
}

/// Opens a file to be read and written, if it has this length.
fn open(path: &Path, bytes: u64) -> Result<File, ProtocolError> {
    let file = OpenOptions::new().read(true).write(true).open(path);
    let file = file.map_err(|source| unreadable(path, source))?;
    let found = file.metadata().map_err(|source| unreadable(path, source))?.len();
    check_length(path, found, bytes)?;
    Ok(file)
}

fn check_length(path: &Path, found: u64, expected: u64) -> Result<(), ProtocolError> {
    if found == expected {
        return Ok(());
    }
    let path = path.display();
    Err(BackendError::Shape(format!("{path}: {found} bytes where the parameters say {expected}")).into())
}

fn unreadable(path: &Path, source: std::io::Error) -> ProtocolError {
    BackendError::Io { path: path.into(), source }.into()
}
