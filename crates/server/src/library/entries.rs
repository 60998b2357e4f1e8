use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use spirea_engine::{Engine, LoadError};

use super::loader::Loader;
use super::source::Source;

/// A database of the server.
pub(super) struct Entry {
    pub source: Source,
    /// Held while its current version is made to answer, so that versions come to answer in the order in which they
    /// became current.
    turn: Mutex<()>,
    compactions: Mutex<FailedCompactions>,
}

/// The compactions of a database that failed, whatever asked for them.
#[derive(Clone, Debug, Default)]
pub(crate) struct FailedCompactions {
    /// How many there were.
    pub count: u64,
    /// Why the last compaction failed, if it did.
    pub last: Option<String>,
}

impl Entry {
    pub fn compactions(&self) -> MutexGuard<'_, FailedCompactions> {
        // Whoever panicked left whole values.
        self.compactions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn turn(&self) -> MutexGuard<'_, ()> {
        // It guards no data.
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The databases of a server.
pub(crate) struct Library {
    pub(super) engine: Arc<Engine>,
    pub(super) loader: Loader,
    pub(super) entries: BTreeMap<String, Entry>,
}

impl Library {
    /// The databases of sources, each announced to the engine.
    ///
    /// # Errors
    /// [`LoadError::DuplicateName`].
    pub fn new(engine: Arc<Engine>, loader: Loader, sources: Vec<Source>) -> Result<Self, LoadError> {
        let mut entries = BTreeMap::new();
        for source in sources {
            let (name, current) = (source.name(), source.versions().into_iter().next());
            engine.announce(&name, current.map_or([0; 32], |version| version.name()))?;
            entries.insert(name, Entry { source, turn: Mutex::default(), compactions: Mutex::default() });
        }
        Ok(Self { engine, loader, entries })
    }

    /// The compactions that failed, of each database by name.
    pub fn failed_compactions(&self) -> impl Iterator<Item = (&str, FailedCompactions)> {
        self.entries.iter().map(|(name, entry)| (name.as_str(), entry.compactions().clone()))
    }
}
