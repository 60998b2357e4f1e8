//! From a table to a snapshot.
//!
//! The input is read once, into a spool on disk. When all lengths are known, the shape is chosen, and the
//! records are sealed and written. Memory stays near the size of the matrix and its hint: the matrix is
//! written a group of columns at a time and mapped to compute the hint. Nothing is published before real
//! queries of it have been answered.

mod compact;
mod delta;
mod draft;
mod draws;
mod folder;
mod matrix;
mod prove;
mod records;
mod spool;
mod test;
mod writer;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use spirea_backend::ProtocolBackend;
use spirea_protocols::planner::Advice;
use spirea_protocols::registry::{Choice, ProtocolParams};

use crate::error::IoContext;
use crate::ingest::{self, Format, Selection};
use crate::manifest::{MATRIX_FILE, NAME_RULE, valid_name};
use crate::{Progress, Snapshot, StoreError, time};

pub(crate) use compact::compact;
pub(crate) use delta::{Shape, build_delta};
use draft::Draft;
use draws::Draws;
use folder::PartialFolder;
pub use prove::Proving;
use records::Rows;
#[cfg(test)]
pub(crate) use writer::RecordWriter;

/// What to do if the target of a build exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Overwrite {
    /// Leave it and fail.
    #[default]
    Refuse,
    /// Replace it, if it is a snapshot, when the new one is complete.
    Replace,
}

/// The protocol of a snapshot.
#[derive(Clone, Debug)]
pub enum Protocol {
    /// This one.
    Named(Choice),
    /// The one that the planner recommends for the table.
    Planned(Advice),
}

/// What to build.
#[derive(Clone, Debug)]
pub struct BuildOptions {
    /// The input file.
    pub input: PathBuf,
    /// Its format; see [`Format::choose`].
    pub format: Format,
    /// The columns; a table without a key column is looked up by position.
    pub selection: Selection,
    /// The snapshot's folder.
    pub out: PathBuf,
    /// Name of the dataset; that of the folder if `None`.
    pub name: Option<String>,
    /// The protocol and its parameter sets.
    pub protocol: Protocol,
    /// Whether records carry inclusion proofs.
    pub proving: Proving,
    /// What to do if the folder exists.
    pub overwrite: Overwrite,
    /// Derives the public matrix, the table's salt and where entries lie, for a build that repeats itself; drawn at
    /// random if `None`. Whoever knows it before the table is made can choose keys that fall into one bucket.
    pub seed: Option<[u8; 32]>,
}

impl BuildOptions {
    /// A build of `input` into `out` with defaults for the rest.
    pub fn new(
        input: impl Into<PathBuf>,
        format: Format,
        selection: Selection,
        out: impl Into<PathBuf>,
    ) -> Self {
        Self {
            input: input.into(),
            format,
            selection,
            out: out.into(),
            name: None,
            protocol: Protocol::Named(Choice::default()),
            proving: Proving::default(),
            overwrite: Overwrite::default(),
            seed: None,
        }
    }

    fn name(&self) -> Result<String, StoreError> {
        let folder = || self.out.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = self.name.clone().or_else(folder).unwrap_or_default();
        match valid_name(&name) {
            true => Ok(name),
            false => {
                Err(StoreError::BadOption(format!("{name:?} cannot name a dataset: give --name {NAME_RULE}")))
            }
        }
    }

    fn draws(&self) -> Draws {
        self.seed.map_or(Draws::System, Draws::Derived)
    }
}

/// Builds a snapshot and opens it.
///
/// # Errors
/// See [`StoreError`]. After an error the target is as it was, and nothing is left beside it.
pub fn build<B: ProtocolBackend>(
    options: &BuildOptions,
    backend: &Arc<B>,
    progress: &dyn Progress,
) -> Result<Snapshot, StoreError> {
    let (name, created) = (options.name()?, time::created()?);
    if let Protocol::Named(choice) = &options.protocol {
        ProtocolParams::check(choice)?;
    }
    let draws = options.draws();
    let mut source = ingest::open(&options.input, options.format, &options.selection)?;
    let folder = PartialFolder::create(&options.out, options.overwrite)?;
    let [spool, matrix_path] = ["spool", MATRIX_FILE].map(|name| folder.path().join(name));

    fs::create_dir(&spool).at("create", &spool)?;
    let rows = Rows::read(&mut *source, options, &spool, draws.salt()?, progress)?;
    let planned = rows.plan(options.proving, &draws, progress)?;
    let table = planned.table().clone();
    let choice = match &options.protocol {
        Protocol::Named(choice) => choice.clone(),
        Protocol::Planned(advice) => advice.choose(table.records, table.record_bytes())?,
    };
    let protocol = ProtocolParams::choose(&choice, draws.seed()?, table.records, table.record_bytes())?;
    let (statistics, samples) = planned.encode(protocol.stored(), &matrix_path, progress)?;
    fs::remove_dir_all(&spool).at("remove", &spool)?;

    let draft = Draft { name, created, table, protocol, statistics, samples, delta_of: None, changes: None };
    let computed = draft.compute(folder.path(), backend, progress)?;
    draft.complete(folder.path(), computed, backend, progress)?;
    folder.publish()?;
    Snapshot::open(&options.out)
}
