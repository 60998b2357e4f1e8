//! Binary form of changes: a line that names the format, then for each change, in the order of the
//! keys, the length of the key, the key, the length of the change, and the change
//! ([`Change::to_bytes`]). Lengths have 4 bytes, little-endian.

use spirea_protocols::ProtocolError;
use spirea_protocols::delta::Change;

use super::Changes;

const MAGIC: &[u8] = b"spirea changes 1\n";

impl Changes {
    /// Returns the changes as bytes, always the same for equal changes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        for (key, change) in self.iter() {
            for part in [key, &change.to_bytes()] {
                bytes.extend(u32::try_from(part.len()).expect("keys and values are bounded").to_le_bytes());
                bytes.extend_from_slice(part);
            }
        }
        bytes
    }

    /// Parses the output of [`Changes::to_bytes`]. [`Changes::check`] checks that the changes suit
    /// a table.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] unless the bytes have exactly that form.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ProtocolError> {
        let malformed = |detail: &str| ProtocolError::Malformed { what: "changes", detail: detail.into() };
        let mut rest = bytes.strip_prefix(MAGIC).ok_or_else(|| malformed("they are of another format"))?;
        let mut changes = Self::new();
        while !rest.is_empty() {
            let parts = take(&mut rest).zip(take(&mut rest));
            let (key, change) = parts.ok_or_else(|| malformed("they are cut off"))?;
            if changes.by_key.last_key_value().is_some_and(|(last, _)| last.as_slice() >= key) {
                return Err(malformed("their keys are not in order"));
            }
            match Change::from_bytes(change)? {
                Change::Put(value) => changes.put(key, value),
                Change::Delete => changes.delete(key),
            }
        }
        Ok(changes)
    }
}

fn take<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, after) = rest.split_first_chunk()?;
    let (part, after) = after.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    *rest = after;
    Some(part)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn changes_survive(
            by_key in proptest::collection::btree_map(any::<Vec<u8>>(), any::<Option<Vec<u8>>>(), 0..20),
            cut in 1usize..40,
        ) {
            let changes = Changes { by_key, ..Changes::new() };
            let bytes = changes.to_bytes();
            prop_assert_eq!(Changes::from_bytes(&bytes).unwrap(), changes.clone());
            if let Ok(shorter) = Changes::from_bytes(&bytes[..bytes.len().saturating_sub(cut)]) {
                prop_assert!(shorter.len() < changes.len());
            }
        }

        #[test]
        fn any_bytes_are_changes_or_an_error(tail: Vec<u8>) {
            let bytes = [MAGIC, &tail].concat();
            if let Ok(changes) = Changes::from_bytes(&bytes) {
                prop_assert_eq!(changes.to_bytes(), bytes);
            }
        }
    }
}
