//! Bytes of a database that changed.

use crate::ProtocolError;
use crate::files::ChangedRecord;
use crate::grid::{Grid, Spread};

/// A changed byte of the matrix, with its difference modulo 2^32.
pub(crate) struct Difference {
    pub row: usize,
    pub column: usize,
    pub by: u32,
}

/// Returns the bytes in which the old and the new records differ.
///
/// # Errors
/// [`ProtocolError::Malformed`] if a change names no record of the database, or has another length.
pub(crate) fn differences(
    grid: Grid,
    spread: Spread,
    changes: &[ChangedRecord],
) -> Result<impl Iterator<Item = Difference> + '_, ProtocolError> {
    let of_a_record = |change: &ChangedRecord| {
        change.index < grid.records
            && [&change.old, &change.new].iter().all(|bytes| bytes.len() == grid.record_bytes)
    };
    if !changes.iter().all(of_a_record) {
        return Err(ProtocolError::malformed("change", "it is of no record of this database"));
    }
    Ok(changes.iter().flat_map(move |change| {
        grid.runs(spread, change.index).flat_map(move |run| {
            let pairs = change.old[run.bytes.clone()].iter().zip(&change.new[run.bytes]);
            pairs.enumerate().filter(|(_, (old, new))| old != new).map(move |(i, (&old, &new))| Difference {
                row: run.row + i,
                column: run.column,
                by: u32::from(new).wrapping_sub(u32::from(old)),
            })
        })
    }))
}
