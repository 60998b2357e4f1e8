//! Bringing versions into service: at the start, after a publication, and after a device failure.

use std::sync::{Arc, mpsc};

use spirea_engine::{Database, Served};
use spirea_store::{Repository, Silent, Snapshot};

use super::entries::{Entry, Library};
use super::error::PublishError;
use super::loader::{Loader, Loss};
use super::thread::spawn;
use super::version_files::VersionFiles;
use crate::apple::Opened;

impl Library {
    /// Loads all databases, begins to follow another server if there is one, then waits for device
    /// failures and moves the affected databases to other backends. Returns when the server has
    /// ended.
    pub fn run(self: Arc<Self>, losses: &mpsc::Receiver<Loss>) {
        for (name, entry) in &self.entries {
            match self.load(name, entry) {
                Ok(()) => (),
                Err(cause) => self.engine.fail(name, cause),
            }
        }
        self.spawn_followers();
        for (name, entry) in &self.entries {
            self.settle(name, entry);
        }
        let library = Arc::downgrade(&self);
        drop(self);
        while let Ok(loss) = losses.recv() {
            let Some(library) = library.upgrade() else { return };
            library.leave(&loss);
        }
    }

    /// Verifies and loads the current version.
    fn load(&self, name: &str, entry: &Entry) -> Result<(), String> {
        let _turn = entry.turn();
        let Some(version) = entry.source.versions().into_iter().next() else {
            return Err("nothing has been published yet".into());
        };
        let served = self.open(name, &version, open_verified)?;
        let apple = self.open_apple(name, &version.base)?;
        self.engine.publish(served);
        self.apple.publish(name, apple);
        Ok(())
    }

    /// Replaces the interim form of the current version, then loads the earlier versions that are
    /// kept. The deltas of all but the newest versions stay asleep until clients ask for them.
    /// Failures are logged; the current version keeps answering.
    fn settle(&self, name: &str, entry: &Entry) {
        let versions = entry.source.versions();
        if let Some(current) = versions.first() {
            self.replace_interim(name, &current.base);
        }
        for (place, version) in versions.iter().enumerate().skip(1) {
            let served =
                self.open(name, version, |loader, snapshot| match self.asleep_at(name, place, snapshot) {
                    Some(delta) => Ok(Arc::new(delta)),
                    None => verify(snapshot).and_then(|()| loader.open(snapshot)),
                });
            if let Ok(served) = served {
                self.engine.publish_former(served);
                let _turn = entry.turn();
                self.release_former(name);
            }
        }
    }

    /// Replaces a base's mapped interim form, which is answering, by its final form.
    fn replace_interim(&self, name: &str, base: &Snapshot) {
        let answers = |served: &Served| served.base().identity().version == base.version();
        let answering = self.engine.versions(name).is_ok_and(|versions| versions.iter().any(answers));
        if answering
            && self.loader.has_interim(base)
            && let Ok(database) = self.loader.hold(base)
        {
            self.engine.replace(&database);
        }
    }

    /// Opens a version, reusing those of its parts that already answer.
    pub(super) fn open(
        &self,
        name: &str,
        version: &VersionFiles,
        open: impl Fn(&Loader, &Snapshot) -> Result<Arc<Database>, String>,
    ) -> Result<Served, String> {
        let answering = self.engine.versions(name).unwrap_or_default();
        let database = |snapshot: &Snapshot| {
            let known = answering
                .iter()
                .flat_map(Served::parts)
                .find(|part| part.identity().version == snapshot.version() && !part.is_asleep());
            known.map_or_else(|| open(&self.loader, snapshot), |known| Ok(Arc::clone(known)))
        };
        let base = database(&version.base)?;
        let delta = version.delta.as_ref().map(database).transpose()?;
        let served = Served::new(base, delta).map_err(|error| error.to_string())?;
        Ok(served.signed(version.signature.clone()).with_values(version.values))
    }

    /// Opens the use cases of a base for Apple's clients. An error is also logged.
    pub(super) fn open_apple(&self, name: &str, base: &Snapshot) -> Result<Opened, String> {
        let opened = self.apple.open(name, base, &self.loader.cpu());
        opened.inspect_err(|error| {
            tracing::error!(database = %name, %error, "the tables for Apple's clients could not be loaded");
        })
    }

    /// Removes a failed device, and reopens its databases on other backends.
    fn leave(&self, Loss { device, reason }: &Loss) {
        if !self.loader.lose(device) {
            return;
        }
        tracing::error!(%reason, "a {device} failed");
        for (name, entry) in &self.entries {
            let _turn = entry.turn();
            let reopened = match self.loader.backends() {
                1.. => self.reopen(name, entry),
                0 => Err(format!("its {device} failed ({reason}); start the server again")),
            };
            if let Err(cause) = reopened {
                self.engine.fail(name, cause);
            }
        }
    }

