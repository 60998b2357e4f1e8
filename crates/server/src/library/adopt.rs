//! Adoption of snapshots that took the place of served ones, for example by
//! `spirea build --overwrite`, and of versions that another process published into a repository
//! that this process only reads.

use std::sync::Arc;

use serde::Serialize;
use spirea_cpu::priority::at_low_priority;
use spirea_engine::Served;
use spirea_protocols::signature::{Pin, Signature};
use spirea_protocols::{ProtocolError, Version};
use spirea_store::succession::{Shrinking, check_base, check_successor};
use spirea_store::{Manifest, StoreError};

use super::bring_up::open_verified;
use super::entries::{Entry, Library};
use super::folder::Folder;
use super::source::Source;
use super::thread::spawn;
use super::version_files::VersionFiles;

/// Reason why the snapshot in a folder is not adopted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AdoptError {
    /// The snapshot cannot be opened, or clients could not switch to its table.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Clients that pin the key of the current version would refuse it.
    #[error("clients that pin the key of the current version would refuse the snapshot: {0}")]
    Signature(ProtocolError),
    /// The snapshot does not fit the server's party.
    #[error("the snapshot's protocol needs the setting party (--party): {0}")]
    Party(ProtocolError),
    /// The snapshot and the current version need different numbers of servers.
    #[error(
        "of the snapshot and the current version one needs two servers, and the other one: clients could not follow; build it with a protocol for as many servers, or under another name (--name)"
    )]
    OtherServers,
    /// The snapshot is damaged, or no backend takes it.
    #[error("{0}")]
    Load(String),
}

/// Snapshots that are not adopted, with the names of their databases.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.iter().map(|(name, cause)| format!("{name}: {cause}")).collect::<Vec<_>>().join("; "))]
pub(crate) struct ReloadError(Vec<(String, AdoptError)>);

/// The version of a database after its folder was read again.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Reloaded {
    name: String,
    /// Identifier by which clients name the version.
    version: Version,
    /// True if the version did not answer before.
    new: bool,
}

impl Library {
    /// Reads again the folders of snapshots and of repositories that this process only reads.
    /// Adopts new versions one after another. Other repositories are not affected. When this
    /// returns, the new versions answer.
    ///
    /// # Errors
    /// [`ReloadError`] if a snapshot is not adopted; its former version continues to answer. Each
    /// failure is logged.
    pub fn reload(self: &Arc<Self>, shrinking: Shrinking) -> Result<Vec<Reloaded>, ReloadError> {
        let (mut reloaded, mut failed) = (Vec::new(), Vec::new());
        for (name, entry) in &self.entries {
            let Source::Folder(folder) = &entry.source else { continue };
            match at_low_priority(|| self.adopt(name, entry, folder, shrinking)) {
                Ok(outcome) => {
                    let note = if outcome.new { "the new snapshot answers" } else { "no new snapshot" };
                    tracing::info!(database = %name, "{note}");
                    reloaded.push(outcome);
                }
                Err(error) => {
                    tracing::error!(database = %name, %error, folder = %folder.path().display(), "the snapshot is not adopted; the former one goes on answering");
                    failed.push((name.clone(), error));
                }
            }
        }
        if failed.is_empty() { Ok(reloaded) } else { Err(ReloadError(failed)) }
    }

    /// Reads the folders again on a separate thread; calls `done` with false if a snapshot is not
    /// adopted.
    pub fn spawn_reload(self: &Arc<Self>, done: impl FnOnce(bool) + Send + 'static) {
        let library = Arc::clone(self);
        // The log has the errors.
        spawn("spirea-reload", move || done(library.reload(Shrinking::Refuse).is_ok()));
    }

    fn adopt(
        self: &Arc<Self>,
        name: &str,
        entry: &Entry,
        folder: &Folder,
        shrinking: Shrinking,
    ) -> Result<Reloaded, AdoptError> {
        let _turn = entry.turn();
        let answering = self.engine.version(name, None).ok();
        let adopted = self.adopt_newer(name, folder, answering, shrinking);
        // Operators see the error until a version is adopted.
        adopted.inspect_err(|error| self.engine.refuse(name, error.to_string()))
    }

    fn adopt_newer(
        self: &Arc<Self>,
        name: &str,
        folder: &Folder,
        answering: Option<Served>,
        shrinking: Shrinking,
    ) -> Result<Reloaded, AdoptError> {
        let version = folder.read()?;
        let reloaded = |new| Reloaded { name: name.into(), version: version.version(), new };
        check_base(&version.base)?;
        let opening = self.loader.opening();
        let party = version.base.manifest().protocol.party(opening).map_err(AdoptError::Party)?;
        if let Some(served) = &answering
            && *served.version() == version.version()
        {
            // Publishing the version again clears a former refusal.
            self.engine.publish(served.clone());
            return Ok(reloaded(false));
        }
        // The check is made even if the current version could not be loaded: clients know its name
        // and its kind.
        let current = folder.current();
        let former = current.base.manifest();
        check_successor(version.base.manifest(), former, former.table.entries, shrinking)?;
        check_signature(&version, current.signature.as_ref())?;
        if answering.is_some_and(|served| served.base().identity().party.is_some() != party.is_some()) {
            return Err(AdoptError::OtherServers);
        }
        self.answer(name, &version, open_verified).map_err(AdoptError::Load)?;
        folder.adopt(version.clone());
        Ok(reloaded(true))
    }
}

/// Checks that the version's signature is valid, and that clients which pin the key of the current
/// version's signature accept it.
fn check_signature(version: &VersionFiles, current: Option<&Signature>) -> Result<(), AdoptError> {
    let Manifest { name, .. } = version.base.manifest();
    let own = version.signature.as_ref();
    let Some(mut pin) =
        current.or(own).map(|signature| Pin { key: signature.key, sequence: signature.sequence })
    else {
        return Ok(());
    };
    pin.accept(name, &version.version(), own).map_err(AdoptError::Signature)
}
