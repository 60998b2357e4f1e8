use spirea_backend::{BackendError, Share};
use spirea_engine::{Database, LoadError};
use spirea_protocols::Opening;
use spirea_protocols::registry::ProtocolParams;
use spirea_store::Snapshot;

/// A backend on which databases are opened.
pub(super) trait DatabaseBackend: Send + Sync {
    /// Returns the backend's kind, a word that is unique among the server's backends.
    fn kind(&self) -> &'static str;

    /// Checks that there is room for a share of a database; called before the share is opened.
    ///
    /// # Errors
    /// [`BackendError::Unavailable`] with the bytes wanted and free.
    fn fits(&self, params: &ProtocolParams, share: Share) -> Result<(), BackendError>;

    /// Opens a verified snapshot that [fits](Self::fits) and measures it. Also returns the name of
    /// the backend or device.
    ///
    /// # Errors
    /// Those of [`Database::open`] and [`Database::measure`].
    fn open(&self, snapshot: &Snapshot, opening: Opening) -> Result<(Database, String), LoadError>;

    /// Returns true for a device with its own memory, to which tables are copied, and which may
    /// fail while the server keeps running.
    fn is_device(&self) -> bool;
}
