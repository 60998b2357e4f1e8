//! Deltas of former versions. Their memory is released when newer versions answer, and they are
//! opened again for clients that still name them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use spirea_engine::{Database, EngineError, Served};
use spirea_protocols::Version;
use spirea_store::Snapshot;

use super::bring_up::verify;
use super::entries::Library;
use super::former::IDLE;
use super::version_files::VersionFiles;

/// Number of a database's newest versions whose deltas stay open: the current version, and the
/// version of clients that do not know the current one yet.
const READY: usize = 2;

impl Library {
    /// Returns a version with all its parts open. A delta that was released is opened once for all
    /// requests that wait for it, on another thread.
    ///
    /// # Errors
    /// [`EngineError::NotYet`] if other former versions take all places; [`EngineError::Stale`] if
    /// the delta cannot be opened, for example because its files are gone.
    pub async fn awake(self: &Arc<Self>, name: &str, served: Served) -> Result<Served, EngineError> {
        let Some(delta) = served.delta().filter(|delta| delta.is_asleep()) else { return Ok(served) };
        let version = delta.identity().version;
        let (mut outcome, sender) = self.former.enter(version, Instant::now()).ok_or(EngineError::NotYet)?;
        if let Some(sender) = sender {
            let (library, name) = (Arc::clone(self), name.to_owned());
            tokio::task::spawn_blocking(move || {
                sender.send_replace(Some(library.open_former(&name, &version)));
            });
        }
        let opened = outcome.wait_for(Option::is_some).await.map_err(|_| EngineError::Panicked)?.clone();
        match opened {
            Some(Ok(delta)) => Ok(served.with_delta(delta)),
            _ => Err(EngineError::Stale { current: *self.engine.version(name, None)?.version() }),
        }
    }

    /// Verifies and opens the delta of a kept version.
    fn open_former(&self, name: &str, version: &Version) -> Result<Arc<Database>, String> {
        let versions = self.entries.get(name).map(|entry| entry.source.versions()).unwrap_or_default();
        let mut deltas = versions.iter().filter_map(|version: &VersionFiles| version.delta.as_ref());
        let Some(snapshot) = deltas.find(|snapshot: &&Snapshot| snapshot.version() == *version) else {
            return Err("the version is no longer kept".into());
        };
        verify(snapshot)?;
        let opened = self.loader.hold(snapshot)?;
        self.former_opened.fetch_add(1, Ordering::Relaxed);
        Ok(opened)
    }

    /// Returns the delta of the kept version number `place`, counted from the newest, without
    /// opening it. Returns `None` if it must be opened: if the version is among the [`READY`]
    /// newest, or no delta that answers has its shape.
    pub(super) fn asleep_at(&self, name: &str, place: usize, snapshot: &Snapshot) -> Option<Database> {
        if place < READY || snapshot.manifest().delta_of.is_none() {
            return None;
        }
        let answering = self.engine.versions(name).unwrap_or_default();
        answering.iter().filter_map(Served::delta).find_map(|delta| delta.asleep_like(snapshot))
    }

    /// Releases the memory of the deltas that only former versions have, except for the newest
    /// [`READY`] versions, and of deltas that were opened on request and are idle. The caller must
    /// hold the turn of the database.
    pub(super) fn release_former(&self, name: &str) {
        let versions = self.engine.versions(name).unwrap_or_default();
        let deltas = |versions: &[Served]| -> Vec<Arc<Database>> {
            versions.iter().filter_map(Served::delta).cloned().collect()
        };
        let (ready, former) = versions.split_at(READY.min(versions.len()));
        let ready = deltas(ready);
        for delta in deltas(former) {
            let version = delta.identity().version;
            if !delta.is_asleep() && ready.iter().all(|other| other.identity().version != version) {
                self.engine.replace(&Arc::new(delta.asleep()));
            }
        }
        self.release_idle();
    }

    /// Releases the memory of deltas that were opened on request and are idle.
    pub fn release_idle(&self) {
        self.former.release(Instant::now(), IDLE);
    }

    /// Returns the number of deltas of former versions that were opened on request.
    pub fn former_opened(&self) -> u64 {
        self.former_opened.load(Ordering::Relaxed)
    }
}
