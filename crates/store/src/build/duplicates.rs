//! Finds the keys that occur in several rows. A build stores only hashes of keys, so the rows are
//! read again.

use std::collections::BTreeMap;

use crate::ingest::{Row, RowSource};
use crate::{RepeatedKey, StoreError};

/// Adds the keys and their lines to an error about keys in several rows, if the rows can be read
/// again. Other errors are returned unchanged.
pub(super) fn named<'s>(
    error: StoreError,
    open: impl FnOnce() -> Result<Box<dyn RowSource + 's>, StoreError>,
) -> StoreError {
    match error {
        StoreError::DuplicateKeys { path, mut keys, others } => {
            // If reading again fails, the error names only the rows.
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
