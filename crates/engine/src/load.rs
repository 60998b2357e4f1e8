use std::sync::Arc;

use spirea_backend::{ProtocolBackend, Timed};
use spirea_protocols::{Opening, Responder, Role};
use spirea_store::{Progress, Snapshot};

use crate::{Database, HintFile, Identity, LoadError};

impl Database {
    /// Verifies a snapshot, loads it on a backend and [measures](Database::measure) it. Takes as long as reading all of
    /// it does.
    ///
    /// # Errors
    /// [`LoadError::Store`] if a file is damaged or unreadable, [`LoadError::Protocol`] if the backend
    /// refuses the matrix or `opening` does not say which of two servers this is, [`LoadError::Inconsistent`] if
    /// the parts do not belong together.
    pub fn load<B: ProtocolBackend>(
        snapshot: &Snapshot,
        backend: &Arc<B>,
        opening: Opening,
        progress: &dyn Progress,
    ) -> Result<Self, LoadError> {
        snapshot.verify(progress)?;
        let database = Self::open(snapshot, backend, opening)?;
        database.measure()?;
        Ok(database)
    }

    /// Loads a snapshot that has been verified. It computes nothing yet: [`Database::measure`] is the caller's, when it
    /// has its turn.
    ///
    /// # Errors
    /// Those of [`Database::load`], but for files that were damaged before.
    pub fn open<B: ProtocolBackend>(
        snapshot: &Snapshot,
        backend: &Arc<B>,
        opening: Opening,
    ) -> Result<Self, LoadError> {
        Self::open_behind(snapshot, backend, opening, |responder| responder)
    }

    /// Loads a snapshot that has been verified, as [`Database::open`] does, behind what answers in its place: such as a
    /// server that has others fold, and joins what they make.
    ///
    /// # Errors
    /// Those of [`Database::open`].
    pub fn open_behind<B: ProtocolBackend>(
        snapshot: &Snapshot,
        backend: &Arc<B>,
        opening: Opening,
        in_place: impl FnOnce(Box<dyn Responder>) -> Box<dyn Responder>,
    ) -> Result<Self, LoadError> {
        let manifest = snapshot.manifest();
        let timed = Arc::new(Timed::new(Arc::clone(backend)));
        let responder = in_place(manifest.protocol.on().open(&timed, snapshot.files(), opening)?);
        let identity = Identity {
            name: manifest.name.clone(),
            version: snapshot.version(),
            party: manifest.protocol.party(opening)?,
            params: manifest.protocol.clone(),
            table: manifest.table.clone(),
            hint: HintFile::of(snapshot),
            manifest: manifest.hashed_bytes().into(),
            backend: backend.id(),
        };
        let database = Self::new(identity, responder)?.with_step_times(Arc::clone(timed.observer()));
        Ok(match opening.role {
            Role::Folds(_) => database.of_partials(),
            Role::Combines(_) | Role::Joins(_) => database,
        })
    }
}
