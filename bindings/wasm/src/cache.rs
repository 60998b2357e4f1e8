//! Hints in the instance's memory. JavaScript passes stored hints in before a conversation, and
//! takes out the data to be stored after each step.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::Serialize;
use spirea_client::{ClientError, Download, Hint, HintCache, PartDescription};
use spirea_protocols::FileHash;
use spirea_protocols::signature::{Pin, PublicKey};

/// Length of the pieces in which hints are stored, in bytes. Only the last piece may be shorter.
pub const PIECE_BYTES: usize = 4 << 20;

/// Change of the store, for JavaScript to make.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "camelCase", tag = "change")]
pub enum Change {
    /// Store the next piece of the hint with this hash.
    Piece {
        #[cfg_attr(test, ts(type = "string"))]
        hint: FileHash,
        index: usize,
        #[serde(skip)]
        bytes: Vec<u8>,
    },
    /// Delete a hint, or its stored part.
    Drop {
        #[cfg_attr(test, ts(type = "string"))]
        hint: FileHash,
    },
    /// Record the hint of a slot, and delete the slot's former hint.
    Latest {
        slot: String,
        #[cfg_attr(test, ts(type = "string"))]
        hint: FileHash,
    },
    /// Record the sequence number seen for a database under a key.
    Seen { pin: String, sequence: u64 },
}

/// A cache of hints. Clones share their contents.
#[derive(Clone, Default)]
pub struct StoredHints(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    /// Whole hints or their beginnings, unchecked, by hash.
    hints: HashMap<FileHash, Vec<u8>>,
    /// Hash of the latest hint of each slot.
    latest: HashMap<String, FileHash>,
    /// Sequence numbers, by database and key.
    seen: HashMap<String, u64>,
    changes: Vec<Change>,
}

fn pin_name(database: &str, key: &PublicKey) -> String {
    format!("{database} {key}")
}

impl StoredHints {
    /// Adds a stored hint, or the stored beginning of one.
    pub fn give_hint(&self, hash: FileHash, bytes: Vec<u8>) {
        self.0.lock().hints.insert(hash, bytes);
    }

    /// Adds the stored hash of a slot's latest hint.
    pub fn give_latest(&self, slot: String, hash: FileHash) {
        self.0.lock().latest.insert(slot, hash);
    }

    /// Adds the stored sequence number of a pin.
    pub fn give_seen(&self, pin: String, sequence: u64) {
        self.0.lock().seen.insert(pin, sequence);
    }

    /// Drops the bytes of hints: the session has those in use, and JavaScript has the stored ones.
    pub fn forget_bytes(&self) {
        self.0.lock().hints.clear();
    }

    /// Takes the next change of the store, in order.
    pub fn take_change(&self) -> Option<Change> {
        let mut known = self.0.lock();
        (!known.changes.is_empty()).then(|| known.changes.remove(0))
    }
}

impl HintCache for StoredHints {
    fn load(&mut self, part: &PartDescription) -> Result<Option<Hint>, ClientError> {
        let mut known = self.0.lock();
        let hash = part.hint_blake3();
        let whole = |bytes: &&Vec<u8>| bytes.len() as u64 >= part.hint_bytes();
        let Some(bytes) = known.hints.get(hash).filter(whole).cloned() else { return Ok(None) };
        let hint = part.hint(bytes).ok();
        if hint.is_none() {
            // A damaged copy would stay damaged for ever.
            known.hints.remove(hash);
            known.changes.push(Change::Drop { hint: *hash });
        }
        Ok(hint)
    }

    fn begin(&mut self, part: &PartDescription) -> Result<Box<dyn Download>, ClientError> {
        let hash = *part.hint_blake3();
        let bytes = self.0.lock().hints.remove(&hash).unwrap_or_default();
        let stored = bytes.len() / PIECE_BYTES;
        Ok(Box::new(Begun { cache: self.clone(), hash, bytes, stored }))
    }

    fn former(&self, slot: &str, part: &PartDescription) -> Option<Vec<u8>> {
        let known = self.0.lock();
        let bytes = known.hints.get(known.latest.get(slot)?)?;
        (bytes.len() as u64 == part.hint_bytes()).then(|| bytes.clone())
    }

    fn succeed(&mut self, slot: &str, part: &PartDescription) -> Result<(), ClientError> {
        let mut known = self.0.lock();
        let latest = *part.hint_blake3();
        let former = known.latest.insert(slot.into(), latest);
        if former != Some(latest) {
            former.and_then(|former| known.hints.remove(&former));
            known.changes.push(Change::Latest { slot: slot.into(), hint: latest });
        }
        Ok(())
    }

    fn seen(&self, database: &str, key: &PublicKey) -> u64 {
        self.0.lock().seen.get(&pin_name(database, key)).copied().unwrap_or(0)
    }

    fn saw(&mut self, database: &str, pin: &Pin) -> Result<(), ClientError> {
        let mut known = self.0.lock();
        let name = pin_name(database, &pin.key);
        if known.seen.get(&name).is_none_or(|&seen| seen < pin.sequence) {
            known.seen.insert(name.clone(), pin.sequence);
            known.changes.push(Change::Seen { pin: name, sequence: pin.sequence });
        }
        Ok(())
    }
}

/// A hint whose download is under way.
struct Begun {
    cache: StoredHints,
    hash: FileHash,
    bytes: Vec<u8>,
    /// Number of stored pieces.
    stored: usize,
}

impl Begun {
    /// Queues all complete pieces for storing; at the end of the hint, also the shorter last piece.
    fn store(&mut self, at_end: bool) {
        let mut known = self.cache.0.lock();
        let rest = self.bytes[self.stored * PIECE_BYTES..].chunks(PIECE_BYTES);
        for bytes in rest.filter(|piece| at_end || piece.len() == PIECE_BYTES) {
            let (hint, index) = (self.hash, self.stored);
            known.changes.push(Change::Piece { hint, index, bytes: bytes.to_vec() });
            self.stored += 1;
        }
    }
}

impl Download for Begun {
    fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn cut(&mut self, bytes: u64) -> Result<(), ClientError> {
        self.bytes.truncate(usize::try_from(bytes).unwrap_or(usize::MAX));
        if self.bytes.len() < self.stored * PIECE_BYTES {
            self.stored = 0;
            self.cache.0.lock().changes.push(Change::Drop { hint: self.hash });
        }
        Ok(())
    }

    fn push(&mut self, bytes: &[u8]) -> Result<(), ClientError> {
        self.bytes.extend_from_slice(bytes);
        self.store(false);
        Ok(())
    }

    fn finish(&mut self, part: &PartDescription) -> Result<Hint, ClientError> {
        self.store(true);
        match part.hint(std::mem::take(&mut self.bytes)) {
            Ok(hint) => Ok(hint),
            Err(error) => {
                self.cut(0)?;
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests;
