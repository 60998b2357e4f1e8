use std::time::Duration;

use spirea_math::secret::{DAMAGED_KEYS_ARE_DROPPED, declassify};
use spirea_protocols::SavedKeys;
use spirea_wire::KeysHash;
use zeroize::Zeroizing;

use crate::Keys;

/// The form of what is written; another one is no keys.
const FORMAT: u8 = 1;
/// Before what is hashed, so that no other hash is this one.
const CONTEXT: &str = "spirea 2026 kept evaluation keys";

/// Evaluation keys with their secret, kept for another session of the same client to go on with: it need not make and upload
/// new ones.
///
/// They come as two pieces: the keys, megabytes that hold no secret, and a record of a few kilobytes with the secret and the
/// count of queries, which changes with every look-up. Whoever keeps them removes the record before a look-up and writes it
/// after one whose answers were right. So a session that ends in the middle of a look-up ends its keys, and a server learns
/// no second bit of them.
pub struct KeptKeys {
    pub(crate) saved: SavedKeys,
    pub(crate) blake3: KeysHash,
    pub(crate) made: Duration,
}

impl KeptKeys {
    /// The evaluation keys.
    pub fn keys(&self) -> &[u8] {
        &self.saved.bytes
    }

    /// Their BLAKE3.
    pub fn blake3(&self) -> &KeysHash {
        &self.blake3
    }

    /// The record of their secret.
    pub fn record(&self) -> Zeroizing<Vec<u8>> {
        let Self { saved: SavedKeys { shape, secret, queries, .. }, blake3, made } = self;
        let fields: [&[u8]; 7] = [
            &[FORMAT],
            &(made.as_micros() as u64).to_le_bytes(),
            &queries.to_le_bytes(),
            blake3,
            &(shape.len() as u16).to_le_bytes(),
            shape.as_bytes(),
            secret,
        ];
        // Of its size from the beginning, so that what is erased is all there was.
        let mut record =
            Zeroizing::new(Vec::with_capacity(fields.iter().map(|field| field.len()).sum::<usize>() + 32));
        fields.iter().for_each(|field| record.extend_from_slice(field));
        let checksum = blake3::derive_key(CONTEXT, &record);
        record.extend_from_slice(&checksum);
        record
    }

    /// The keys that a record is of.
    pub fn keys_of(record: &[u8]) -> Option<KeysHash> {
        record.get(17..49)?.try_into().ok()
    }

    /// What was kept as a record and these keys, if it is undamaged and not too old `now`, by a clock whose moment is that of
    /// the clock by which they were made.
    pub fn read(record: &[u8], keys: Vec<u8>, now: Duration) -> Option<Self> {
        let (content, checksum) = record.split_last_chunk::<32>()?;
        // Hashes are compared without a branch on where they differ.
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
        Some(Self { saved, blake3: *blake3, made })
    }
}