    /// Reopens all parts of the answering versions that are open.
    fn reopen(&self, name: &str, entry: &Entry) -> Result<(), String> {
        let answering = self.engine.versions(name).unwrap_or_default();
        let versions = entry.source.versions();
        self.former.clear();
        for part in answering.iter().flat_map(Served::parts).filter(|part| !part.is_asleep()) {
            let mut snapshots = versions.iter().flat_map(VersionFiles::snapshots);
            let snapshot = snapshots.find(|snapshot| snapshot.version() == part.identity().version);
            // A version that is no longer on disk stops answering.
            if let Some(snapshot) = snapshot {
                self.engine.replace(&self.loader.open(snapshot)?);
            }
        }
        Ok(())
    }

    /// Makes the current version answer. If it cannot be loaded, rolls back to the version before.
    /// `delta` is the delta of the version, if it is already open.
    pub(super) fn bring_up(
        self: &Arc<Self>,
        name: &str,
        entry: &Entry,
        repository: &Repository,
        delta: Option<Arc<Database>>,
    ) -> Result<(), PublishError> {
        entry.tell_changed();
        self.await_followers(name, entry, repository);
        let _turn = entry.turn();
        let Some(current) = repository.current().map(VersionFiles::from) else { return Ok(()) };
        let newest = self.engine.version(name, None).ok();
        if newest.is_some_and(|newest| *newest.version() == current.version()) {
            return Ok(());
        }
        let open = |loader: &Loader, snapshot: &Snapshot| match &delta {
            Some(delta) if delta.identity().version == snapshot.version() => Ok(Arc::clone(delta)),
            _ => loader.open_interim(snapshot),
        };
        if let Err(cause) = self.answer(name, &current, open) {
            self.engine.refuse(name, cause.clone());
            repository.roll_back(None)?;
            entry.tell_changed();
            return Err(PublishError::Load(cause));
        }
        Ok(())
    }

    /// Waits until the servers that follow this one have the current version, or for the configured
    /// time.
    fn await_followers(&self, name: &str, entry: &Entry, repository: &Repository) {
        let Some((most, current)) = self.activate_after.zip(repository.current()) else { return };
        self.engine.expect(name, current.version);
        let late = entry.followers.wait_for(&current.version, most);
        if late > 0 {
            tracing::warn!(database = %name, late, "a version answers though followers do not have it yet");
        }
    }

    /// Opens a version in its interim form by `open`, and makes it answer. A thread then replaces a
    /// new base by its final form.
    ///
    /// # Errors
    /// The cause if a part cannot be opened; the former version continues to answer.
    pub(super) fn answer(
        self: &Arc<Self>,
        name: &str,
        version: &VersionFiles,
        open: impl Fn(&Loader, &Snapshot) -> Result<Arc<Database>, String>,
    ) -> Result<(), String> {
        self.engine.expect(name, version.version());
        let served = self.open(name, version, open)?;
        let apple = self.open_apple(name, &version.base)?;
        self.put(name, version, served, apple);
        Ok(())
    }

    /// Makes an opened version answer, and releases the deltas of former ones. A thread then
    /// replaces a new base by its final form.
    pub(super) fn put(self: &Arc<Self>, name: &str, version: &VersionFiles, served: Served, apple: Opened) {
        let answering = self.engine.versions(name).unwrap_or_default();
        let new_base = answering.iter().all(|other| !Arc::ptr_eq(other.base(), served.base()));
        self.engine.publish(served);
        self.apple.publish(name, apple);
        if let Some(entry) = self.entries.get(name) {
            entry.tell_changed();
        }
        self.release_former(name);
        if new_base && self.loader.has_interim(&version.base) {
            let (library, name, base) = (Arc::clone(self), name.to_owned(), version.base.clone());
            spawn("spirea-hold", move || library.replace_interim(&name, &base));
        }
    }
}

/// Verifies a snapshot, then opens it in its interim form.
pub(super) fn open_verified(loader: &Loader, snapshot: &Snapshot) -> Result<Arc<Database>, String> {
    verify(snapshot)?;
    loader.open_interim(snapshot)
}

/// Verifies a whole snapshot, which takes long. A base shared by several versions is verified only
/// for the first of them.
pub(super) fn verify(snapshot: &Snapshot) -> Result<(), String> {
    snapshot.verify(&Silent).map_err(|error| {
        tracing::error!(database = %snapshot.manifest().name, %error, "the snapshot is damaged");
        error.to_string()
    })
}
