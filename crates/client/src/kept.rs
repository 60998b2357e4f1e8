use std::time::Duration;

use spirea_math::secret::{DAMAGED_KEYS_ARE_DROPPED, declassify};
use spirea_protocols::SavedKeys;
use spirea_wire::KeysHash;
use zeroize::Zeroizing;

use crate::Keys;

/// Format of the record; records with another format are rejected.
const FORMAT: u8 = 1;
/// Domain separation of the checksum.
const CONTEXT: &str = "spirea 2026 kept evaluation keys";

/// Evaluation keys with their secret, kept for a later session of the same client, which then need
/// not make and upload new keys.
///
/// They consist of two pieces. The keys take megabytes and contain no secret. The record takes a
/// few kilobytes. It contains the secret and the count of queries, and changes with every look-up.
/// The caller removes the record before a look-up, and writes it again after a look-up whose
/// answers were all correct. So a session that ends in the middle of a look-up also ends its keys,
/// and a server learns at most one bit of them.
pub struct KeptKeys {
    pub(crate) saved: SavedKeys,
    pub(crate) blake3: KeysHash,
    pub(crate) made: Duration,
}

impl KeptKeys {
    /// Returns the evaluation keys.
    pub fn keys(&self) -> &[u8] {
        &self.saved.bytes
    }

    /// Returns the BLAKE3 hash of the keys.
    pub fn blake3(&self) -> &KeysHash {
        &self.blake3
    }

    /// Returns the record of the keys' secret.
    pub fn record(&self) -> Zeroizing<Vec<u8>> {
        let Self { saved: SavedKeys { shape, secret, queries, .. }, blake3, made } = self;
        let fields: [&[u8]; 7] = [
            &[FORMAT],
            &(made.as_micros() as u64).to_le_bytes(),
            &queries.to_le_bytes(),
            blake3.as_bytes(),
            &(shape.len() as u16).to_le_bytes(),
            shape.as_bytes(),
            secret,
        ];
        // Allocated at its final size, so that erasing it erases every copy.
        let mut record =
            Zeroizing::new(Vec::with_capacity(fields.iter().map(|field| field.len()).sum::<usize>() + 32));
        fields.iter().for_each(|field| record.extend_from_slice(field));
        let checksum = blake3::derive_key(CONTEXT, &record);
        record.extend_from_slice(&checksum);
        record
    }

    /// Returns the hash of the keys to which a record belongs.
    pub fn keys_of(record: &[u8]) -> Option<KeysHash> {
        record.get(17..)?.first_chunk().copied().map(KeysHash::new)
    }

    /// Restores kept keys from a record and the keys themselves, if the record is undamaged and not
    /// too old. `now` must come from a clock with the same moment of origin as the clock used when
    /// the keys were made.
    pub fn read(record: &[u8], keys: Vec<u8>, now: Duration) -> Option<Self> {
        let (content, checksum) = record.split_last_chunk::<32>()?;
        // The comparison of hashes does not branch on the position of a difference.
        let same = blake3::Hash::from_bytes(blake3::derive_key(CONTEXT, content)) == *checksum;
        if !declassify(same, DAMAGED_KEYS_ARE_DROPPED) {
            return None;
        }
        let (&format, rest) = content.split_first()?;
        let (made, rest) = rest.split_first_chunk()?;
        let (queries, rest) = rest.split_first_chunk()?;
        let (blake3, rest) = rest.split_first_chunk::<32>()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (shape, secret) = rest.split_at_checked(u16::from_le_bytes(*length).into())?;
        let made = Duration::from_micros(u64::from_le_bytes(*made));
        let age = now.checked_sub(made)?;
        if format != FORMAT || age >= Keys::LONGEST_USE || blake3::hash(&keys) != *blake3 {
            return None;
        }
        let saved = SavedKeys {
            shape: str::from_utf8(shape).ok()?.into(),
            bytes: keys,
            secret: Zeroizing::new(secret.to_vec()),
            queries: u64::from_le_bytes(*queries),
        };
        Some(Self { saved, blake3: KeysHash::new(*blake3), made })
    }
}

#[cfg(test)]
mod tests {
    use spirea_specimens::{Inputs, inputs};

    use super::*;

    /// Appends a valid checksum to `content`, so that only the reader's other checks can reject it.
    fn sealed(content: &[u8]) -> Vec<u8> {
        [content, &blake3::derive_key(CONTEXT, content)].concat()
    }

    #[test]
    fn any_content_is_a_record_of_keys_or_none() {
        let keys = vec![7; 40];
        let saved = SavedKeys {
            shape: "a shape".into(),
            bytes: keys.clone(),
            secret: Zeroizing::new(vec![1; 64]),
            queries: 3,
        };
        let made = Duration::from_secs(100);
        let record = KeptKeys { saved, blake3: KeysHash::from(blake3::hash(&keys)), made }.record();
        let (content, _) = record.split_last_chunk::<32>().unwrap();
        assert_eq!(sealed(content), *record);
        let (corpus, mut generated) = ([content.to_vec(), vec![0; 51]], Inputs::new(10));
        let mut read = 0;
        for _ in 0..inputs(2000) {
            let record = sealed(&generated.changed(&corpus));
            if let Some(kept) = KeptKeys::read(&record, keys.clone(), made) {
                assert_eq!(*kept.record(), record);
                assert_eq!(KeptKeys::keys_of(&record), Some(*kept.blake3()));
                read += 1;
            }
        }
        assert!(read > 0, "a changed shape or secret is read");
    }
}
