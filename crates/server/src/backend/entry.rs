use spirea_backend::{BackendError, Share};
use spirea_engine::{Database, LoadError};
use spirea_protocols::Opening;
use spirea_protocols::registry::ProtocolParams;
use spirea_store::Snapshot;

/// A backend on which databases are opened.
pub(super) trait DatabaseBackend: Send + Sync {
    /// What it is, in a word that no other backend of the server has.
    fn kind(&self) -> &'static str;

    /// Whether there is room for a share of a database; asked before it is opened.
    ///
    /// # Errors
    /// [`BackendError::Unavailable`] with the bytes wanted and free.
    fn fits(&self, params: &ProtocolParams, share: Share) -> Result<(), BackendError>;

    /// Opens a verified snapshot that [fits](Self::fits), and measures it. Gives the name of what it is on, too.
    ///
    /// # Errors
    /// Those of [`Database::open`] and [`Database::measure`].
    fn open(&self, snapshot: &Snapshot, opening: Opening) -> Result<(Database, String), LoadError>;

    /// Whether it is a device with memory of its own, to which tables are copied, and which may fail while the server
    /// goes on.
    fn is_device(&self) -> bool;
}
