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
use std::sync::Arc;

use spirea_backend::ProtocolBackend;
use spirea_protocols::registry::ProtocolParams;

use crate::error::IoContext;
use crate::manifest::MATRIX_FILE;
use crate::{Progress, Snapshot, StoreError, time};

pub(crate) use compact::compact;
pub(crate) use delta::{Shape, build_delta};
use draft::Draft;
use folder::PartialFolder;
pub use options::{BuildOptions, Overwrite, Protocol};
pub use prove::Proving;
use records::Rows;
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
    let mut source = (!options.reads_standard_input()).then(|| options.open(&options.input)).transpose()?;
    let folder = PartialFolder::create(&options.out, options.overwrite)?;
    let [spool, matrix_path] = ["spool", MATRIX_FILE].map(|name| folder.path().join(name));

    fs::create_dir(&spool).at("create", &spool)?;
    let input = options.input_in(&spool)?;
    let source = match &mut source {
        Some(source) => source,
        None => source.insert(options.open(&input)?),
    };
    let rows = Rows::read(&mut **source, options, &spool, draws.salt()?, progress)?;
    let planned = rows.plan(options.proving, &draws, progress);
    let planned = planned.map_err(|error| duplicates::named(error, || options.open(&input)))?;
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
