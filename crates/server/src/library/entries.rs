use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use spirea_engine::{Engine, LoadError};

use super::ending::Ending;
use super::followers::Followers;
use super::former::Former;
use super::loader::Loader;
use super::source::Source;
use crate::apple::UseCases;
use crate::follow::Follow;

/// A database of the server.
pub(super) struct Entry {
    pub source: Source,
    /// Lock held while the current version is being brought up, so that versions start to answer in
    /// the order in which they became current.
    turn: Mutex<()>,
    compactions: Mutex<FailedCompactions>,
    /// The servers that follow this database.
    pub(super) followers: Followers,
}

/// Failed compactions of a database, on request or automatic.
#[derive(Clone, Debug, Default)]
pub(crate) struct FailedCompactions {
    /// Number of failures.
    pub count: u64,
    /// Cause of the last compaction's failure; `None` if the last compaction succeeded.
    pub last: Option<String>,
}

impl Entry {
    pub fn compactions(&self) -> MutexGuard<'_, FailedCompactions> {
        // A panic leaves no half-written value.
        self.compactions.lock()
    }

    pub fn turn(&self) -> MutexGuard<'_, ()> {
        // The lock guards no data.
        self.turn.lock()
    }
}

/// The databases of a server.
pub(crate) struct Library {
    pub(super) engine: Arc<Engine>,
    pub(super) loader: Loader,
    pub(super) apple: UseCases,
    pub(super) entries: BTreeMap<String, Entry>,
    /// The server from which the versions of repositories are copied, if there is one.
    pub(super) follow: Option<Follow>,
    /// Maximum time that a new version waits for followers; `None` if it does not wait.
    pub(super) activate_after: Option<Duration>,
    /// Deltas of former versions that were opened for a client.
    pub(super) former: Former,
    /// Number of times that a delta of a former version was opened.
    pub(super) former_opened: AtomicU64,
    /// Ends the threads that follow.
    pub(super) ending: Arc<Ending>,
}

impl Library {
    /// Creates the library of the sources' databases, and announces each to the engine. The
    /// repositories follow another server if `follow` names one. A new version waits for the time
    /// `activate_after`, if given, for the servers that follow this one.
    ///
    /// # Errors
    /// [`LoadError::DuplicateName`].
    pub fn new(
        engine: Arc<Engine>,
        loader: Loader,
        sources: Vec<Source>,
        follow: Option<Follow>,
        activate_after: Option<Duration>,
    ) -> Result<Self, LoadError> {
        let (mut entries, apple) = (BTreeMap::new(), UseCases::default());
        for source in sources {
            let (name, current) = (source.name(), source.versions().into_iter().next());
            if let Some(version) = &current {
                apple.announce(&name, &version.base);
            }
            engine.announce(&name, current.map(|version| version.version()).unwrap_or_default())?;
            let (turn, compactions) = (Mutex::default(), Mutex::default());
            entries.insert(name, Entry { source, turn, compactions, followers: Followers::default() });
        }
        let (former, former_opened, ending) = Default::default();
        Ok(Self { engine, loader, apple, entries, follow, activate_after, former, former_opened, ending })
    }

    /// Returns the use cases of Apple's clients.
    pub fn apple(&self) -> &UseCases {
        &self.apple
    }

    /// Ends the threads that follow another server, when they next look.
    pub fn end(&self) {
        self.ending.end();
    }

    /// Returns the failed compactions of each database, by name.
    pub fn failed_compactions(&self) -> impl Iterator<Item = (&str, FailedCompactions)> {
        self.entries.iter().map(|(name, entry)| (name.as_str(), entry.compactions().clone()))
    }
}
