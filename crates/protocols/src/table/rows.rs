//! Buckets of rows, in tables by position whose rows have uneven lengths. Each row is the length of
//! its value, then the value.

use spirea_math::secret::declassify;
use zeroize::Zeroizing;

use crate::ProtocolError;
use crate::bytes::{LENGTH_IS_TOLD, MAX_LENGTH_BYTES, masked_length, push_length, take_length};
use crate::bytes::{length_bytes, take};
use crate::oblivious::{above, equal, move_to_front, select};

/// Marks a deleted row: a length of 0 that is not in its shortest form, so no value begins with it.
const ABSENT: [u8; 2] = [0x80, 0];

/// Returns the number of bytes of a row with a value of `value_bytes` bytes, or of a deleted row.
pub fn row_bytes(value_bytes: Option<usize>) -> usize {
    value_bytes.map_or(ABSENT.len(), |bytes| length_bytes(bytes) + bytes)
}

/// Appends a row, possibly a deleted one, to the payload of a bucket.
pub fn push_row(payload: &mut Vec<u8>, value: Option<&[u8]>) {
    match value {
        None => payload.extend(ABSENT),
        Some(value) => {
            push_length(payload, value.len());
            payload.extend_from_slice(value);
        }
    }
}

/// Returns the rows in the payload of a bucket, in order; `None` for deleted rows. Padding reads as
/// empty values after the last row.
///
/// # Errors
/// [`ProtocolError::Malformed`], as the last item, if a row is truncated.
pub fn rows(payload: &[u8]) -> impl Iterator<Item = Result<Option<&[u8]>, ProtocolError>> {
    let mut rest = payload;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        if let Some(behind) = rest.strip_prefix(&ABSENT) {
            rest = behind;
            return Some(Ok(None));
        }
        let value = take_length(&mut rest).and_then(|length| take(&mut rest, length));
        if value.is_none() {
            rest = &[];
        }
        Some(value.map(Some).ok_or_else(cut_off))
    })
}

fn cut_off() -> ProtocolError {
    ProtocolError::malformed("bucket", "a row is cut off")
}

/// Returns the value of the row of a secret rank in the payload of a bucket; `None` if the row is
/// deleted.
///
/// Every byte is read as if a row began there, and masks select the true starts. The result reveals
/// whether the row has a value, and its length. The value keeps the memory of the whole bucket,
/// which the caller erases.
///
/// # Errors
/// [`ProtocolError::Malformed`] if that row or an earlier one is truncated.
pub(crate) fn find_row(payload: &[u8], rank: u64) -> Result<Option<Vec<u8>>, ProtocolError> {
    let size = payload.len();
    // Zeros after the end make a truncated row end beyond the payload.
    let mut padded = Zeroizing::new(Vec::with_capacity(size + MAX_LENGTH_BYTES));
    padded.extend_from_slice(payload);
    padded.resize(size + MAX_LENGTH_BYTES, 0);

    let (mut row, mut next, mut reached, mut malformed) = (0, 0, 0, 0);
    let (mut absent, mut place, mut length) = (0, 0, 0);
    for (start, head) in (0..size as u64).zip(padded.windows(MAX_LENGTH_BYTES)) {
        let value = masked_length(head);
        let none = equal(head[0].into(), ABSENT[0].into()) & equal(head[1].into(), ABSENT[1].into());
        let end = start + value.bytes + value.length;
        let here = equal(start, next);
        let hit = here & equal(row, rank);
        let wrong = (value.malformed & !none) | above(end, size as u64);
        malformed |= here & !above(row, rank) & wrong;
        reached |= hit;
        absent = select(hit, none, absent);
        place = select(hit, start + value.bytes, place);
        length = select(hit, value.length, length);
        next = select(here, end, next);
        row += here & 1;
    }
    if declassify(malformed | !reached != 0, "a malformed bucket is reported") {
        return Err(cut_off());
    }
    // The work is the same whether the row has a value or not, and for every length, since a server
    // may observe the time.
    move_to_front(&mut padded, place as usize);
    if declassify(absent != 0, "the application is told whether the table has the key") {
        return Ok(None);
    }
    padded.truncate(declassify(length as usize, LENGTH_IS_TOLD));
    Ok(Some(std::mem::take(&mut *padded)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found_by_rows(payload: &[u8], rank: usize) -> Option<Option<Vec<u8>>> {
        let mut found = None;
        for row in rows(payload).take(rank + 1) {
            found = Some(row.ok()?.map(<[u8]>::to_vec));
        }
        found.filter(|_| rows(payload).take(rank + 1).count() == rank + 1)
    }

    proptest! {
        #[test]
        fn every_row_is_found_by_its_rank(
            values in proptest::collection::vec(proptest::option::of(proptest::collection::vec(any::<u8>(), 0..300)), 1..20),
            padding in 0usize..64,
        ) {
            let mut payload = Vec::new();
            values.iter().for_each(|value| push_row(&mut payload, value.as_deref()));
            let bytes: usize = values.iter().map(|value| row_bytes(value.as_ref().map(Vec::len))).sum();
            prop_assert_eq!(payload.len(), bytes);
            payload.resize(bytes + padding, 0);
            for (rank, value) in values.iter().enumerate() {
                prop_assert_eq!(&find_row(&payload, rank as u64).unwrap(), value);
            }
            let listed: Vec<_> = rows(&payload).take(values.len()).map(Result::unwrap).collect();
            prop_assert!(listed.into_iter().eq(values.iter().map(Option::as_deref)));
        }

        #[test]
        fn damaged_rows_are_read_alike_with_masks_and_with_branches(
            payload in proptest::collection::vec(prop_oneof![Just(0u8), Just(0x80), 0u8..9, any::<u8>()], 0..60), rank in 0usize..30,
        ) {
            prop_assert_eq!(find_row(&payload, rank as u64).ok(), found_by_rows(&payload, rank));
        }
    }
}
