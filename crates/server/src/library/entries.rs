use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use spirea_engine::{Engine, LoadError};
use tokio::sync::{Semaphore, SemaphorePermit, watch};

use super::ending::Ending;
use super::error::PublishError;
use super::followers::Followers;
use super::former::Former;
use super::loader::Loader;
use super::source::Source;
use crate::apple::UseCases;
use crate::follow::Follow;

/// Maximum number of looks of followers that wait for a change.
pub(crate) const WAITING_LOOKS: usize = 128;

/// A database of the server.
pub(super) struct Entry {
    pub source: Source,
    /// Lock held while the current version is being brought up, so that versions start to answer in
    /// the order in which they became current.
    turn: Mutex<()>,
    compactions: Mutex<FailedCompactions>,
    /// The servers that follow this database.
    pub(super) followers: Followers,
    /// Told when the current version's record, or the version that answers, may have changed.
    changed: watch::Sender<()>,
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

    /// Answers the looks that wait for a change, if there is one.
    pub fn tell_changed(&self) {
        self.changed.send_replace(());
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
    /// Places for looks of followers that wait for a change.
    looks: Semaphore,
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
            let (turn, compactions, followers) = Default::default();
            let changed = watch::Sender::new(());
            entries.insert(name, Entry { source, turn, compactions, followers, changed });
        }
        let (former, former_opened, ending) = Default::default();
        let looks = Semaphore::new(WAITING_LOOKS);
        Ok(Self {
            engine,
            loader,
            apple,
            entries,
            follow,
            activate_after,
            former,
            former_opened,
            ending,
            looks,
        })
    }

    /// Returns the use cases of Apple's clients.
    pub fn apple(&self) -> &UseCases {
        &self.apple
    }

    /// Ends the threads that follow another server, when they next look.
    pub fn end(&self) {
        self.ending.end();
    }

    /// Returns a place for a look that waits for a change; `None` if all are taken.
    pub fn waiting_look(&self) -> Option<SemaphorePermit<'_>> {
        self.looks.try_acquire().ok()
    }

    /// Returns a receiver that is told when the record of a database's current version, or the
    /// version that answers, may have changed.
    ///
    /// # Errors
    /// [`PublishError::UnknownDatabase`], [`PublishError::Fixed`].
    pub fn changes(&self, name: &str) -> Result<watch::Receiver<()>, PublishError> {
        Ok(self.entry(name)?.0.changed.subscribe())
    }

    /// Wakes all looks that wait for a change.
    pub fn wake_looks(&self) {
        self.entries.values().for_each(Entry::tell_changed);
    }

    /// Returns the failed compactions of each database, by name.
    pub fn failed_compactions(&self) -> impl Iterator<Item = (&str, FailedCompactions)> {
        self.entries.iter().map(|(name, entry)| (name.as_str(), entry.compactions().clone()))
    }
}
