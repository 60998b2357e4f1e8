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
mod duplicates;
mod folder;
mod matrix;
mod options;
mod prove;
mod records;
mod spool;
mod test;
mod writer;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use spirea_backend::ProtocolBackend;
use spirea_protocols::Table;
use spirea_protocols::registry::ProtocolParams;

use crate::error::IoContext;
use crate::ingest::RowSource;
use crate::manifest::{MATRIX_FILE, Statistics};
use crate::{Progress, Snapshot, StoreError, time};

pub(crate) use compact::compact;
pub(crate) use delta::{Shape, build_delta};
use draft::Draft;
use draws::Draws;
use folder::PartialFolder;
pub use options::{BuildOptions, Input, Overwrite, Protocol};
pub use prove::Proving;
use records::{Planned, Rows};
#[cfg(test)]
pub(crate) use writer::RecordWriter;

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
    // A file that cannot be read is refused before a folder is made.
    let source = options.open_at_once()?;
    let folder = PartialFolder::create(&options.out, options.overwrite)?;
    let [spool, matrix_path] = ["spool", MATRIX_FILE].map(|name| folder.path().join(name));

    let planned = lay_out(options, source, &spool, &draws, progress)?;
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

/// The table that [`build`] would make of the same input, and what is known of its values. Nothing is built: the input is
/// read into files in `folder`, which are the caller's to remove.
///
/// # Errors
/// See [`StoreError`]: those of [`build`] that the input or its layout have.
pub fn survey(
    options: &BuildOptions,
    folder: &Path,
    progress: &dyn Progress,
) -> Result<(Table, Statistics), StoreError> {
    let (source, spool) = (options.open_at_once()?, folder.join("spool"));
    Ok(lay_out(options, source, &spool, &options.draws(), progress)?.into_parts())
}

/// Reads the input into the folder `spool`, which it makes, and lays out the table. Standard input has no source yet.
fn lay_out(
    options: &BuildOptions,
    source: Option<Box<dyn RowSource + '_>>,
    spool: &Path,
    draws: &Draws,
    progress: &dyn Progress,
) -> Result<Planned, StoreError> {
    fs::create_dir(spool).at("create", spool)?;
    let input = options.input_in(spool)?;
    let mut source = source.map_or_else(|| options.open(&input), Ok)?;
    let rows = Rows::read(&mut *source, options, spool, draws.salt()?, progress)?;
    let planned = rows.plan(options.proving, draws, progress);
    planned.map_err(|error| duplicates::named(error, || options.open(&input)))
}
