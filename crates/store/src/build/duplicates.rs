//! Which keys stand in several rows. A build keeps keys' hashes alone, so the rows are read once more.

use std::collections::BTreeMap;

use crate::ingest::{Row, RowSource};
use crate::{RepeatedKey, StoreError};

/// The error with the keys that it is about and their lines, if it is about keys in several rows and they can be read
/// again.
pub(super) fn named<'s>(
    error: StoreError,
    open: impl FnOnce() -> Result<Box<dyn RowSource + 's>, StoreError>,
) -> StoreError {
    match error {
        StoreError::DuplicateKeys { path, mut keys, others } => {
            // What cannot be read again is told by its rows.
            let _ = open().and_then(|mut source| find(&mut *source, &mut keys));
            StoreError::DuplicateKeys { path, keys, others }
        }
        other => other,
    }
}

fn find(source: &mut dyn RowSource, keys: &mut [RepeatedKey]) -> Result<(), StoreError> {
    let of_key = |(i, key): (usize, &RepeatedKey)| key.rows.iter().map(move |&row| (row, i)).collect();
    let mut wanted: BTreeMap<u64, usize> = keys.iter().enumerate().flat_map::<Vec<_>, _>(of_key).collect();
    let (mut row, mut number) = (Row::default(), 0);
    while !wanted.is_empty() && source.next(&mut row)? {
        number += 1;
        if let Some(i) = wanted.remove(&number) {
            keys[i].key = RepeatedKey::quoted(row.key().unwrap_or_default());
            keys[i].places.push(source.place());
        }
    }
    Ok(())
}
