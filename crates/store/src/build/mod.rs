//! Builds a snapshot from a table.
//!
//! The input is read once, into a spool on disk. Once all lengths are known, the shape is chosen,
//! and the records are sealed and written. Memory use stays near the size of the matrix and its
//! hint: the matrix is written a group of columns at a time, and mapped to compute the hint. A
//! snapshot is published only after it has answered real queries.

mod apple;
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
mod schema;
mod spool;
mod test;
mod writer;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use spirea_backend::ProtocolBackend;
use spirea_math::random::Seed;
use spirea_protocols::Table;
use spirea_protocols::keyword::Copies;
use spirea_protocols::registry::{Choice, ProtocolParams};

use crate::error::IoContext;
use crate::ingest::RowSource;
use crate::manifest::{MATRIX_FILE, Statistics};
use crate::{Progress, Snapshot, StoreError, time};

pub(crate) use compact::{compact, values_with};
pub(crate) use delta::{Shape, build_delta};
use draft::Draft;
use draws::Draws;
use folder::PartialFolder;
pub use options::{AppleOptions, BuildOptions, Chooser, Duplicates, Input, Overwrite, Protocol};
pub use prove::Proving;
use records::{Planned, Rows};
#[cfg(test)]
pub(crate) use writer::RecordWriter;

/// Builds a snapshot and opens it.
///
/// # Errors
/// See [`StoreError`]. After an error the target is unchanged, and nothing is left beside it.
pub fn build<B: ProtocolBackend>(
    options: &BuildOptions,
    backend: &Arc<B>,
    progress: &dyn Progress,
) -> Result<Snapshot, StoreError> {
    let (name, created) = (options.name()?, time::created()?);
    if let Protocol::Named(choice) = &options.protocol {
        ProtocolParams::check(choice)?;
        check_copies(options, choice)?;
    }
    let draws = options.draws();
    if let Some(apple) = &options.apple {
        apple.check(&options.selection)?;
    }
    // Refuses an unreadable file before a folder is created.
    let source = options.open_at_once()?;
    let folder = PartialFolder::create(&options.out, options.overwrite)?;
    let [spool, matrix_path] = ["spool", MATRIX_FILE].map(|name| folder.path().join(name));

    let decide = |rows: &Rows| decide(options, rows);
    let (choice, planned, input) = lay_out(options, source, &spool, &draws, progress, decide)?;
    let table = planned.table().clone();
    let protocol = ProtocolParams::choose(&choice, draws.seed()?, table.records, table.record_bytes())?;
    let (statistics, samples) = planned.encode(protocol.stored, &matrix_path, progress)?;
    let apple = options.apple.as_ref();
    let apple = apple.map(|apple| apple.write(options, &input, folder.path(), progress)).transpose()?;
    fs::remove_dir_all(&spool).at("remove", &spool)?;

    let (delta_of, changes) = (None, None);
    let kept = None;
    let draft = Draft { name, created, table, protocol, statistics, samples, delta_of, changes, apple, kept };
    let computed = draft.compute(folder.path(), backend, progress)?;
    draft.complete(folder.path(), computed, backend, progress)?;
    folder.publish()?;
    Snapshot::open(&options.out)
}

/// Returns the table that [`build`] would make of the same input, and its statistics; with
/// inclusion proofs only if the options request them. Builds nothing: reads the input into files in
/// `folder`, which the caller removes.
///
/// # Errors
/// See [`StoreError`]: the errors of [`build`] about the input or its layout.
pub fn survey(
    options: &BuildOptions,
    folder: &Path,
    progress: &dyn Progress,
) -> Result<(Table, Statistics), StoreError> {
    let (source, spool) = (options.open_at_once()?, folder.join("spool"));
    let decide = |_: &Rows| Ok(((), options.proving.unwrap_or(Proving::Omit)));
    let ((), planned, _) = lay_out(options, source, &spool, &options.draws(), progress, decide)?;
    Ok(planned.into_parts())
}

/// Reads the input into the folder `spool`, which it creates, and lays out the table with the
/// proofs that `decide` chooses. Returns the input too; files that can be read only once are copied
/// into `spool`. `source` is `None` for an input that can be read only once.
fn lay_out<C>(
    options: &BuildOptions,
    source: Option<Box<dyn RowSource + '_>>,
    spool: &Path,
    draws: &Draws,
    progress: &dyn Progress,
    decide: impl FnOnce(&Rows) -> Result<(C, Proving), StoreError>,
) -> Result<(C, Planned, Input), StoreError> {
    fs::create_dir(spool).at("create", spool)?;
    let input = options.input_in(spool)?;
    let mut source = source.map_or_else(|| options.open(&input), Ok)?;
    let rows = Rows::read(&mut *source, options, spool, draws.salt()?, progress)?;
    let (choice, proving) = decide(&rows)?;
    let planned = rows.plan(proving, draws, progress);
    let planned = planned.map_err(|error| duplicates::named(error, || options.open(&input)))?;
    drop(source);
    Ok((choice, planned, input))
}

/// Refuses several copies of entries in a table without bins.
fn check_copies(options: &BuildOptions, choice: &Choice) -> Result<(), StoreError> {
    if options.copies == Copies::One || choice.bins > 1 {
        return Ok(());
    }
    let detail = "--copies 3 is for tables in bins: add --bins, or omit it";
    Err(StoreError::BadOption(detail.into()))
}

/// Chooses the protocol. Also decides whether to include proofs, unless the options decide it.
fn decide(options: &BuildOptions, rows: &Rows) -> Result<(Choice, Proving), StoreError> {
    let (records, record_bytes) = rows.records(options.proving.unwrap_or(Proving::Omit));
    let choice = match &options.protocol {
        Protocol::Named(choice) => choice.clone(),
        Protocol::Chosen(chooser) => chooser.choose(records, record_bytes)?,
    };
    check_copies(options, &choice)?;
    let needed = Proving::needed(records, |records| {
        ProtocolParams::choose(&choice, Seed::default(), records, record_bytes)
    });
    Ok((choice, options.proving.unwrap_or(needed)))
}
