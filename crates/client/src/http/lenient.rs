//! A cache of hints that works without a writable folder.

use std::io::ErrorKind;
use std::path::Path;

use spirea_protocols::signature::{Pin, PublicKey};

use super::Keep;
use super::cache::FileCache;
use crate::{ClientError, Download, Hint, HintCache, MemoryCache, PartDescription};

/// A folder of hints, with memory for everything that cannot be written there.
struct Lenient {
    folder: FileCache,
    memory: MemoryCache,
}

/// Opens the cache that options name: a folder, or memory.
///
/// Falls back to memory if the system has no place for caches or the user may not write there. A
/// folder named in the options must exist or be created.
///
/// # Errors
/// [`ClientError::Cache`] if a folder cannot be created.
pub(super) fn open(keep: Keep, folder: Option<&Path>) -> Result<Box<dyn HintCache>, ClientError> {
    let memory = MemoryCache::default();
    match (keep, FileCache::place(folder)) {
        (Keep::Memory, _) | (_, None) => Ok(Box::new(memory)),
        (Keep::Persistent, Some(place)) => match FileCache::open(&place) {
            Ok(cache) => Ok(Box::new(Lenient { folder: cache, memory })),
            Err(error) if folder.is_none() && is_unwritable(&error) => Ok(Box::new(memory)),
            Err(error) => Err(error),
        },
    }
}

/// Returns true if the user may not write to the folder.
fn is_unwritable(error: &ClientError) -> bool {
    let ClientError::Cache { source, .. } = error else { return false };
    matches!(source.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem)
}

/// Returns the folder's result, or that of `otherwise` if the user may not write to the folder.
fn or_else<T>(
    result: Result<T, ClientError>,
    otherwise: impl FnOnce() -> Result<T, ClientError>,
) -> Result<T, ClientError> {
    match result {
        Err(error) if is_unwritable(&error) => otherwise(),
        result => result,
    }
}

impl HintCache for Lenient {
    fn load(&mut self, part: &PartDescription) -> Result<Option<Hint>, ClientError> {
        match self.memory.load(part)? {
            None => or_else(self.folder.load(part), || Ok(None)),
            hint => Ok(hint),
        }
    }

    fn begin(&mut self, part: &PartDescription) -> Result<Box<dyn Download>, ClientError> {
        or_else(self.folder.begin(part), || self.memory.begin(part))
    }

    fn former(&self, slot: &str, part: &PartDescription) -> Option<Vec<u8>> {
        self.memory.former(slot, part).or_else(|| self.folder.former(slot, part))
    }

    fn succeed(&mut self, slot: &str, part: &PartDescription) -> Result<(), ClientError> {
        self.memory.succeed(slot, part)?;
        or_else(self.folder.succeed(slot, part), || Ok(()))
    }

    fn seen(&self, database: &str, key: &PublicKey) -> u64 {
        self.memory.seen(database, key).max(self.folder.seen(database, key))
    }

    fn saw(&mut self, database: &str, pin: &Pin) -> Result<(), ClientError> {
        self.memory.saw(database, pin)?;
        or_else(self.folder.saw(database, pin), || Ok(()))
    }
}
