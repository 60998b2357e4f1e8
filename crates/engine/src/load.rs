use std::sync::Arc;

use spirea_backend::{Backend as _, ProtocolBackend, Timed};
use spirea_protocols::{Opening, Responder, Role};
use spirea_store::{Progress, Snapshot};

use crate::{Database, Identity, LoadError};

impl Database {
    /// Verifies a snapshot, loads it on a backend and [measures](Database::measure) it. The call
    /// takes at least the time of reading the whole snapshot.
    ///
    /// # Errors
    /// [`LoadError::Store`] if a file is damaged or unreadable; [`LoadError::Protocol`] if the
    /// backend refuses the matrix, or `opening` does not say which of two servers this is;
    /// [`LoadError::Inconsistent`] if the parts do not belong together.
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

    /// Loads a verified snapshot. Nothing is computed yet: the caller must call
    /// [`Database::measure`] when the database has its turn.
    ///
    /// # Errors
    /// Errors of [`Database::load`], except for damage that exists already before the call.
    pub fn open<B: ProtocolBackend>(
        snapshot: &Snapshot,
        backend: &Arc<B>,
        opening: Opening,
    ) -> Result<Self, LoadError> {
        Self::open_behind(snapshot, backend, opening, |responder| responder)
    }

    /// Loads a verified snapshot as [`Database::open`] does, and replaces its responder by the
    /// result of `in_place`: for example, a responder that lets other servers fold and combines
    /// their partials.
    ///
    /// # Errors
    /// Errors of [`Database::open`].
    pub fn open_behind<B: ProtocolBackend>(
        snapshot: &Snapshot,
        backend: &Arc<B>,
        opening: Opening,
        in_place: impl FnOnce(Box<dyn Responder>) -> Box<dyn Responder>,
    ) -> Result<Self, LoadError> {
        let timed = Arc::new(Timed::new(Arc::clone(backend)));
        let responder = snapshot.manifest().protocol.on().open(&timed, snapshot.files(), opening)?;
        Self::opened(snapshot, &timed, opening, in_place(responder))
    }

    /// Creates the database of a snapshot whose server half was opened on `timed`, in the form
    /// `opening`. Nothing is computed.
    ///
    /// # Errors
    /// [`LoadError::Inconsistent`] if the parts do not belong together; [`LoadError::Protocol`] if
    /// `opening` does not say which of two servers this is.
    pub fn opened<B: ProtocolBackend>(
        snapshot: &Snapshot,
        timed: &Timed<B>,
        opening: Opening,
        responder: Box<dyn Responder>,
    ) -> Result<Self, LoadError> {
        let party = snapshot.manifest().protocol.party(opening)?;
        let identity = Identity::of(snapshot, party, timed.id());
        let database = Self::new(identity, responder)?.with_step_times(Arc::clone(timed.observer()));
        Ok(match opening.role {
            Role::Folds(_) => database.of_partials(),
            Role::Combines(_) | Role::Joins(_) => database,
        })
    }
}
