//! Caches for hints.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use spirea_protocols::FileHash;
use spirea_protocols::signature::{Pin, PublicKey};

use crate::{ClientError, Hint, PartDescription};

/// Storage for hints between sessions, and for the highest sequence numbers that a client has seen
/// under pinned keys.
///
/// A *slot* is a part of a database, such as its base. A new version replaces the slot's hint.
pub trait HintCache: Send {
    /// Returns the hint of a part, if it is cached and undamaged.
    ///
    /// # Errors
    /// If the cache fails.
    fn load(&mut self, part: &PartDescription) -> Result<Option<Hint>, ClientError>;

    /// Begins or resumes a download of a part's hint. A resumed download already contains the bytes
    /// of an earlier attempt. May block until other users of the cache have finished their
    /// download.
    ///
    /// # Errors
    /// If the cache fails.
    fn begin(&mut self, part: &PartDescription) -> Result<Box<dyn Download>, ClientError>;

    /// Returns the bytes of the hint last used in `slot`, if their length is that of this part's
    /// hint. The bytes are not verified; a hint that is computed from them is verified.
    fn former(&self, slot: &str, part: &PartDescription) -> Option<Vec<u8>>;

    /// Notes that a part's hint is used in `slot`, and removes the former hint of the slot.
    /// Otherwise hints would pile up, because new versions may come every second.
    ///
    /// # Errors
    /// If the cache fails.
    fn succeed(&mut self, slot: &str, part: &PartDescription) -> Result<(), ClientError>;

    /// Returns the highest sequence number seen of a database under an operator's key; 0 if none
    /// has been seen.
    fn seen(&self, database: &str, key: &PublicKey) -> u64;

    /// Stores the sequence number that a pin has seen.
    ///
    /// # Errors
    /// If the cache fails.
    fn saw(&mut self, database: &str, pin: &Pin) -> Result<(), ClientError>;
}

/// A hint that is being downloaded.
pub trait Download: Send {
    /// Returns the number of bytes downloaded so far.
    fn bytes(&self) -> u64;

    /// Truncates the download to `bytes`.
    ///
    /// # Errors
    /// If the cache fails.
    fn cut(&mut self, bytes: u64) -> Result<(), ClientError>;

    /// Appends bytes.
    ///
    /// # Errors
    /// If the cache fails.
    fn push(&mut self, bytes: &[u8]) -> Result<(), ClientError>;

    /// Verifies the hint and stores it. Discards a wrong hint.
    ///
    /// # Errors
    /// [`ClientError::HintCorrupted`] if it is not the hint of `part`; if the cache fails.
    fn finish(&mut self, part: &PartDescription) -> Result<Hint, ClientError>;
}

/// A cache in memory, dropped with its last clone, for systems without files, and for clients that
/// must leave no files.
#[derive(Clone, Default)]
pub struct MemoryCache(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    /// Hints by hash.
    hints: HashMap<FileHash, Vec<u8>>,
    /// Hash of each slot's latest hint.
    latest: HashMap<String, FileHash>,
    /// Sequence numbers, by database and key.
    seen: HashMap<(String, String), u64>,
}

impl MemoryCache {
    // A panic under the lock never leaves a partly changed entry.
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock()
    }
}

impl HintCache for MemoryCache {
    fn load(&mut self, part: &PartDescription) -> Result<Option<Hint>, ClientError> {
        let bytes = self.kept().hints.get(part.hint_blake3()).cloned();
        bytes.map(|bytes| part.hint(bytes)).transpose()
    }

    fn begin(&mut self, _: &PartDescription) -> Result<Box<dyn Download>, ClientError> {
        Ok(Box::new(InMemory { bytes: Vec::new(), cache: self.clone() }))
    }

    fn former(&self, slot: &str, part: &PartDescription) -> Option<Vec<u8>> {
        let kept = self.kept();
        let bytes = kept.hints.get(kept.latest.get(slot)?)?;
        (bytes.len() as u64 == part.hint_bytes()).then(|| bytes.clone())
    }

    fn succeed(&mut self, slot: &str, part: &PartDescription) -> Result<(), ClientError> {
        let mut kept = self.kept();
        let latest = *part.hint_blake3();
        if let Some(former) = kept.latest.insert(slot.into(), latest)
            && former != latest
        {
            kept.hints.remove(&former);
        }
        Ok(())
    }

    fn seen(&self, database: &str, key: &PublicKey) -> u64 {
        self.kept().seen.get(&(database.into(), key.to_string())).copied().unwrap_or(0)
    }

    fn saw(&mut self, database: &str, pin: &Pin) -> Result<(), ClientError> {
        let mut kept = self.kept();
        let seen = kept.seen.entry((database.into(), pin.key.to_string())).or_default();
        *seen = pin.sequence.max(*seen);
        Ok(())
    }
}

/// A download to a [`MemoryCache`].
struct InMemory {
    bytes: Vec<u8>,
    cache: MemoryCache,
}

impl Download for InMemory {
    fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn cut(&mut self, bytes: u64) -> Result<(), ClientError> {
        self.bytes.truncate(usize::try_from(bytes).unwrap_or(usize::MAX));
        Ok(())
    }

    fn push(&mut self, bytes: &[u8]) -> Result<(), ClientError> {
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn finish(&mut self, part: &PartDescription) -> Result<Hint, ClientError> {
        let bytes = std::mem::take(&mut self.bytes);
        let hint = part.hint(bytes.clone())?;
        self.cache.kept().hints.insert(*part.hint_blake3(), bytes);
        Ok(hint)
    }
}
